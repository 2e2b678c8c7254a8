package semaphore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestDo(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		s := set(t, c, "s", 3)
		boom := errors.New("boom")

		ctx, cancel := context.WithCancel(t.Context())
		require.Equal(t, boom, s.Do(ctx, 2, func(got context.Context) error {
			require.Equal(t, ctx, got)
			require.Equal(t, 1, available(t, s))
			err := s.Do(ctx, 2, func(context.Context) error { panic("never") }, latchkey.Wait(time.Second))
			require.ErrorIs(t, err, latchkey.ErrNotAcquired)
			cancel()
			return boom
		}), "as it is")
		require.Equal(t, 3, available(t, s), "given back, although ctx is done")
		require.ErrorIs(t, s.Do(ctx, 1, func(context.Context) error { panic("never") }), context.Canceled)

		require.PanicsWithValue(t, "no", func() {
			_ = s.Do(t.Context(), 2, func(context.Context) error { panic("no") })
		})
		require.Equal(t, 3, available(t, s))
		require.Error(t, s.Do(t.Context(), -1, func(context.Context) error { panic("never") }))
		require.Error(t, s.Do(t.Context(), 1, func(context.Context) error { panic("never") }, latchkey.Lease(time.Second)))

		err := s.Do(t.Context(), 1, func(context.Context) error {
			env.Partition()
			return boom
		})
		require.ErrorIs(t, err, boom)
		var failed *latchkey.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "release", failed.Op)
		env.Heal()
	})
}
