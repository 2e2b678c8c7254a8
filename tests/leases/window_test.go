package leases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// The lease began when Redis set it, not when its reply came. The time that the
// reply took is not part of the window.
func TestWindowBeginsWithTheRequest(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		const way = 700 * time.Millisecond
		l := rlock.New(d.c, "a")
		h, err := l.Lock(t.Context()) // which connects
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
		d.Link(d.rdb).Delay(way)
		for _, lease := range []time.Duration{0, 10 * time.Second} {
			opts, whole := []latchkey.LockOption(nil), 30*time.Second
			if lease > 0 {
				opts, whole = append(opts, latchkey.Lease(lease)), lease
			}
			start := time.Now()
			h, err = l.Lock(t.Context(), opts...)
			require.NoError(t, err)
			require.Equal(t, way, time.Since(start))
			require.Equal(t, believable(whole)-way, h.Remaining())
			require.NoError(t, h.Unlock(t.Context()))
		}
	})
}

// A grant that comes too late, from a server that was frozen for longer than
// the lease, is requested again. If the round trip always takes longer than the
// lease, the call fails and nothing is left behind.
func TestLateGrantIsAskedForAgain(t *testing.T) {
	for _, always := range []bool{false, true} {
		keep(t, func(t *testing.T, d *dog) {
			l := rlock.New(d.c, "a")
			h, err := l.Lock(t.Context()) // which connects
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
			d.Link(d.rdb).Delay(1200 * time.Millisecond)
			got := make(chan error, 1)
			go func() {
				h, err := l.Lock(t.Context(), latchkey.Lease(time.Second))
				if err == nil {
					require.Positive(t, h.Remaining())
					err = h.Unlock(t.Context())
				}
				got <- err
			}()
			d.Advance(100 * time.Millisecond)
			if !always {
				d.Link(d.rdb).Delay(0)
				require.NoError(t, <-got)
			} else {
				require.ErrorIs(t, <-got, latchkey.ErrLeaseLost)
			}
			d.Link(d.rdb).Delay(0)
			d.Advance(time.Minute)
			require.Empty(t, d.Redis.Keys(t.Context(), "*").Val())
		})
	}
}

// A free lock is acquired even with a wait that is shorter than the uncertainty
// about the server's clock.
func TestShortWait(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		time.Sleep(700 * time.Microsecond)
		l := rlock.New(locktest.NewClient(t, b.Redis), "orders")
		for range 100 {
			time.Sleep(170 * time.Microsecond)
			h, err := l.TryLock(t.Context(), latchkey.Wait(time.Millisecond))
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
		}
	})
}
