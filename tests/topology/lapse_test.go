package topology

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// Whoever waits has what it waits for some milliseconds after it is free, also where
// nobody gives it back: a lease ends by itself, and no message says so. That holds for
// each primitive with leases, whichever clients wait, and whoever had it meanwhile.

// A having is something that is held, and that its holder can give back.
type having struct {
	release func(context.Context) error
}

// A lessee takes a thing on one of its clients. n counts the callers, so that
// readers and writers can take turns.
type lessee func(ctx context.Context, c *latchkey.Client, n int, opts ...latchkey.LockOption) (having, error)

func lesseeOf(lock func(c *latchkey.Client, n int) latchkey.Locker) lessee {
	return func(ctx context.Context, c *latchkey.Client, n int, opts ...latchkey.LockOption) (having, error) {
		h, err := lock(c, n).Lock(ctx, opts...)
		if err != nil {
			return having{}, err
		}
		return having{h.Unlock}, nil
	}
}

// polls is the back-off of a spinning lock.
var polls = rlock.Backoff{Initial: time.Millisecond, Max: 8 * time.Millisecond, Multiplier: 2}

// lessees are all things with leases, of one client.
var lessees = map[string]lessee{
	"rlock":  lesseeOf(func(c *latchkey.Client, _ int) latchkey.Locker { return rlock.New(c, "x") }),
	"fenced": lesseeOf(func(c *latchkey.Client, _ int) latchkey.Locker { return rlock.New(c, "x", rlock.Fenced()) }),
	"spin":   lesseeOf(func(c *latchkey.Client, _ int) latchkey.Locker { return rlock.New(c, "x", rlock.Spin(polls)) }),
	"fair":   lesseeOf(func(c *latchkey.Client, _ int) latchkey.Locker { return fairlock.New(c, "x") }),
	"write":  lesseeOf(func(c *latchkey.Client, _ int) latchkey.Locker { return rwlock.New(c, "x").WriteLock() }),
	"read and write": lesseeOf(func(c *latchkey.Client, n int) latchkey.Locker {
		if n%3 == 0 {
			return rwlock.New(c, "x").WriteLock()
		}
		return rwlock.New(c, "x").ReadLock()
	}),
	"write and read": lesseeOf(func(c *latchkey.Client, n int) latchkey.Locker {
		if n%2 == 1 {
			return rwlock.New(c, "x").WriteLock()
		}
		return rwlock.New(c, "x").ReadLock()
	}),
	"group": lesseeOf(func(c *latchkey.Client, _ int) latchkey.Locker { return multilock.NewGroup(c, "x", "a", "b") }),
	"groups that overlap": lesseeOf(func(c *latchkey.Client, n int) latchkey.Locker {
		return multilock.NewGroup(c, "x", "a", fmt.Sprint("b", n%2))
	}),
	"multi-lock": lesseeOf(func(c *latchkey.Client, _ int) latchkey.Locker {
		return multilock.New(rlock.New(c, "x"), rlock.New(c, "y"))
	}),
	"multi-lock with a fair one": lesseeOf(func(c *latchkey.Client, _ int) latchkey.Locker {
		return multilock.New(fairlock.New(c, "x"), rlock.New(c, "y"))
	}),
	"permit":      permits(1, 1),
	"two permits": permits(2, 2),
}

