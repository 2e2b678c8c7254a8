package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// lateExtend extends a hold. The reply comes after the holder has unlocked and
// has taken the lock again. It returns the new hold and the errors of Extend
// and Unlock.
func lateExtend(t *testing.T, r *faultRig, before func()) (next *latchkey.Hold, extended, unlocked error) {
	t.Helper()
	c := r.client(t, 0)
	ctx := latchkey.WithHolder(t.Context())
	l := rlock.New(c, "a")
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	before()

	r.holdFor(time.Second)
	r.on(1, lua.RLockRenew, redistest.Hold)
	extend := make(chan error, 1)
	go func() { extend <- h.Extend(ctx, time.Hour) }()
	redistest.Until(t, "the extension to run", func() bool { return r.count(redistest.Hold) == 1 })
	// A caller that waits to lock while that is under way has part in the same entry.
	r.holdFor(200 * time.Millisecond)
	r.on(1, lua.RLockRelease, redistest.Hold)
	unlock := h.UnlockAsync(ctx)
	redistest.Until(t, "the release to run", func() bool { return r.count(redistest.Hold) == 2 })
	next, err = l.Lock(ctx)
	require.NoError(t, err)
	require.Empty(t, extend, "it was answered too early for this test")
	return next, <-extend, <-unlock
}

// A late reply to Extend does not affect the next hold of the holder. Otherwise
// that hold would be trusted for longer than Redis keeps it, and would not be
// renewed.
func TestFaultLateExtendSparesNextHold(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	next, extended, unlocked := lateExtend(t, r, func() {})
	require.NoError(t, unlocked)
	require.ErrorIs(t, extended, latchkey.ErrNotHeld)
	require.NotErrorIs(t, extended, latchkey.ErrLeaseLost)
	require.LessOrEqual(t, next.Remaining(), r.direct.PTTL(t.Context(), "a").Val())
	require.NoError(t, next.Unlock(t.Context()))
}

// The same for an Extend that has found the lock gone.
func TestFaultLateExtendOfLostHoldSparesNextHold(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	next, extended, unlocked := lateExtend(t, r, func() { r.direct.Del(t.Context(), "a") })
	require.ErrorIs(t, unlocked, latchkey.ErrLeaseLost)
	require.ErrorIs(t, extended, latchkey.ErrLeaseLost)
	select {
	case <-next.Lost():
		require.FailNow(t, "lost")
	default:
	}
	require.NoError(t, next.Context().Err())
	require.NoError(t, next.Unlock(t.Context()))
	r.free(t, "a")
}
