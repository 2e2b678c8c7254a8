package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/semaphore"
)

// set creates the semaphore with n permits.
func set(t testing.TB, c *latchkey.Client, name string, n int) *semaphore.Semaphore {
	t.Helper()
	s := semaphore.New(c, name)
	ok, err := s.TrySetPermits(t.Context(), n)
	require.NoError(t, err)
	require.True(t, ok)
	return s
}

func available(t testing.TB, s *semaphore.Semaphore) int {
	t.Helper()
	n, err := s.AvailablePermits(context.Background())
	require.NoError(t, err)
	return n
}

func TestPermits(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	c := locktest.NewClient(t, rdb)
	ctx := t.Context()
	s := semaphore.New(c, "s")
	require.Equal(t, "s", s.Name())

	require.Zero(t, available(t, s), "permits of what does not exist")
	require.ErrorIs(t, s.TryAcquire(ctx, 1), latchkey.ErrNotAcquired)
	ok, err := s.ReleaseIfExists(ctx, 1)
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, rdb.Exists(ctx, "s").Val())

	ok, err = s.TrySetPermits(ctx, 5)
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = s.TrySetPermits(ctx, 7)
	require.NoError(t, err)
	require.False(t, ok)

	require.NoError(t, s.Acquire(ctx, 2))
	require.NoError(t, s.TryAcquire(ctx, 3))
	require.ErrorIs(t, s.TryAcquire(ctx, 1), latchkey.ErrNotAcquired)
	require.ErrorIs(t, s.TryAcquire(ctx, 1, latchkey.Wait(20*time.Millisecond)), latchkey.ErrNotAcquired)
	require.NoError(t, s.Acquire(ctx, 0), "none are always there")
	require.Equal(t, "0", rdb.Get(ctx, "s").Val())

	require.NoError(t, s.Release(ctx, 0))
	require.NoError(t, s.Release(ctx, 4))
	ok, err = s.ReleaseIfExists(ctx, 1)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 5, available(t, s))

	require.NoError(t, s.AddPermits(ctx, 2))
	require.NoError(t, s.AddPermits(ctx, 0))
	require.NoError(t, s.AddPermits(ctx, -10))
	require.Equal(t, -3, available(t, s))
	require.NoError(t, s.AddPermits(ctx, 10))
	n, err := s.DrainPermits(ctx)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	n, err = s.DrainPermits(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, "0", rdb.Get(ctx, "s").Val(), "drained, not deleted")

	ok, err = s.Delete(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = s.Delete(ctx)
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, s.Release(ctx, 1), "a release makes it")
	require.Equal(t, "1", rdb.Get(ctx, "s").Val())
}

func TestBadArguments(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	c := locktest.NewClient(t, rdb)
	ctx := t.Context()
	s := set(t, c, "s", 3)
	for what, f := range map[string]func() error{
		"Acquire":         func() error { return s.Acquire(ctx, -1) },
		"TryAcquire":      func() error { return s.TryAcquire(ctx, -1) },
		"Release":         func() error { return s.Release(ctx, -1) },
		"ReleaseIfExists": func() error { _, err := s.ReleaseIfExists(ctx, -1); return err },
		"TrySetPermits":   func() error { _, err := s.TrySetPermits(ctx, -1); return err },
		"too many":        func() error { _, err := s.TrySetPermits(ctx, math.MaxInt); return err },
		"too many more":   func() error { return s.AddPermits(ctx, math.MaxInt) },
		"too many less":   func() error { return s.AddPermits(ctx, math.MinInt) },
		"TTL":             func() error { _, err := s.TrySetPermits(ctx, 1, semaphore.TTL(-time.Second)); return err },
		"Lease":           func() error { return s.TryAcquire(ctx, 1, latchkey.Lease(time.Second)) },
		"Label":           func() error { return s.TryAcquire(ctx, 1, latchkey.Label("me")) },
	} {
		if strings.HasPrefix(what, "too many") && math.MaxInt == math.MaxInt32 {
			continue // no int is too many
		}
		err := f()
		var e *latchkey.Error
		require.ErrorAs(t, err, &e, what)
		require.Equal(t, "semaphore", e.Kind, what)
		require.Equal(t, "s", e.Name, what)
		require.False(t, e.MaybeApplied(), what)
		require.NotErrorIs(t, err, latchkey.ErrNotAcquired, what)
	}
	require.Equal(t, 3, available(t, s))
	require.PanicsWithValue(t, "semaphore: New: the client is nil", func() { semaphore.New(nil, "s") })
	require.PanicsWithValue(t, "semaphore: New: the name is empty", func() { semaphore.New(c, "") })

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Acquire(cancelled, 1), context.Canceled)
	require.Equal(t, 3, available(t, s), "nothing is sent for a context that is done")
	require.NoError(t, s.Release(cancelled, 1), "a release goes on all the same")
	require.Equal(t, 4, available(t, s))
}

