package latchkey_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// takenBy returns the TakenError of a refusal.
func takenBy(t *testing.T, err error) *latchkey.TakenError {
	t.Helper()
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	var taken *latchkey.TakenError
	require.ErrorAs(t, err, &taken)
	require.NoError(t, taken.Err)
	return taken
}

// only is for a call of which the error counts.
func only[T any](_ T, err error) error { return err }

// onBoth runs f in fake time, where a unit is a second, and on a real server, where it is
// a millisecond.
func onBoth(t *testing.T, f func(t *testing.T, client func() redis.UniversalClient, unit time.Duration)) {
	t.Run("FakeTime", func(t *testing.T) {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			f(t, func() redis.UniversalClient { return b.Client() }, time.Second)
		})
	})
	t.Run("Redis", func(t *testing.T) {
		s := redistest.Start(t)
		f(t, func() redis.UniversalClient { return s.Client(t) }, time.Millisecond)
	})
}

// A refusal tells who has the object, of every primitive.
func TestRefusalsTellWhoHasIt(t *testing.T) {
	label, lease := latchkey.Label("ann"), latchkey.Lease(time.Minute)
	for kind, p := range map[string]struct {
		take, try func(ctx context.Context, c *latchkey.Client) error
	}{
		"rlock": {
			func(ctx context.Context, c *latchkey.Client) error {
				return only(rlock.New(c, "x").Lock(ctx, label, lease))
			},
			func(ctx context.Context, c *latchkey.Client) error { return only(rlock.New(c, "x").TryLock(ctx)) },
		},
		"fairlock": {
			func(ctx context.Context, c *latchkey.Client) error {
				return only(fairlock.New(c, "x").Lock(ctx, label, lease))
			},
			func(ctx context.Context, c *latchkey.Client) error {
				return only(fairlock.New(c, "x").TryLock(ctx, latchkey.Wait(time.Second)))
			},
		},
		"rwlock": {
			func(ctx context.Context, c *latchkey.Client) error {
				return only(rwlock.New(c, "x").ReadLock().Lock(ctx, label, lease))
			},
			func(ctx context.Context, c *latchkey.Client) error {
				return only(rwlock.New(c, "x").WriteLock().TryLock(ctx))
			},
		},
		"multilock": {
			func(ctx context.Context, c *latchkey.Client) error {
				return only(multilock.NewGroup(c, "x", "v").Lock(ctx, label, lease))
			},
			func(ctx context.Context, c *latchkey.Client) error {
				return only(multilock.NewGroup(c, "x", "v", "w").TryLock(ctx))
			},
		},
		"permitsemaphore": {
			func(ctx context.Context, c *latchkey.Client) error {
				s := permitsemaphore.New(c, "x")
				_, err := s.TrySetPermits(ctx, 1)
				return errors.Join(err, only(s.Acquire(ctx, label, lease)))
			},
			func(ctx context.Context, c *latchkey.Client) error {
				return only(permitsemaphore.New(c, "x").TryAcquire(ctx))
			},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client func() redis.UniversalClient, unit time.Duration) {
				holder, c := newClient(t, client()), newClient(t, client(), latchkey.WithTakenDetails())
				require.NoError(t, p.take(t.Context(), holder))
				time.Sleep(10 * unit)
				err := p.try(t.Context(), c)
				taken := takenBy(t, err)
				require.Equal(t, kind, taken.Kind)
				require.Equal(t, "x", taken.Name)
				require.Len(t, taken.Holders, 1)
				require.Equal(t, "ann", taken.Holders[0].Label)
				require.Equal(t, host(t), taken.Holders[0].Host)
				require.Positive(t, taken.Holders[0].PID)
				require.Greater(t, taken.At.Sub(taken.Holders[0].Since), 8*unit)
				near(t, time.Minute-10*unit, taken.Holders[0].Lease)
				require.Contains(t, err.Error(), `"x": not acquired: held by ann (`)
				require.Regexp(t, ` for [\d.]+m?s, lease (1m0|[45]\d)`, err.Error())

				plain := takenBy(t, p.try(t.Context(), holder))
				require.Empty(t, plain.Holders, "it was not asked for")
				require.Equal(t, "not acquired", plain.Error())
				if kind != "permitsemaphore" && kind != "fairlock" {
					near(t, time.Minute-10*unit, plain.Lease)
				}
			})
		})
	}
}

// Of what has no holders it tells the count.
func TestRefusalsTellTheCount(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() redis.UniversalClient, _ time.Duration) {
		c := newClient(t, client(), latchkey.WithTakenDetails())
		s := semaphore.New(c, "x")
		_, err := s.TrySetPermits(t.Context(), 2)
		require.NoError(t, err)
		err = s.TryAcquire(t.Context(), 3)
		require.EqualValues(t, 2, takenBy(t, err).Count)
		require.EqualError(t, err, `semaphore: tryacquire "x": not acquired: 2 permits available`)
	})
}

