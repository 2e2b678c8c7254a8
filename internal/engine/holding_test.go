package engine

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
)

// The right to change a hold count is one caller's at a time, goes on to those who
// wait for it, and is nobody's when who waited has gone.
func TestOps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		hd := &holding{ops: make(chan struct{}, 1)}
		require.True(t, hd.tryOps())
		hd.unlockOps()
		require.NoError(t, hd.lockOps(t.Context()))
		require.False(t, hd.tryOps())

		ctx, cancel := context.WithCancel(t.Context())
		var gone, one, other error
		inside := 0
		pass := func(err *error) {
			if *err = hd.lockOps(t.Context()); *err == nil {
				inside++
			}
		}
		go func() { gone = hd.lockOps(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.ErrorIs(t, gone, context.Canceled)
		go pass(&one)
		go pass(&other)
		for want := range 2 {
			synctest.Wait()
			require.Equal(t, want, inside)
			require.False(t, hd.tryOps())
			hd.unlockOps()
		}
		synctest.Wait()
		require.Equal(t, 2, inside)
		require.NoError(t, one)
		require.NoError(t, other)
		hd.unlockOps()
		require.True(t, hd.tryOps())
	})
}

// A Hold is of one acquisition, though the holding has room for one.
func TestHoldsAreNeverUsedAgain(t *testing.T) {
	hd := new(holding)
	seen := make(map[*Hold]bool)
	for range 3 {
		h := hd.newHoldLocked(&hd.room)
		require.False(t, seen[h])
		seen[h] = true
		h.holding = hd
		hd.holds = append(hd.holds, h)
		before := hd.holds
		hd.holds = nil // as endAll does, which goes on with those of before
		next := hd.newHoldLocked(&hd.room)
		require.False(t, seen[next])
		seen[next] = true
		hd.holds = append(hd.holds, next)
		require.Same(t, h, before[0])
		hd.holds = nil
	}
}