func TestKeyConflict(t *testing.T) {
	for _, value := range []string{"hash", "text"} {
		t.Run(value, func(t *testing.T) {
			rdb := redistest.Start(t).Client(t)
			ctx := t.Context()
			if value == "hash" {
				require.NoError(t, rdb.HSet(ctx, "s", "a", 1).Err())
			} else {
				require.NoError(t, rdb.Set(ctx, "s", "text", 0).Err())
			}
			s := semaphore.New(locktest.NewClient(t, rdb), "s")
			errs := map[string]error{
				"Acquire":    s.Acquire(ctx, 1),
				"Release":    s.Release(ctx, 1),
				"AddPermits": s.AddPermits(ctx, 1),
			}
			_, errs["AvailablePermits"] = s.AvailablePermits(ctx)
			_, errs["DrainPermits"] = s.DrainPermits(ctx)
			_, errs["Delete"] = s.Delete(ctx)
			_, errs["TrySetPermits"] = s.TrySetPermits(ctx, 1)
			for what, err := range errs {
				require.ErrorIs(t, err, latchkey.ErrKeyConflict, what)
			}
			require.Equal(t, []string{"s"}, rdb.Keys(ctx, "*").Val(), "nothing else is written")
		})
	}
}

func TestTTLIsKept(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := semaphore.New(c, "s")
		ok, err := s.TrySetPermits(ctx, 5, semaphore.TTL(time.Hour))
		require.NoError(t, err)
		require.True(t, ok)
		env.Advance(10 * time.Minute)
		require.NoError(t, s.AddPermits(ctx, 3))
		require.NoError(t, s.Acquire(ctx, 1))
		require.NoError(t, s.Release(ctx, 1))
		n, err := s.DrainPermits(ctx)
		require.NoError(t, err)
		require.Equal(t, 8, n)
		require.Equal(t, 50*time.Minute, env.Redis.PTTL(ctx, "s").Val())
		env.Advance(50 * time.Minute)
		require.Empty(t, env.Redis.Keys(ctx, "*").Val(), "nothing outlives it")
	})
}

// Claims expire after a minute, and then only the count is left.
func TestOnlyTheCountIsLeft(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 5)
		for range redistest.Many(1000, 200) {
			require.NoError(t, s.Acquire(ctx, 1))
			require.NoError(t, s.Release(ctx, 1))
		}
		keys := env.Redis.Keys(ctx, "*").Val()
		require.LessOrEqual(t, len(keys), 3, "one request at a time has one claim")
		for _, k := range keys {
			if k != "s" {
				require.Contains(t, k, "latchkey_claim:{s}:")
				require.Positive(t, env.Redis.PTTL(ctx, k).Val(), "%s expires", k)
			}
		}
		env.Advance(time.Minute)
		require.Equal(t, []string{"s"}, env.Redis.Keys(ctx, "*").Val())
	})
}

