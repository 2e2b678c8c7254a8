package latchkey_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
)

// labelsOf returns the keys of labels.
func labelsOf(t *testing.T, rdb redis.UniversalClient) []string {
	t.Helper()
	return rdb.Keys(t.Context(), "latchkey_label:*").Val()
}

// A label goes with the holder that is forced out, whoever that is, and stays with the
// others.
func TestLabelGoesByForce(t *testing.T) {
	s := redistest.Start(t)
	for name, lock := range labelled {
		l, ok := lock(newClient(t, s.Client(t))).(interface {
			latchkey.Locker
			ForceUnlock(ctx context.Context) (bool, error)
		})
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			ctx, rdb := t.Context(), s.Client(t)
			require.NoError(t, rdb.FlushDB(ctx).Err())
			_, err := lock(newClient(t, rdb)).Lock(ctx, latchkey.Label("ann"), latchkey.Lease(time.Hour))
			require.NoError(t, err)
			if name == "read" {
				_, err := lock(newClient(t, rdb)).Lock(ctx, latchkey.Label("bob"), latchkey.Lease(time.Hour))
				require.NoError(t, err)
			}
			require.NotEmpty(t, labelsOf(t, rdb))
			forced, err := l.ForceUnlock(ctx)
			require.NoError(t, err)
			require.True(t, forced)
			require.Empty(t, labelsOf(t, rdb))

			h, err := l.Lock(ctx, latchkey.Label("ann"), latchkey.HoldAtLeast(time.Hour))
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
			require.Len(t, labelsOf(t, rdb), 1)
			forced, err = l.ForceUnlock(ctx)
			require.NoError(t, err)
			require.True(t, forced)
			require.Empty(t, labelsOf(t, rdb), "of what stayed closed")

			if fair, ok := l.(*fairlock.Lock); ok {
				_, err = l.Lock(ctx, latchkey.Label("ann"), latchkey.Lease(time.Hour))
				require.NoError(t, err)
				_, err = fair.Delete(ctx)
				require.NoError(t, err)
				require.Empty(t, labelsOf(t, rdb), "with the queue")
			}
		})
	}
}

// The label of a group's holder stays while it has other values.
func TestLabelOfAGroupByForce(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	c := newClient(t, rdb)
	ctx := latchkey.WithHolder(t.Context())
	one, two := multilock.NewGroup(c, "job", "one"), multilock.NewGroup(c, "job", "two")
	for _, g := range []latchkey.Locker{one, two} {
		_, err := g.Lock(ctx, latchkey.Label("ann"), latchkey.Lease(time.Hour))
		require.NoError(t, err)
	}
	_, err := one.ForceUnlock(ctx)
	require.NoError(t, err)
	require.Len(t, labelsOf(t, rdb), 1)
	_, err = two.ForceUnlock(ctx)
	require.NoError(t, err)
	require.Empty(t, labelsOf(t, rdb))
}

// A label ends with a hold that MaxHold ends, or that is lost.
func TestLabelEndsWithALostHold(t *testing.T) {
	s := redistest.Start(t)
	for name, lock := range labelled {
		t.Run(name, func(t *testing.T) {
			ctx, rdb := t.Context(), s.Client(t)
			require.NoError(t, rdb.FlushDB(ctx).Err())
			c := newClient(t, rdb)
			h, err := lock(c).Lock(ctx, latchkey.Label("ann"), latchkey.MaxHold(300*time.Millisecond))
			require.NoError(t, err)
			<-h.Lost()
			redistest.Until(t, "the end of the lock", func() bool { return len(inspect(t, c, "job").Holders) == 0 })
			redistest.Until(t, "the end of the label", func() bool { return len(labelsOf(t, rdb)) == 0 })
			require.ErrorIs(t, h.Unlock(ctx), latchkey.ErrLeaseLost)

			h, err = lock(c).Lock(ctx, latchkey.Label("ann"))
			require.NoError(t, err)
			require.NoError(t, rdb.Del(ctx, "job").Err()) // as Java's forceUnlock
			require.ErrorIs(t, h.Unlock(ctx), latchkey.ErrLeaseLost)
			require.Empty(t, labelsOf(t, rdb), "after the Unlock")
		})
	}
}

// A holder that gets a lock from one with a label has none of its own.
func TestLabelIsNotHandedOver(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	l := rlock.New(c, "job")
	for range 20 {
		h, err := l.Lock(t.Context(), latchkey.Label("ann"))
		require.NoError(t, err)
		next := l.LockAsync(t.Context())
		redistest.Until(t, "a waiter", func() bool { return c.Stats().Waiting > 0 })
		require.NoError(t, h.Unlock(t.Context()))
		got := <-next
		require.NoError(t, got.Err)
		require.Empty(t, labelsOf(t, rdb))
		require.NoError(t, got.Value.Unlock(t.Context()))
	}
}
