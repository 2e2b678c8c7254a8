package interop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

const (
	// prompt is how soon a waiter must go on. None asks again that soon by
	// itself: Go's recheck is 5 s, and Java's sleep 30 s or without end.
	prompt = 100 * time.Millisecond

	// rounds is how often that is measured. The first ones warm up the JVM.
	rounds = 5
)

// A side is what one side does with an object: a Go client, or a Java thread.
type side struct {
	what string
	take func(t *testing.T) <-chan taken // starts to wait for it; tells when it has it
	give func(t *testing.T)              // gives it back

	asleep func(t *testing.T) // waits until it sleeps; nil when nobody can say so
}

// taken is the end of a wait.
type taken struct {
	at  time.Time
	err error
}

// wakes fails the test unless b, which waits for what a has, goes on promptly
// when a gives it back: in the median, and never so late that b may have asked
// by itself.
func (r *rig) wakes(t *testing.T, name string, a, b side) {
	t.Helper()
	r.wakesWithin(t, prompt, name, a, b)
}

// wakesWithin is wakes for a test that runs beside others.
func (r *rig) wakesWithin(t *testing.T, limit time.Duration, name string, a, b side) {
	t.Helper()
	took := make([]time.Duration, rounds)
	for i := range took {
		at(t, a, a.take(t))
		woken := b.take(t)
		r.subscribed(t, name)
		if b.asleep != nil {
			b.asleep(t)
		} else {
			time.Sleep(30 * time.Millisecond) // it asks once more behind that, and falls asleep
		}
		require.Empty(t, woken, "%s has what %s has", b.what, a.what)
		start := time.Now()
		a.give(t)
		took[i] = at(t, b, woken).Sub(start)
		b.give(t)
	}
	t.Logf("%s wakes %s after %v", a.what, b.what, took)
	slices.Sort(took)
	require.Less(t, took[rounds/2], limit, "median of %v", took)
	require.Less(t, took[rounds-1], 2*time.Second, "slowest of %v", took)
}

// at returns when s got what it waits for.
func at(t *testing.T, s side, ch <-chan taken) time.Time {
	t.Helper()
	select {
	case got := <-ch:
		require.NoError(t, got.err, s.what)
		return got.at
	case <-time.After(patience):
		require.Fail(t, "still waiting", s.what)
		return time.Time{}
	}
}

// goSide is a Go client. take and give wait for Redis.
func goSide(what string, take, give func(t *testing.T) error) side {
	return side{
		what: "Go " + what,
		take: func(t *testing.T) <-chan taken {
			ch := make(chan taken, 1)
			go func() {
				err := take(t)
				ch <- taken{time.Now(), err}
			}()
			return ch
		},
		give: func(t *testing.T) { require.NoError(t, give(t)) },
	}
}

// goLocker is a Go client with a lock.
func goLocker(l latchkey.Locker) side {
	var h *latchkey.Hold
	return goSide("locker", func(t *testing.T) (err error) {
		h, err = l.Lock(soon(t))
		return err
	}, func(t *testing.T) error { return h.Unlock(soon(t)) })
}

// javaSide is a Java thread. take and give return the operation and its
// arguments; those of give may need what take has returned.
func javaSide(what string, th *thread, take, give []any) side {
	var last *call
	return side{
		what: "Java " + what,
		take: func(t *testing.T) <-chan taken {
			c := th.start(take[0].(string), take[1:]...)
			last = c
			ch := make(chan taken, 1)
			go func() {
				<-c.done
				ch <- taken{c.at, c.err}
			}()
			return ch
		},
		give: func(t *testing.T) {
			args := slices.Clone(give)
			for i, arg := range args {
				if arg == answer {
					args[i] = last.value
				}
			}
			if len(args) > 0 {
				th.do(t, args[0].(string), args[1:]...)
			}
		},
	}
}

// answer stands for the value that Java's take has returned.
const answer = "<answer>"

func javaLocker(th *thread, kind, name string) side {
	s := javaSide(kind, th, []any{"lock", kind, name}, []any{"unlock", kind, name})
	if kind != "multi" { // which tries its members by turns
		s.asleep = th.asleep
	}
	return s
}