// SM-01: a wake-up carries no quantity.
func TestTwoAndOne(t *testing.T) {
	rdb := redistest.Start(t)
	a, c := set(t, locktest.NewClient(t, rdb.Client(t)), "s", 2), locktest.NewClient(t, rdb.Client(t))
	b := semaphore.New(c, "s")
	ctx := t.Context()
	require.NoError(t, a.Acquire(ctx, 2))
	two := b.AcquireAsync(ctx, 2)
	redistest.Until(t, "the first to wait", func() bool { return c.Stats().Waiting == 1 })
	one := b.AcquireAsync(ctx, 1)
	redistest.Until(t, "the second to wait", func() bool { return c.Stats().Waiting == 2 })
	require.NoError(t, a.Release(ctx, 2))
	require.NoError(t, locktest.Receive(t, "the two", two))
	require.Empty(t, one, "it does not overtake")
	require.NoError(t, a.Release(ctx, 2))
	require.NoError(t, locktest.Receive(t, "the one", one))
	require.Equal(t, 1, available(t, b))
}

// SM-02: everything that raises the number of permits wakes waiters at once.
func TestWhateverAddsWakes(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		other := semaphore.New(locktest.NewClient(t, env.Client()), "s")
		for what, f := range map[string]func() error{
			"Release":         func() error { return other.Release(ctx, 1) },
			"ReleaseIfExists": func() error { _, err := other.ReleaseIfExists(ctx, 1); return err },
			"AddPermits":      func() error { return other.AddPermits(ctx, 1) },
			"TrySetPermits": func() error {
				if _, err := other.Delete(ctx); err != nil {
					return err
				}
				_, err := other.TrySetPermits(ctx, 1)
				return err
			},
		} {
			s := semaphore.New(c, "s")
			_, err := s.TrySetPermits(ctx, 0)
			require.NoError(t, err)
			got := s.AcquireAsync(ctx, 1)
			env.Advance(time.Second)
			require.Empty(t, got, what)
			start := time.Now()
			require.NoError(t, f(), what)
			require.NoError(t, <-got, what)
			require.Zero(t, time.Since(start), what)
		}
	})
}

// SM-14 within a client: a large request is not starved by small ones.
func TestFirstComeFirstServed(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 5)
		require.NoError(t, s.Acquire(ctx, 5))
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for i, n := range []int{1, 5, 1, 2, 1} {
			wg.Go(func() {
				assert.NoError(t, s.Acquire(ctx, n))
				mu.Lock()
				order = append(order, fmt.Sprint(i, ":", n))
				mu.Unlock()
				time.Sleep(time.Second)
				assert.NoError(t, s.Release(ctx, n))
			})
			synctest.Wait()
		}
		require.NoError(t, s.Release(ctx, 5))
		wg.Wait()
		require.Equal(t, []string{"0:1", "1:5"}, order[:2])
		require.ElementsMatch(t, []string{"2:1", "3:2", "4:1"}, order[2:])
		require.Equal(t, 5, available(t, s))
		require.Zero(t, c.Stats().Waiting)
	})
}

// One request serves many waiters, and a waiter that cannot be served does not
// ask.
func TestOneQuestionServesMany(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 0)
		const waiters = 20
		var got []<-chan error
		for range waiters {
			got = append(got, s.AcquireAsync(ctx, 1))
			synctest.Wait() // in this order
		}
		env.Advance(time.Second)
		other := semaphore.New(locktest.NewClient(t, env.Client()), "s")
		before := env.Commands("evalsha")
		require.NoError(t, other.Release(ctx, waiters-5))
		for i := range waiters - 5 {
			require.NoError(t, <-got[i])
		}
		synctest.Wait()
		// The release (and its text, which miniredis did not know), and one question.
		require.LessOrEqual(t, env.Commands("evalsha")-before, int64(2))
		require.NoError(t, other.Release(ctx, 5))
		for i := waiters - 5; i < waiters; i++ {
			require.NoError(t, <-got[i])
		}
		require.Zero(t, available(t, s))
	})
}

