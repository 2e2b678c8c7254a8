package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A queue is a fair lock that is held, with what waits for it.
type queue struct {
	*rig
	name    string
	holder  *latchkey.Hold
	waiting int
	granted chan string // who got it, in order; each gives it back at once
}

func newQueue(t *testing.T, r *rig, c *latchkey.Client) *queue {
	t.Helper()
	q := &queue{rig: r, name: r.name(t), granted: make(chan string, 10)}
	var err error
	q.holder, err = fairlock.New(c, q.name).Lock(soon(t))
	require.NoError(t, err)
	return q
}

// queued waits until as many stand in the queue as have come.
func (q *queue) queued(t *testing.T) {
	t.Helper()
	q.waiting++
	q.length(t, q.waiting)
}

func (q *queue) length(t *testing.T, n int) {
	t.Helper()
	redistest.Until(t, fmt.Sprintf("%d in the queue", n), func() bool {
		return q.rdb.LLen(context.Background(), "redisson_lock_queue:{"+q.name+"}").Val() == int64(n)
	})
}

// java lets a Java thread stand in line. wait is that of tryLock, none is lock.
func (q *queue) java(t *testing.T, who string, th *thread, wait ...any) *call {
	t.Helper()
	operation := "lock"
	if len(wait) > 0 {
		operation = "trylock"
	}
	c := th.start(operation, append([]any{"fair", q.name}, wait...)...)
	go func() {
		if <-c.done; c.err == nil && c.value != "false" {
			q.granted <- who
			th.start("unlock", "fair", q.name)
		}
	}()
	q.queued(t)
	return c
}

// golang lets a holder of a Go client stand in line.
func (q *queue) golang(ctx context.Context, t *testing.T, who string, c *latchkey.Client, opts ...fairlock.Option) *grant {
	t.Helper()
	g := lockAsync(ctx, fairlock.New(c, q.name, opts...))
	go func() {
		if <-g.done; g.err == nil {
			q.granted <- who
			_ = g.hold.Unlock(context.Background())
		}
	}()
	q.queued(t)
	return g
}

// release gives the lock back, and expects that all of who get it, in order.
func (q *queue) release(t *testing.T, within time.Duration, who ...string) {
	t.Helper()
	require.NoError(t, q.holder.Unlock(soon(t)))
	limit := time.After(within)
	var got []string
	for range who {
		select {
		case one := <-q.granted:
			got = append(got, one)
		case <-limit:
			require.Equal(t, who, got, "granted within %v", within)
		}
	}
	require.Equal(t, who, got, "granted, in order")
	q.length(t, 0)
	redistest.Until(t, "a free lock", func() bool { return !q.exists(t, q.name) })
}

func testFair(t *testing.T, r *rig) {
	for what, f := range map[string]func(*testing.T, *rig){
		"order":             fairOrder,
		"Go gives up":       fairGoGivesUp,
		"Java gives up":     fairJavaGivesUp,
		"dead Java waiter":  fairDeadJava,
		"dead Go waiter":    fairDeadGo,
		"Java behind death": fairStuckJava,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f(t, r)
		})
	}
}

// fairOrder: there is one queue, whoever stands in it.
func fairOrder(t *testing.T, r *rig) {
	c := r.client(t)
	for range 3 {
		q := newQueue(t, r, c)
		var who []string
		for _, name := range []string{"1 Java", "2 Go", "3 Java", "4 Java", "5 Go", "6 Go", "7 Java", "8 Go"} {
			who = append(who, name)
			if name[2] == 'J' {
				q.java(t, name, r.j.thread())
			} else {
				q.golang(soon(t), t, name, c)
			}
		}
		waiters, err := fairlock.New(c, q.name).Waiters(soon(t))
		require.NoError(t, err)
		require.Len(t, waiters, len(who))
		q.release(t, 2*time.Second, who...)
	}
}

// fairGoGivesUp: a Go waiter that gives up leaves no gap.
func fairGoGivesUp(t *testing.T, r *rig) {
	c := r.client(t)
	q := newQueue(t, r, c)
	first, cancelFirst := context.WithCancel(soon(t))
	middle, cancelMiddle := context.WithCancel(soon(t))
	q.golang(first, t, "1 Go", c)
	q.java(t, "2 Java", r.j.thread())
	q.golang(middle, t, "3 Go", c)
	q.java(t, "4 Java", r.j.thread())
	q.golang(soon(t), t, "5 Go", c)
	cancelFirst()
	cancelMiddle()
	q.length(t, 3)
	q.release(t, 2*time.Second, "2 Java", "4 Java", "5 Go")
}

func fairJavaGivesUp(t *testing.T, r *rig) {
	c := r.client(t)
	q := newQueue(t, r, c)
	first := q.java(t, "1 Java", r.j.thread(), 3000)
	q.golang(soon(t), t, "2 Go", c)
	middle := q.java(t, "3 Java", r.j.thread(), 3000)
	q.java(t, "4 Java", r.j.thread())
	q.golang(soon(t), t, "5 Go", c)
	require.Equal(t, "false", first.wait(t, patience))
	require.Equal(t, "false", middle.wait(t, patience))
	q.length(t, 3)
	q.release(t, 2*time.Second, "2 Go", "4 Java", "5 Go")
}

