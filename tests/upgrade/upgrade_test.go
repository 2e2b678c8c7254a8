package upgrade

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.LeakOptions()...) }

const name = "shared"

// patience is shorter than any lease: a waiter that is not woken waits for
// longer.
const patience = 20 * time.Second

// A taker acquires one object and releases it, by one caller at a time.
type taker interface {
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
}

// A newLock is a lock of this commit.
type newLock struct {
	latchkey.Locker
	hold *latchkey.Hold
}

func (l *newLock) lock(ctx context.Context) (err error) {
	l.hold, err = l.Lock(ctx)
	return err
}

func (l *newLock) unlock(ctx context.Context) error { return l.hold.Unlock(ctx) }

// A pair makes takers of one kind, of an old client and of a new one.
type pair struct {
	before func(c *oldClient) taker
	after  func(c *latchkey.Client) taker
}

var pairs = map[string]pair{
	"lock": {
		func(c *oldClient) taker { return &oldLock{oldClient: c, key: name} },
		func(c *latchkey.Client) taker { return &newLock{Locker: rlock.New(c, name)} },
	},
	"fair": {
		func(c *oldClient) taker { return &oldFair{oldClient: c, key: name} },
		func(c *latchkey.Client) taker { return &newLock{Locker: fairlock.New(c, name)} },
	},
	"write": {
		func(c *oldClient) taker { return &oldHalf{oldClient: c, key: name, write: true} },
		func(c *latchkey.Client) taker { return &newLock{Locker: rwlock.New(c, name).WriteLock()} },
	},
	"read": {
		func(c *oldClient) taker { return &oldHalf{oldClient: c, key: name} },
		func(c *latchkey.Client) taker { return &newLock{Locker: rwlock.New(c, name).ReadLock()} },
	},
}

// A world is a server, and clients that are closed before it.
type world struct {
	*testing.T
	server *redistest.Server
}

func newWorld(t *testing.T) *world { return &world{t, redistest.Start(t)} }

func (w *world) before(i int) *oldClient {
	id := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i)
	return &oldClient{rdb: w.server.Client(w), id: id, proof: fmt.Sprint("proof", i)}
}

func (w *world) after() *latchkey.Client {
	c := latchkey.New(redistest.User(w, w.server.Client(w)))
	w.Cleanup(func() { assert.NoError(w, c.Close()) })
	return c
}

// empty waits until nothing is left in Redis; a waitlist expires.
func (w *world) empty() {
	w.Helper()
	var keys []string
	redistest.Until(w, "nothing to be left in Redis", func() bool {
		keys = w.server.Do(w, "KEYS", "*")
		for _, key := range keys {
			if left := w.server.Do(w, "PTTL", key)[0]; key != "latchkey_next:{"+name+"}" || left == "-1" {
				return false
			}
		}
		return true
	})
}

// waits starts a Lock and returns when Redis has refused a request of it that
// was sent after it had subscribed.
func (w *world) waits(l taker) <-chan error {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	done := make(chan error, 1)
	seen := w.server.Monitor(w)
	defer seen.Stop()
	go func() { done <- l.lock(ctx) }()
	redistest.Until(w, "the waiter to ask while it listens", func() bool {
		listens, asks := false, false
		for _, line := range seen.Lines() {
			switch {
			case line.Script():
			case strings.HasSuffix(strings.ToLower(line.Args[0]), "subscribe"):
				listens, asks = true, false
			case strings.HasPrefix(strings.ToLower(line.Args[0]), "eval"):
				asks = listens
			}
		}
		return asks
	})
	return done
}

// gifts returns a function that waits for a grant message published from now
// on.
func (w *world) gifts() func() error {
	w.Helper()
	sub := w.server.Client(w).PSubscribe(w.Context(), "redisson_lock__channel:{"+name+"}:*")
	w.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(w.Context())
	require.NoError(w, err)
	return func() error {
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		defer cancel()
		for {
			m, err := sub.ReceiveMessage(ctx)
			if err != nil || strings.HasPrefix(m.Payload, "+") {
				return err
			}
		}
	}
}

// Each client wakes the other, long before a lease ends, and does not let it in
// before.
func TestEachWakesTheOther(t *testing.T) {
	for kind, p := range pairs {
		holds := p
		if kind == "read" { // which only a writer keeps out
			holds = pairs["write"]
		}
		for _, way := range []string{"before wakes after", "after wakes before"} {
			t.Run(kind+", "+way, func(t *testing.T) {
				w := newWorld(t)
				old := w.before(1)
				holder, waiter := holds.before(old), p.after(w.after())
				if way == "after wakes before" {
					holder, waiter = holds.after(w.after()), p.before(old)
				}
				gifts := w.gifts()
				require.NoError(t, holder.lock(t.Context()))
				done := w.waits(waiter)
				select {
				case err := <-done:
					require.FailNow(t, "the waiter is let in", "%v", err)
				default:
				}
				require.NoError(t, holder.unlock(t.Context()))
				require.NoError(t, <-done)
				if kind == "fair" {
					// In a waitlist the two cannot read each other's entries, and wake instead.
					assert.NoError(t, gifts(), "waiting for the message that gives the lock")
				}
				if kind == "fair" && way == "after wakes before" {
					assert.EqualValues(t, 1, old.given.Load(), "times that the client before has understood that")
				}
				require.NoError(t, waiter.unlock(t.Context()))
				w.empty()
			})
		}
	}
}

// Two old clients and two new ones share a lock. There is one holder at a time,
// no waiter is left behind, and nothing is left in Redis.
func TestBeforeAndAfterShareALock(t *testing.T) {
	for _, kinds := range [][]string{{"lock"}, {"fair"}, {"write", "read"}} {
		t.Run(kinds[0], func(t *testing.T) {
			w := newWorld(t)
			var inside guard
			var wg sync.WaitGroup
			for i := range 2 {
				for j, kind := range kinds {
					old := w.before(2*i + j)
					wg.Go(func() { inside.rounds(w, kind, pairs[kind].before(old)) })
				}
				c := w.after()
				for range 2 { // who hand it over in memory, too
					for _, kind := range kinds {
						wg.Go(func() { inside.rounds(w, kind, pairs[kind].after(c)) })
					}
				}
			}
			wg.Wait()
			w.empty()
		})
	}
}

// A guard counts the callers inside.
type guard struct{ writers, readers atomic.Int64 }

func (g *guard) rounds(w *world, kind string, l taker) {
	for range 25 {
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		err := l.lock(ctx)
		cancel()
		if !assert.NoError(w, err, "%s: %T", kind, l) {
			return
		}
		if kind == "read" {
			g.readers.Add(1)
			assert.Zero(w, g.writers.Load(), "writers beside a reader")
			time.Sleep(100 * time.Microsecond)
			g.readers.Add(-1)
		} else {
			assert.EqualValues(w, 1, g.writers.Add(1), "inside at a time")
			assert.Zero(w, g.readers.Load(), "readers beside %s", kind)
			time.Sleep(100 * time.Microsecond)
			g.writers.Add(-1)
		}
		if !assert.NoError(w, l.unlock(w.Context()), "%s: %T", kind, l) {
			return
		}
	}
}