// testWakeUps must run alone: it is about time. c is a Go client.
func testWakeUps(t *testing.T, r *rig, c *latchkey.Client) {
	both := func(what, name string, java, golang side) {
		t.Run(what+", Java to Go", func(t *testing.T) { r.wakes(t, name, java, golang) })
		t.Run(what+", Go to Java", func(t *testing.T) { r.wakes(t, name, golang, java) })
	}
	for _, k := range kinds(r.version) {
		if !k.silent {
			name := r.name(t, k.keep)
			both(k.java, name, javaLocker(r.j.thread(), k.java, name), goLocker(k.open(c, name)))
		}
	}

	m := newMulti(t, r)
	both("multi-lock", m.prefix, javaLocker(m.th, m.kind, strings.Join(m.members, ",")), goLocker(m.l))
	if r.version.since(hasGroupLock) { // between sets that meet in one value
		name := r.name(t)
		both("group lock", name, javaLocker(r.jvm.open(t, r.address(), "strings=true").thread(), "group", name+":a,b"),
			goLocker(multilock.NewGroup(c, name, "b", "c")))
	}

	name := r.name(t)
	rw := rwlock.New(c, name)
	both("read to write", name, javaLocker(r.j.thread(), "read", name), goLocker(rw.WriteLock()))
	both("write to read", name, javaLocker(r.j.thread(), "write", name), goLocker(rw.ReadLock()))

	sem := semaphore.New(c, r.name(t))
	_, err := sem.TrySetPermits(soon(t), 3)
	require.NoError(t, err)
	both("semaphore", sem.Name(),
		javaSide("acquirer", r.j.thread(), []any{"sem.acquire", sem.Name(), 2}, []any{"sem.release", sem.Name(), 2}),
		goSide("acquirer", func(t *testing.T) error { return sem.Acquire(soon(t), 2) }, func(t *testing.T) error { return sem.Release(soon(t), 2) }))
	_, err = sem.Delete(soon(t))
	require.NoError(t, err)

	permits := permitsemaphore.New(c, r.name(t))
	_, err = permits.TrySetPermits(soon(t), 1)
	require.NoError(t, err)
	var p *permitsemaphore.Permit
	both("permits", permits.Name(),
		javaSide("acquirer", r.j.thread(), []any{"permit.acquire", permits.Name()}, []any{"permit.release", permits.Name(), answer}),
		goSide("acquirer", func(t *testing.T) (err error) {
			p, err = permits.Acquire(soon(t))
			return err
		}, func(t *testing.T) error { return p.Release(soon(t)) }))
	_, err = permits.Delete(soon(t))
	require.NoError(t, err)

	latch := countdownlatch.New(c, r.name(t))
	nothing := func(*testing.T) error { return nil }
	t.Run("latch, Java to Go", func(t *testing.T) {
		r.wakes(t, latch.Name(),
			javaSide("counter", r.j.thread(), []any{"latch.tryset", latch.Name(), 1}, []any{"latch.down", latch.Name()}),
			goSide("waiter", func(t *testing.T) error { return latch.Await(soon(t)) }, nothing))
	})
	t.Run("latch, Go to Java", func(t *testing.T) {
		r.wakes(t, latch.Name(),
			goSide("counter", func(t *testing.T) error {
				_, err := latch.TrySetCount(soon(t), 1)
				return err
			}, func(t *testing.T) error { return latch.CountDown(soon(t)) }),
			javaSide("waiter", r.j.thread(), []any{"latch.await", latch.Name(), 20000}, nil))
	})
}

// TestHoldAtLeast: a lock that Go gives back, but leaves to lapse, is had by a thread
// of Java when it has lapsed, though it has seen a longer lease, and the thread before
// it gives up in between.
func TestHoldAtLeast(t *testing.T) {
	forReleases(t, func(t *testing.T, v version) {
		r := newRig(t, v, latchkey.PubSubAuto, redistest.Start(t))
		for _, tt := range []struct {
			kind, java, value string
			since             version
			open              func(c *latchkey.Client, name string) latchkey.Locker
		}{
			{"rlock", "rlock", "", "", func(c *latchkey.Client, name string) latchkey.Locker { return rlock.New(c, name) }},
			{"read", "write", "", "", func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).ReadLock() }},
			{"write", "write", "", "", func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).WriteLock() }},
			{"group", "group", ":a", hasGroupLock, func(c *latchkey.Client, name string) latchkey.Locker { return multilock.NewGroup(c, name, "a") }},
		} {
			if !v.since(tt.since) {
				continue
			}
			t.Run(tt.kind, func(t *testing.T) {
				name := r.name(t)
				j := r.jvm.open(t, r.address(), "strings=true")
				h, err := tt.open(r.client(t), name).Lock(soon(t), latchkey.HoldAtLeast(2*time.Second))
				require.NoError(t, err)
				first, second := j.thread(), j.thread()
				gives := first.start("trylock", tt.java, name+tt.value, 1200)
				first.asleep(t)
				gets := second.start("lock", tt.java, name+tt.value)
				second.asleep(t)
				require.NoError(t, h.Unlock(soon(t)))
				require.Equal(t, "false", gives.wait(t, patience))
				gets.wait(t, 10*time.Second) // the lease was 30 s
				second.do(t, "unlock", tt.java, name+tt.value)
			})
		}
	})
}