// permits takes n permits of a semaphore that has all.
func permits(all, n int) lessee {
	return func(ctx context.Context, c *latchkey.Client, _ int, opts ...latchkey.LockOption) (having, error) {
		s := permitsemaphore.New(c, "x")
		if _, err := s.TrySetPermits(ctx, all); err != nil {
			return having{}, err
		}
		got, err := s.AcquireN(ctx, n, opts...)
		if err != nil {
			return having{}, err
		}
		return having{func(ctx context.Context) error {
			for _, p := range got {
				if err := p.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		}}, nil
	}
}

const (
	// lapse is the lease of each, and lapseWithin how much later the next one has it, at
	// most, in fake time.
	lapse       = 400 * time.Millisecond
	lapseWithin = 10 * time.Millisecond
)

// A scene is a way for a thing to become free.
type scene struct {
	first []latchkey.LockOption // of the first one who has it
	opts  []latchkey.LockOption // of those who wait
	gives time.Duration         // after which the first one gives it back; 0: never
	some  bool                  // every other one of those who wait gives up before its turn
	dies  bool                  // whoever has it is cut off from Redis at once, and each has a client
	run   int                   // how many one after another are of one client; 0: one
	lease time.Duration
}

var scenes = map[string]scene{
	"fixed leases": {
		first: []latchkey.LockOption{latchkey.Lease(lapse)}, opts: []latchkey.LockOption{latchkey.Lease(lapse)}, lease: lapse,
	},
	"MaxHold": {
		first: []latchkey.LockOption{latchkey.MaxHold(lapse)}, opts: []latchkey.LockOption{latchkey.MaxHold(lapse)}, lease: lapse,
	},
	"given back once":              {opts: []latchkey.LockOption{latchkey.Lease(lapse)}, gives: 300 * time.Millisecond, lease: lapse},
	"given back to its own client": {opts: []latchkey.LockOption{latchkey.Lease(lapse)}, gives: 300 * time.Millisecond, run: 2, lease: lapse},
	"given back, next to its own": {
		opts: []latchkey.LockOption{latchkey.Lease(5 * time.Millisecond)}, gives: 300 * time.Millisecond, run: 3, lease: 5 * time.Millisecond,
	},
	"given back early": {
		first: []latchkey.LockOption{latchkey.Lease(4 * time.Second)}, opts: []latchkey.LockOption{latchkey.Lease(lapse)},
		gives: 300 * time.Millisecond, lease: lapse,
	},
	"some give up": {
		opts: []latchkey.LockOption{latchkey.Lease(lapse)}, gives: 300 * time.Millisecond, some: true, lease: lapse,
	},
	"crashes": {dies: true, lease: 900 * time.Millisecond},
}

func TestLeasesThatEndByThemselves(t *testing.T) {
	for kind, take := range lessees {
		for name, sc := range scenes {
			for _, clients := range []int{2, 3}[:redistest.Many(2, 1)] {
				if clients > 2 && (sc.dies || sc.run > 0) {
					continue // each has one of its own
				}
				t.Run(fmt.Sprintf("%s/%s/%d clients", kind, name, clients), func(t *testing.T) {
					redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
						lapses(t, []*redistest.Env{env}, take, sc, clients, lapseWithin)
					})
				})
			}
		}
	}
}

// A red-lock has no server that could notify its waiters. They ask again after
// at most 200 ms, each after a random delay.
func TestLeasesOfRedlocksThatEndByThemselves(t *testing.T) {
	for name, sc := range scenes {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
				lapses(t, env.Fleet(3), nil, sc, 3, 450*time.Millisecond)
			})
		})
	}
}