// A waiter that gives up at any moment leaves nothing behind and does not lose
// the wake-up of others.
func TestCancelStorm(t *testing.T) {
	srv := redistest.Start(t)
	c := locktest.NewClient(t, srv.Client(t))
	s := set(t, c, "s", 3)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%20)*time.Millisecond)
			defer cancel()
			n := 1 + i%3
			switch err := s.Acquire(ctx, n); {
			case err == nil:
				time.Sleep(time.Duration(i%5) * time.Millisecond)
				assert.NoError(t, s.Release(ctx, n))
			case !errors.Is(err, context.DeadlineExceeded):
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	redistest.Until(t, "all permits to be back", func() bool { return available(t, s) == 3 })
	require.Zero(t, c.Stats().Waiting)
	redistest.Until(t, "the subscription to end", func() bool { return c.Stats().Subscriptions == 0 })
}

func TestClose(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 1)
		require.NoError(t, s.Acquire(ctx, 1))
		head, next := s.AcquireAsync(ctx, 1), s.TryAcquireAsync(ctx, 1, latchkey.Wait(time.Hour))
		env.Advance(time.Second)
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-head, latchkey.ErrClosed)
		require.ErrorIs(t, <-next, latchkey.ErrClosed)
		require.ErrorIs(t, s.Acquire(ctx, 1), latchkey.ErrClosed)
		require.ErrorIs(t, <-s.ReleaseAsync(ctx, 1), latchkey.ErrClosed)
		require.Equal(t, "0", env.Redis.Get(ctx, "s").Val(), "permits have no owner: Close gives none back")
	})
}

// Only undoing brings back what an acquire without a reply took. Close waits
// for that as long as it may, and reports when it could not be done.
func TestCloseUndoes(t *testing.T) {
	for _, heals := range []bool{true, false} {
		t.Run(fmt.Sprintf("heals=%v", heals), func(t *testing.T) {
			locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, _ *latchkey.Client) {
				rdb := env.Client()
				c := latchkey.New(redistest.User(t, rdb), latchkey.WithUnlockTimeout(5*time.Second))
				s := set(t, c, "s", 1)
				require.NoError(t, s.Acquire(t.Context(), 1)) // so that Redis knows the script
				require.NoError(t, s.Release(t.Context(), 1))
				env.Link(rdb).OnNext(1, "evalsha", redistest.Swallow)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				acquired := s.AcquireAsync(ctx, 1)
				env.Advance(50 * time.Millisecond)
				env.Partition(rdb) // before the first undo
				require.ErrorIs(t, <-acquired, context.DeadlineExceeded)
				require.Equal(t, "0", env.Redis.Get(t.Context(), "s").Val(), "taken")
				if heals {
					time.AfterFunc(3*time.Second, func() { env.Heal(rdb) })
				}
				start := time.Now()
				err := c.Close()
				require.LessOrEqual(t, time.Since(start), 7*time.Second, "the unlock timeout and two seconds")
				if heals {
					require.NoError(t, err)
					require.Equal(t, "1", env.Redis.Get(t.Context(), "s").Val(), "given back")
					return
				}
				require.ErrorContains(t, err, `close "s"`)
				require.ErrorContains(t, err, "could not be undone")
				require.GreaterOrEqual(t, time.Since(start), 5*time.Second)
			})
		})
	}
}

// A lost message costs only a recheck.
func TestLostMessage(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 0)
		got := s.AcquireAsync(ctx, 1)
		env.Advance(time.Second)
		start := time.Now()
		require.NoError(t, env.Redis.Set(ctx, "s", 1, 0).Err()) // and no message
		require.NoError(t, <-got)
		require.LessOrEqual(t, time.Since(start), 5*time.Second)
		require.EqualValues(t, 1, c.Stats().Rechecked)
	})
}

func TestWait(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 1)
		start := time.Now()
		require.ErrorIs(t, s.TryAcquire(ctx, 2, latchkey.Wait(7*time.Second)), latchkey.ErrNotAcquired)
		require.Equal(t, 7*time.Second, time.Since(start))
		bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		err := s.Acquire(bounded, 2)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, latchkey.ErrNotAcquired)
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestKeyPrefix(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, _ *latchkey.Client) {
		s := set(t, locktest.NewClient(t, env.Client(), latchkey.WithKeyPrefix("app:")), "s", 1)
		require.Equal(t, "s", s.Name())
		require.Equal(t, "1", env.Redis.Get(t.Context(), "app:s").Val())
	})
}
