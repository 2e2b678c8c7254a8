package latchkey_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

func TestHoldFrom(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		_, ok := latchkey.HoldFrom(t.Context())
		require.False(t, ok, "no Hold")
		_, ok = latchkey.HoldFrom(latchkey.WithHolder(t.Context()))
		require.False(t, ok, "a holder is no Hold")
		_, ok = latchkey.HoldFrom((*latchkey.Hold)(nil).Context())
		require.False(t, ok, "nil Hold")

		outer := rlock.New(c, "outer", rlock.Fenced())
		for _, inner := range []latchkey.Locker{
			outer, rlock.New(c, "a"), rwlock.New(c, "rw").ReadLock(), multilock.New(rlock.New(c, "b"), rlock.New(c, "c")), multilock.NewGroup(c, "g", "d", "e"),
		} {
			h, err := outer.Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, latchkey.Do(h.Context(), inner, func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(latchkey.WithHolder(ctx), time.Hour) // neither hides it
				defer cancel()
				got, ok := latchkey.HoldFrom(ctx)
				require.True(t, ok)
				require.Equal(t, inner.Name(), got.Name())
				require.Equal(t, ctx.Err(), got.Context().Err())
				require.NoError(t, got.Extend(ctx, time.Minute))
				require.Greater(t, got.Remaining(), 50*time.Second, inner.Name())
				return nil
			}))
			got, ok := latchkey.HoldFrom(h.Context())
			require.True(t, ok)
			require.Equal(t, h.Token(), got.Token())
			require.NotZero(t, got.Token())
			require.Equal(t, h.HolderID(), got.HolderID())
			require.NoError(t, h.Unlock(t.Context()))
			require.ErrorIs(t, got.Unlock(t.Context()), latchkey.ErrNotHeld, "it is the same acquisition")
		}
	})
}

func TestDoValue(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		l := rlock.New(c, "a")
		boom := errors.New("boom")
		free := func() {
			t.Helper()
			locked, err := l.IsLocked(context.Background())
			require.NoError(t, err)
			require.False(t, locked)
		}

		v, err := latchkey.DoValue(t.Context(), l, func(context.Context) (int, error) { return 7, nil })
		require.NoError(t, err)
		require.Equal(t, 7, v)
		v, err = latchkey.DoValue(t.Context(), l, func(context.Context) (int, error) { return 8, boom })
		require.Equal(t, boom, err, "as it is")
		require.Equal(t, 8, v)
		free()

		v, err = latchkey.DoValue(t.Context(), l, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 9, boom
		}, latchkey.Lease(time.Second))
		require.ErrorIs(t, err, boom)
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
		require.Equal(t, 9, v)

		ctx, cancel := context.WithCancel(t.Context())
		_, err = latchkey.DoValue(ctx, l, func(ctx context.Context) (int, error) {
			cancel()
			return 0, nil
		})
		require.NoError(t, err)
		free()
		require.PanicsWithValue(t, "no", func() {
			_, _ = latchkey.DoValue(t.Context(), l, func(context.Context) (int, error) { panic("no") })
		})
		free()

		h, err := l.Lock(t.Context())
		require.NoError(t, err)
		v, err = latchkey.DoValue(t.Context(), l, func(context.Context) (int, error) { return 1, nil }, latchkey.Wait(time.Second))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.Zero(t, v, "fn has not run")
		require.NoError(t, h.Unlock(t.Context()))
	})
}
