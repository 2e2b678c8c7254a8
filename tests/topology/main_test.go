package topology

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}

// long selects the long forms of the tests.
var long = os.Getenv("LATCHKEY_LONG") == "1"

// patience is how long to wait for something that must happen at some time.
const patience = 20 * time.Second

func newClient(t testing.TB, rdb redis.UniversalClient, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	c := latchkey.New(redistest.User(t, rdb), opts...)
	t.Cleanup(func() { _ = c.Close() }) // its server may be down
	return c
}

// locks are all kinds of lock.
var locks = map[string]struct {
	new    locktest.Factory
	traits []locktest.Trait
}{
	"rlock":      {new: func(c *latchkey.Client, name string) locktest.Lock { return rlock.New(c, name) }},
	"fenced":     {new: func(c *latchkey.Client, name string) locktest.Lock { return rlock.New(c, name, rlock.Fenced()) }},
	"fair":       {new: func(c *latchkey.Client, name string) locktest.Lock { return fairlock.New(c, name) }},
	"write lock": {new: func(c *latchkey.Client, name string) locktest.Lock { return rwlock.New(c, name).WriteLock() }},
	"read lock": {
		new:    func(c *latchkey.Client, name string) locktest.Lock { return rwlock.New(c, name).ReadLock() },
		traits: []locktest.Trait{locktest.Shared()},
	},
}

// A taken is an object that one client holds and nobody else can have.
type taken struct {
	release func(context.Context) error
	lost    <-chan struct{} // nil for what cannot be lost
}

// objects are all exclusive kinds of object. Each function takes the object
// with that name on a client, as soon as it can.
var objects = map[string]func(ctx context.Context, c *latchkey.Client, name string) (taken, error){
	"rlock":  byLock(func(c *latchkey.Client, name string) latchkey.Locker { return rlock.New(c, name) }),
	"fenced": byLock(func(c *latchkey.Client, name string) latchkey.Locker { return rlock.New(c, name, rlock.Fenced()) }),
	"spinning": byLock(func(c *latchkey.Client, name string) latchkey.Locker {
		return rlock.New(c, name, rlock.Spin(rlock.Backoff{}))
	}),
	"fair":       byLock(func(c *latchkey.Client, name string) latchkey.Locker { return fairlock.New(c, name) }),
	"write lock": byLock(func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).WriteLock() }),
	"semaphore": func(ctx context.Context, c *latchkey.Client, name string) (taken, error) {
		s := semaphore.New(c, name)
		if _, err := s.TrySetPermits(ctx, 1); err != nil {
			return taken{}, err
		}
		err := s.Acquire(ctx, 1)
		return taken{release: func(ctx context.Context) error { return s.Release(ctx, 1) }}, err
	},
	"permit semaphore": func(ctx context.Context, c *latchkey.Client, name string) (taken, error) {
		s := permitsemaphore.New(c, name)
		if _, err := s.TrySetPermits(ctx, 1); err != nil {
			return taken{}, err
		}
		p, err := s.Acquire(ctx)
		if err != nil {
			return taken{}, err
		}
		return taken{p.Release, p.Lost()}, nil
	},
}

func byLock(lock func(*latchkey.Client, string) latchkey.Locker) func(context.Context, *latchkey.Client, string) (taken, error) {
	return func(ctx context.Context, c *latchkey.Client, name string) (taken, error) {
		h, err := lock(c, name).Lock(ctx)
		if err != nil {
			return taken{}, err
		}
		return taken{h.Unlock, h.Lost()}, nil
	}
}

// A waiter waits for an object on a goroutine of its own.
type waiter struct {
	got taken
	err error
	at  time.Time
}

func waitFor(ctx context.Context, kind string, c *latchkey.Client, name string) <-chan waiter {
	ch := make(chan waiter, 1)
	go func() {
		got, err := objects[kind](ctx, c, name)
		ch <- waiter{got, err, time.Now()}
	}()
	return ch
}

// waitForMade is waitFor for a semaphore that exists already.
func waitForMade(ctx context.Context, kind string, c *latchkey.Client, name string) <-chan waiter {
	ch := make(chan waiter, 1)
	var got taken
	go func() {
		var err error
		switch kind {
		case "semaphore":
			s := semaphore.New(c, name)
			got.release = func(ctx context.Context) error { return s.Release(ctx, 1) }
			err = s.Acquire(ctx, 1)
		case "permit semaphore":
			var p *permitsemaphore.Permit
			p, err = permitsemaphore.New(c, name).Acquire(ctx)
			got.release = p.Release
		default:
			got, err = objects[kind](ctx, c, name)
		}
		ch <- waiter{got, err, time.Now()}
	}()
	return ch
}

// take takes an object that is free.
func take(t testing.TB, kind string, c *latchkey.Client, name string) taken {
	t.Helper()
	return receive(t, waitFor(t.Context(), kind, c, name))
}

func receive(t testing.TB, ch <-chan waiter) taken {
	t.Helper()
	got, _ := receiveAt(t, ch)
	return got
}

func receiveAt(t testing.TB, ch <-chan waiter) (taken, time.Time) {
	t.Helper()
	select {
	case w := <-ch:
		require.NoError(t, w.err)
		return w.got, w.at
	case <-time.After(patience):
		require.FailNow(t, "nothing came in "+patience.String())
	}
	panic("not reached")
}

// give releases the object and returns when it started to.
func (g taken) give(t testing.TB) time.Time {
	t.Helper()
	start := time.Now()
	require.NoError(t, g.release(t.Context()))
	return start
}

// waiting waits until n calls of c wait.
func waiting(t testing.TB, c *latchkey.Client, n int) {
	t.Helper()
	redistest.Until(t, "the waiters to wait", func() bool { return c.Stats().Waiting == n })
}

// handsOn checks the usual course: one client holds the object, another waits,
// and gets it soon after the release.
func handsOn(t *testing.T, kind string, a, b *latchkey.Client, name string) {
	t.Helper()
	first := take(t, kind, a, name)
	next := waitFor(t.Context(), kind, b, name)
	waiting(t, b, 1)
	if kind != "spinning" {
		redistest.Until(t, "the subscription", func() bool { return b.Stats().Subscriptions > 0 })
	}
	released := first.give(t)
	second, at := receiveAt(t, next)
	require.Less(t, at.Sub(released), 2*time.Second, "time from the release to the next one's")
	second.give(t)
}
