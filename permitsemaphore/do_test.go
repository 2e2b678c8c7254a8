package permitsemaphore_test

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
		s := set(t, c, "s", 1)
		boom := errors.New("boom")

		ctx, cancel := context.WithCancel(t.Context())
		require.Equal(t, boom, s.Do(ctx, func(got context.Context) error {
			counts(t, s, 0, 1)
			err := s.Do(ctx, func(context.Context) error { panic("never") }, latchkey.Wait(time.Second))
			require.ErrorIs(t, err, latchkey.ErrNotAcquired)
			time.Sleep(time.Hour)
			require.NoError(t, got.Err(), "renewed")
			cancel()
			require.ErrorIs(t, got.Err(), context.Canceled)
			return boom
		}), "as it is")
		counts(t, s, 1, 0)

		require.PanicsWithValue(t, "no", func() {
			_ = s.Do(t.Context(), func(context.Context) error { panic("no") })
		})
		counts(t, s, 1, 0)

		err := s.Do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), latchkey.ErrLeaseLost)
			return boom
		}, latchkey.Lease(time.Second))
		require.ErrorIs(t, err, boom)
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
	})
}