// lapses makes five callers wait for what the first one holds, and checks when
// they get it. On several servers it is a red-lock.
func lapses(t *testing.T, fleet []*redistest.Env, take lessee, sc scene, clients int, within time.Duration) {
	if sc.dies {
		clients = 6
	}
	rdbs := make([][]*redis.Client, clients) // by client and server
	cs := make([][]*latchkey.Client, clients)
	for i := range clients {
		for _, env := range fleet {
			var opts []latchkey.Option
			if sc.dies {
				opts = append(opts, latchkey.WithWatchdogTimeout(sc.lease))
			}
			rdbs[i] = append(rdbs[i], env.Client())
			cs[i] = append(cs[i], newClient(t, rdbs[i][len(rdbs[i])-1], opts...))
		}
	}
	clientOf := func(n int) int { return n / max(sc.run, 1) % clients }
	ask := func(ctx context.Context, n int, opts ...latchkey.LockOption) (having, error) {
		if len(fleet) == 1 {
			return take(ctx, cs[clientOf(n)][0], n, opts...)
		}
		var members []latchkey.Locker
		for _, c := range cs[clientOf(n)] {
			members = append(members, rlock.New(c, "x"))
		}
		h, err := multilock.NewRed(members...).Lock(ctx, opts...)
		if err != nil {
			return having{}, err
		}
		return having{h.Unlock}, nil
	}
	var mu sync.Mutex
	var at []time.Duration // when each had it
	start := time.Now()
	had := func(n int) {
		mu.Lock()
		at = append(at, time.Since(start))
		mu.Unlock()
		if sc.dies {
			for i, env := range fleet {
				env.Partition(rdbs[clientOf(n)][i])
			}
		}
	}
	first, err := ask(t.Context(), 0, sc.first...)
	require.NoError(t, err)
	had(0)
	free := sc.lease // when the first one has it no more
	if sc.gives > 0 {
		free = sc.gives
		time.AfterFunc(sc.gives, func() { _ = first.release(context.Background()) })
	}
	var wg sync.WaitGroup
	want := 1
	for n := 1; n <= 5; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		if sc.some && n%2 == 0 {
			time.AfterFunc(free+sc.lease/2, cancel)
		} else {
			want++
		}
		wg.Go(func() {
			defer cancel()
			if _, err := ask(ctx, n, sc.opts...); err == nil {
				had(n)
			} else {
				assert.ErrorIs(t, err, context.Canceled)
			}
		})
		if len(fleet) == 1 {
			synctest.Wait()
		}
	}
	wg.Wait()
	slices.Sort(at)
	require.GreaterOrEqual(t, len(at), want)
	for i := 1; i < len(at); i++ {
		if i > 1 {
			free = max(free, at[i-1]+sc.lease)
		}
		assert.LessOrEqual(t, at[i], free+within, "number %d of %v", i, at)
	}
	if sc.dies {
		for _, env := range fleet {
			env.Heal()
		}
	}
}

// On a real server no waiter waits until the next recheck either.
func TestLeasesThatEndByThemselvesOnAServer(t *testing.T) {
	for kind, take := range lessees {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			cs := []*latchkey.Client{newClient(t, s.Client(t)), newClient(t, s.Client(t))}
			_, err := take(t.Context(), cs[0], 0, latchkey.Lease(lapse))
			require.NoError(t, err)
			last := time.Now()
			at := make(chan time.Time, 3)
			for n := 1; n <= cap(at); n++ {
				go func() {
					if _, err := take(t.Context(), cs[n%2], n, latchkey.Lease(lapse)); assert.NoError(t, err) {
						at <- time.Now()
					}
				}()
			}
			for range cap(at) {
				select {
				case now := <-at:
					require.Less(t, now.Sub(last), lapse+3*time.Second) // a recheck comes after 5 s
					last = now
				case <-time.After(patience):
					require.FailNow(t, "nobody has had it for long")
				}
			}
		})
	}
}

// A permit whose lease is shortened by hand, and a read lock whose reader
// leaves before the others, end sooner than their waiters know.
func TestLeaseThatIsMadeShorter(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		a, b := newClient(t, env.Client()), newClient(t, env.Client())
		s := permitsemaphore.New(a, "x")
		_, err := s.TrySetPermits(t.Context(), 1)
		require.NoError(t, err)
		p, err := s.Acquire(t.Context(), latchkey.Lease(time.Hour))
		require.NoError(t, err)
		start := time.Now()
		time.AfterFunc(time.Second, func() {
			updated, err := s.UpdateLease(t.Context(), p.ID(), lapse)
			assert.True(t, updated)
			assert.NoError(t, err)
		})
		_, err = permitsemaphore.New(b, "x").Acquire(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), time.Second+lapse+lapseWithin)
	})
}

func TestReaderThatLeavesShorterLeases(t *testing.T) {
	for _, more := range []int{1, 30} {
		redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
			a, b := rwlock.New(newClient(t, env.Client()), "x"), rwlock.New(newClient(t, env.Client()), "x")
			h, err := a.ReadLock().Lock(t.Context(), latchkey.Lease(time.Second))
			require.NoError(t, err)
			for range more {
				_, err = a.ReadLock().Lock(t.Context(), latchkey.Lease(lapse))
				require.NoError(t, err)
			}
			start := time.Now()
			time.AfterFunc(lapse/2, func() { assert.NoError(t, h.Unlock(context.Background())) })
			_, err = b.WriteLock().Lock(t.Context())
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(start), lapse+lapseWithin)
		})
	}
}