// Without the option a refusal costs nothing.
func TestRefusalsCostNothing(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := newClient(t, b.Redis)
		l := rlock.New(c, "x")
		locked(t, l)
		_, err := l.TryLock(t.Context())
		_ = takenBy(t, err)
		before := b.Commands("")
		_, err = l.TryLock(t.Context())
		require.InDelta(t, 30*time.Second, takenBy(t, err).Lease, float64(time.Second))
		require.EqualValues(t, 1, b.Commands("")-before)
	})
}

func locked(t *testing.T, l latchkey.Locker) *latchkey.Hold {
	t.Helper()
	h, err := l.Lock(t.Context())
	require.NoError(t, err)
	return h
}

// The refusal of an inner lock is not taken for that of the outer one.
func TestWhichLockRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() redis.UniversalClient, _ time.Duration) {
		c := newClient(t, client())
		inner := rlock.New(c, "inner")
		locked(t, inner)
		err := latchkey.Do(t.Context(), rlock.New(c, "outer"), func(ctx context.Context) error {
			_, err := inner.TryLock(ctx)
			return err
		})
		require.Equal(t, "inner", takenBy(t, err).Name)
	})
}

// A holder that is not latchkey's is told by what Redis knows; what others have written
// does no harm on a terminal.
func TestRefusalsByStrangers(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() redis.UniversalClient, _ time.Duration) {
		rdb := client()
		c := newClient(t, rdb, latchkey.WithTakenDetails())
		rdb.HSet(t.Context(), "x", "8743c9c0-0795-4907-87fd-6c719a6b4586:65", 1)
		rdb.PExpire(t.Context(), "x", 20*time.Second)
		_, err := rlock.New(c, "x").TryLock(t.Context())
		require.Regexp(t, `^rlock: trylock "x": not acquired: held by 8743c9c0-0795-4907-87fd-6c719a6b4586:65, lease (20|19\.\d)s$`, err.Error())

		rdb.Set(t.Context(), "latchkey_label:{x}:8743c9c0-0795-4907-87fd-6c719a6b4586:65", "1 1 \x1b[2J \x1b]0;evil\x07", 20*time.Second)
		_, err = rlock.New(c, "x").TryLock(t.Context())
		_ = takenBy(t, err)
		require.NotContains(t, err.Error(), "\x1b")
		require.Contains(t, err.Error(), `\x1b]0;evil`)
	})
}

// A caller that may not look is refused all the same, and so is one that is not answered in time; where
// nobody knows who has the lock, nobody is said to have it.
func TestRefusalsWithoutDetails(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		c := newClient(t, rdb, latchkey.WithTakenDetails())
		l := rlock.New(c, "x")
		locked(t, rlock.New(newClient(t, b.Redis), "x"))
		_, err := l.TryLock(t.Context())
		_ = takenBy(t, err)
		link, first := b.Link(rdb), true
		link.OnCommand(func([]string) redistest.Act {
			if first {
				first = false
				return redistest.Pass
			}
			return redistest.Drop
		})
		start := time.Now()
		_, err = l.TryLock(t.Context())
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		var taken *latchkey.TakenError
		require.ErrorAs(t, err, &taken)
		require.Error(t, taken.Err)
		require.EqualError(t, taken, "not acquired")
		require.Less(t, time.Since(start), 2*time.Second)

		_, err = l.TryLock(t.Context(), latchkey.Wait(50*time.Millisecond))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.False(t, errors.As(err, &taken), "nobody knows: %v", err)
		link.OnCommand(nil)
	})
}

// Of a lock that is made of others, the member that refused is told, and nothing is asked
// about refusals on the way there.
func TestRefusalsOfMembers(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := newClient(t, b.Redis, latchkey.WithTakenDetails())
		locked(t, rlock.New(newClient(t, b.Client()), "b"))
		multi := multilock.New(rlock.New(c, "a"), rlock.New(c, "b"))
		for _, opts := range [][]latchkey.LockOption{nil, {latchkey.Wait(5 * time.Second)}} {
			before := b.Commands("")
			_, err := multi.TryLock(t.Context(), opts...)
			taken := takenBy(t, err)
			require.Equal(t, "b", taken.Name)
			require.Len(t, taken.Holders, 1, "%v", err)
			require.Less(t, b.Commands("")-before, int64(60))
		}
		fleet := b.Fleet(3)
		second, third := newClient(t, fleet[1].Client()), newClient(t, fleet[2].Client())
		red := multilock.NewRed(rlock.New(c, "b"), rlock.New(second, "b"), rlock.New(third, "b"))
		locked(t, rlock.New(newClient(t, fleet[1].Client()), "b"))
		_, err := red.TryLock(t.Context())
		taken := takenBy(t, err)
		require.Equal(t, "multilock", taken.Kind)
		require.Equal(t, red.Name(), taken.Name)
		require.Len(t, taken.Holders, 1, "of the client with the option")
	})
}
