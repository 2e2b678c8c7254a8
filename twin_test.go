package latchkey_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// twins are two names that share Redisson's side keys and Redis channels, and
// one name with the same hash tag.
var twins = []string{"a", "{a}", "x{a}"}

// An access acquires a thing of one kind and name, at once or when it can, and
// returns the function that gives it back.
type access func(ctx context.Context, c *latchkey.Client, name string, opts ...latchkey.LockOption) (func(context.Context) error, error)

// lockAccess returns the accesses to locks.
func lockAccess(of func(c *latchkey.Client, name string) latchkey.Locker) (take, try access) {
	given := func(h *latchkey.Hold, err error) (func(context.Context) error, error) {
		if err != nil {
			return nil, err
		}
		return h.Unlock, nil
	}
	return func(ctx context.Context, c *latchkey.Client, name string, opts ...latchkey.LockOption) (func(context.Context) error, error) {
			return given(of(c, name).Lock(ctx, opts...))
		}, func(ctx context.Context, c *latchkey.Client, name string, opts ...latchkey.LockOption) (func(context.Context) error, error) {
			return given(of(c, name).TryLock(ctx, opts...))
		}
}

// Operations on one name do not affect another, although Redisson has one Redis
// channel, and one queue, for "a" and "{a}".
func TestTwinNames(t *testing.T) {
	s := redistest.Start(t)
	client := func(t *testing.T, opts ...latchkey.Option) *latchkey.Client {
		c := latchkey.New(redistest.User(t, s.Client(t)), opts...)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	read, tryRead := lockAccess(func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).ReadLock() })

	// Of what take gives, one keeps all others out.
	type kind struct {
		name      string
		take, try access
	}
	var kinds []kind
	for name, of := range map[string]func(c *latchkey.Client, name string) latchkey.Locker{
		"rlock":    func(c *latchkey.Client, name string) latchkey.Locker { return rlock.New(c, name) },
		"fenced":   func(c *latchkey.Client, name string) latchkey.Locker { return rlock.New(c, name, rlock.Fenced()) },
		"fairlock": func(c *latchkey.Client, name string) latchkey.Locker { return fairlock.New(c, name) },
		"write":    func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).WriteLock() },
		"group":    func(c *latchkey.Client, name string) latchkey.Locker { return multilock.NewGroup(c, name, "v") },
	} {
		take, try := lockAccess(of)
		kinds = append(kinds, kind{name, take, try})
	}
	permit := func(p *permitsemaphore.Permit, err error) (func(context.Context) error, error) {
		if err != nil {
			return nil, err
		}
		return p.Release, nil
	}
	kinds = append(kinds, kind{
		"semaphore",
		func(ctx context.Context, c *latchkey.Client, name string, _ ...latchkey.LockOption) (func(context.Context) error, error) {
			s := semaphore.New(c, name)
			return func(ctx context.Context) error { return s.Release(ctx, 1) }, s.Acquire(ctx, 1)
		},
		func(ctx context.Context, c *latchkey.Client, name string, opts ...latchkey.LockOption) (func(context.Context) error, error) {
			s := semaphore.New(c, name)
			return func(ctx context.Context) error { return s.Release(ctx, 1) }, s.TryAcquire(ctx, 1, opts...)
		},
	}, kind{
		"permitsemaphore",
		func(ctx context.Context, c *latchkey.Client, name string, opts ...latchkey.LockOption) (func(context.Context) error, error) {
			return permit(permitsemaphore.New(c, name).Acquire(ctx, opts...))
		},
		func(ctx context.Context, c *latchkey.Client, name string, opts ...latchkey.LockOption) (func(context.Context) error, error) {
			return permit(permitsemaphore.New(c, name).TryAcquire(ctx, opts...))
		},
	})
	for _, k := range kinds {
		for _, mine := range twins {
			for _, other := range twins {
				if mine == other {
					continue
				}
				t.Run(k.name+"/"+mine+" "+other, func(t *testing.T) {
					s.FlushAll(t)
					ctx := t.Context()
					holder, waiter, third := client(t), client(t), client(t)
					for _, name := range twins {
						switch k.name {
						case "semaphore":
							_, err := semaphore.New(third, name).TrySetPermits(ctx, 1)
							require.NoError(t, err)
						case "permitsemaphore":
							_, err := permitsemaphore.New(third, name).TrySetPermits(ctx, 1)
							require.NoError(t, err)
						}
					}
					refused := func(c *latchkey.Client, name string) {
						t.Helper()
						_, err := k.try(ctx, c, name)
						require.ErrorIs(t, err, latchkey.ErrNotAcquired)
					}
					free := func(name string) {
						t.Helper()
						release, err := k.try(ctx, third, name)
						require.NoError(t, err)
						require.NoError(t, release(ctx))
					}

					// By a holder that may come again.
					ctxHolder := latchkey.WithHolder(ctx)
					freeMine, err := k.take(ctxHolder, holder, mine, latchkey.Label("mine"))
					require.NoError(t, err)
					free(other)
					freeOther, err := k.take(ctxHolder, holder, other, latchkey.Label("other"))
					require.NoError(t, err)

					type result struct {
						release func(context.Context) error
						err     error
					}
					got := make(chan result, 1)
					go func() {
						release, err := k.take(ctx, waiter, mine)
						got <- result{release, err}
					}()
					redistest.Until(t, "a waiter", func() bool { return waiter.Stats().Waiting == 1 && waiter.Stats().Subscriptions > 0 })
					require.NoError(t, freeOther(ctx))
					if k.name != "fairlock" { // who waits for either stands before all others
						free(other)
					}
					refused(third, mine)
					require.Empty(t, got)
					require.NoError(t, freeMine(ctx))
					select {
					case r := <-got:
						require.NoError(t, r.err)
						refused(third, mine)
						free(other)
						require.NoError(t, r.release(ctx))
						free(mine)
					case <-time.After(4 * time.Second): // it asks by itself after 5 s
						require.Fail(t, "nobody has woken it")
					}
				})
			}
		}
	}

	// Readers stand back for a writer that waits for the same name.
	t.Run("a waiting writer", func(t *testing.T) {
		for _, mine := range twins {
			s.FlushAll(t)
			c, third := client(t), client(t)
			release, err := read(t.Context(), c, mine)
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() {
				_, err := rwlock.New(c, mine).WriteLock().TryLock(t.Context(), latchkey.Wait(time.Minute))
				done <- err
			}()
			redistest.Until(t, "readers to stand back", func() bool {
				release, err := tryRead(t.Context(), third, mine)
				if err == nil {
					require.NoError(t, release(t.Context()))
				}
				return err != nil
			})
			for _, other := range twins {
				if other != mine {
					release, err := tryRead(t.Context(), third, other)
					require.NoError(t, err, "%s while a writer waits for %s", other, mine)
					require.NoError(t, release(t.Context()))
				}
			}
			require.NoError(t, release(t.Context()))
			require.NoError(t, <-done)
		}
	})

	// The end of a count is that of one latch.
	t.Run("latch", func(t *testing.T) {
		for _, mine := range twins {
			s.FlushAll(t)
			c := client(t, latchkey.WithRecheck(20*time.Millisecond))
			for _, name := range twins {
				_, err := countdownlatch.New(c, name).TrySetCount(t.Context(), 1)
				require.NoError(t, err)
			}
			done := make(chan error, 1)
			go func() { done <- countdownlatch.New(c, mine).Await(t.Context()) }()
			redistest.Until(t, "a waiter", func() bool { return c.Stats().Waiting == 1 })
			for _, name := range twins {
				if name != mine {
					require.NoError(t, countdownlatch.New(c, name).CountDown(t.Context()))
				}
			}
			select {
			case err := <-done:
				require.Fail(t, "the count of another has ended", "%s: %v", mine, err)
			case <-time.After(200 * time.Millisecond):
			}
			n, err := countdownlatch.New(c, mine).Count(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
			require.NoError(t, countdownlatch.New(c, mine).CountDown(t.Context()))
			require.NoError(t, <-done)
		}
	})
}