// fairDeadJava: a dead Java waiter keeps its place until its deadline. tryLock has
// a short one; that of lock cannot be changed in old releases.
func fairDeadJava(t *testing.T, r *rig) {
	q := newQueue(t, r, r.fastClient(t))
	doomed := startJVM(t, r.version)
	dead := q.java(t, "1 Java", doomed.open(t, r.address()).thread(), 3000)
	q.golang(soon(t), t, "2 Go", r.client(t))
	q.java(t, "3 Java", r.j.thread())
	doomed.kill()
	_, err := dead.result(t, patience)
	require.ErrorIs(t, err, errGone)
	q.release(t, fastWatchdog+3*time.Second+2*time.Second, "2 Go", "3 Java")
}

// fairDeadGo: a dead Go waiter keeps its place until QueueTimeout is over.
func fairDeadGo(t *testing.T, r *rig) {
	const timeout = 2 * time.Second
	c := r.client(t, latchkey.WithRecheck(500*time.Millisecond))
	q := newQueue(t, r, r.fastClient(t))
	mortal, kill := r.mortal(t)
	dead, stop := context.WithCancel(soon(t))
	defer stop()
	q.golang(dead, t, "1 Go", mortal, fairlock.QueueTimeout(timeout))
	q.java(t, "2 Java", r.j.thread())
	q.golang(soon(t), t, "3 Go", c, fairlock.QueueTimeout(timeout))
	kill()
	q.release(t, 3*timeout, "2 Java", "3 Go")
}

// fairStuckJava: until 3.31 a Java waiter sleeps until it is told something when
// the holder dies and it looks a moment too early. The Go waiter behind it tells
// it.
func fairStuckJava(t *testing.T, r *rig) {
	mortal, kill := r.mortal(t)
	q := newQueue(t, r, mortal)
	q.java(t, "1 Java", r.j.thread())
	q.golang(soon(t), t, "2 Go", r.client(t, latchkey.WithRecheck(500*time.Millisecond)))
	kill()
	var got []string
	for range 2 {
		select {
		case who := <-q.granted:
			got = append(got, who)
		case <-time.After(fastWatchdog + 3*time.Second):
			require.Fail(t, "nobody gets the lock of a dead holder", "after %v", got)
		}
	}
	require.Equal(t, []string{"1 Java", "2 Go"}, got)
	q.length(t, 0)
}

// TestFairDelete: when Go deletes a fair lock all of Java's waiters look again.
// None of them has a place any more, so nobody else would tell them.
func TestFairDelete(t *testing.T) {
	forReleases(t, func(t *testing.T, v version) {
		r := newRig(t, v, latchkey.PubSubAuto, redistest.Start(t))
		name := r.name(t)
		l := fairlock.New(r.client(t), name)
		_, err := l.Lock(soon(t), latchkey.Lease(time.Minute))
		require.NoError(t, err)
		var threads []*thread
		var calls []*call
		for i := range 3 {
			th := r.j.thread()
			threads, calls = append(threads, th), append(calls, th.start("lock", "fair", name))
			redistest.Until(t, "a place in the queue, and a subscription", func() bool {
				waiters, err := l.Waiters(t.Context())
				require.NoError(t, err)
				return len(waiters) == i+1 && len(r.channels(t, name)) > i
			})
		}
		was, err := l.Delete(t.Context())
		require.NoError(t, err)
		require.True(t, was)
		for range calls {
			var got int
			redistest.Until(t, "the lock in Java", func() bool {
				for i, c := range calls {
					if c != nil {
						select {
						case <-c.done:
							got = i
							return true
						default:
						}
					}
				}
				return false
			})
			calls[got].wait(t, patience)
			calls[got] = nil
			threads[got].do(t, "unlock", "fair", name)
		}
	})
}

// TestFairHoldAtLeast: a lock that Go gives back, but leaves to lapse, is had by a
// thread of Java when it has lapsed, though it has seen a longer lease, and the thread
// before it gives up in between.
func TestFairHoldAtLeast(t *testing.T) {
	forReleases(t, func(t *testing.T, v version) {
		if !v.since(hasFairSleep) {
			return // its second waiter sleeps until it is told that it is its turn
		}
		r := newRig(t, v, latchkey.PubSubAuto, redistest.Start(t))
		name := r.name(t)
		l := fairlock.New(r.client(t), name)
		h, err := l.Lock(soon(t), latchkey.HoldAtLeast(2*time.Second))
		require.NoError(t, err)
		first, second := r.j.thread(), r.j.thread()
		gives := first.start("trylock", "fair", name, 1200)
		first.asleep(t)
		gets := second.start("lock", "fair", name)
		second.asleep(t)
		require.NoError(t, h.Unlock(soon(t)))
		require.Equal(t, "false", gives.wait(t, patience))
		gets.wait(t, 10*time.Second) // the lease was 30 s
		second.do(t, "unlock", "fair", name)
	})
}
