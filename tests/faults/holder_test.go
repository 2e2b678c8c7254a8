package faults_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// Goroutines that share a holder unlock at the same time. Each releases a hold
// of its own, and none is left behind.
func TestHolderUnlocksAtTheSameTime(t *testing.T) {
	t.Parallel()
	const holds = 3
	r := newFaultRig(t)
	c := r.client(t, 0)
	ctx := latchkey.WithHolder(t.Context())
	l := rlock.New(c, "a")
	for range holds {
		_, err := l.Lock(ctx)
		require.NoError(t, err)
	}
	r.on(1, lua.RLockRelease, redistest.Hold)
	var unlocked []<-chan error
	for range holds {
		unlocked = append(unlocked, l.UnlockAsync(ctx))
	}
	redistest.Until(t, "the first release to run", func() bool { return r.count(redistest.Hold) == 1 })
	r.heal()
	for _, ch := range unlocked {
		require.NoError(t, <-ch)
	}
	require.Zero(t, c.Stats().Held)
	require.ErrorIs(t, l.Unlock(ctx), latchkey.ErrNotHeld)
	r.free(t, "a")
}
