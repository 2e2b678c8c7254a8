package engine

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The right to change a hold count is one caller's at a time, goes on to those who
// wait for it, and is nobody's when who waited has gone.
func TestOps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ent := new(entry)
		require.True(t, ent.tryOps())
		ent.unlockOps()
		require.NoError(t, ent.lockOps(t.Context()))
		require.False(t, ent.tryOps())

		ctx, cancel := context.WithCancel(t.Context())
		var gone, one, other error
		inside := 0
		pass := func(err *error) {
			if *err = ent.lockOps(t.Context()); *err == nil {
				inside++
			}
		}
		go func() { gone = ent.lockOps(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.ErrorIs(t, gone, context.Canceled)
		go pass(&one)
		go pass(&other)
		for want := range 2 {
			synctest.Wait()
			require.Equal(t, want, inside)
			require.False(t, ent.tryOps())
			ent.unlockOps()
		}
		synctest.Wait()
		require.Equal(t, 2, inside)
		require.NoError(t, one)
		require.NoError(t, other)
		ent.unlockOps()
		require.True(t, ent.tryOps())
	})
}

// A Hold is of one acquisition, though the entry has room for one.
func TestHoldsAreNeverUsedAgain(t *testing.T) {
	ent := new(entry)
	seen := make(map[*Hold]bool)
	for range 3 {
		h := ent.newHoldLocked()
		require.False(t, seen[h])
		seen[h] = true
		h.entry = ent
		ent.holds = append(ent.holds, h)
		before := ent.holds
		ent.holds = nil // as endAll does, which goes on with those of before
		next := ent.newHoldLocked()
		require.False(t, seen[next])
		seen[next] = true
		ent.holds = append(ent.holds, next)
		require.Same(t, h, before[0])
		ent.holds = nil
	}
}
