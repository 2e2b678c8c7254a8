package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
)

var releaseRules = []rule{
	{name: "Unlock by another holder is refused", test: unlockByOther},
	{name: "any goroutine may unlock a Hold", test: unlockElsewhere},
	{name: "a second Unlock is refused and takes nothing", test: unlockTwice},
	{name: "a second Unlock takes nothing from the outer hold", test: unlockTwiceNested, skip: reentrantOnly},
	{name: "a nil Hold is not held", test: nilHold},
	{name: "Unlock works with a cancelled context", test: unlockCancelled},
	{name: "Unlock ends the Context and leaves Lost open", test: unlockEnds},
	{name: "a cancelled context ends the Hold's Context but not the hold", test: parentEnds},
	{name: "ForceUnlock frees whoever holds it", test: forceUnlock},
	{name: "ForceUnlockHolder takes it from that holder only", test: forceHolder},
	{name: "ForceUnlock wakes a waiter at once", test: forceWakes, alone: true},
	{name: "Extend prolongs and never shortens", test: extend},
	{name: "Do unlocks and returns the error of its function", test: doUnlocks},
	{name: "Do joins the loss to the error of its function", test: doLost},
	{name: "Do unlocks on a panic", test: doPanics},
	{name: "Do runs nothing without the lock", test: doRefused, alone: true},
}

func unlockByOther(e *env) {
	a, b := e.lock(), e.lock()
	h := e.must(a.Lock(latchkey.WithHolder(e.ctx)))
	other := latchkey.WithHolder(e.ctx)
	require.ErrorIs(e, a.Unlock(other), latchkey.ErrNotHeld, "another holder")
	require.ErrorIs(e, b.Unlock(other), latchkey.ErrNotHeld, "another client")
	require.NotErrorIs(e, a.Unlock(other), latchkey.ErrLeaseLost, "it never held it")
	e.locked(a, true)
	e.unlock(h)
}

func unlockElsewhere(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	done := make(chan error, 1)
	go func() { done <- h.Unlock(context.Background()) }()
	require.NoError(e, receive(e, "Unlock", done))
	e.locked(l, false)
}

func unlockTwice(e *env) {
	l := e.lock()
	first := e.must(l.Lock(e.ctx))
	e.unlock(first)
	second := e.must(l.Lock(e.ctx))
	err := first.Unlock(e.ctx)
	require.ErrorIs(e, err, latchkey.ErrNotHeld)
	require.NotErrorIs(e, err, latchkey.ErrLeaseLost, "it was given back")
	require.ErrorIs(e, first.Extend(e.ctx, time.Minute), latchkey.ErrNotHeld, "Extend")
	require.Zero(e, first.Remaining(), "Remaining")
	e.locked(l, true)
	require.NoError(e, second.Context().Err(), "the successor's Context")
	e.unlock(second)
}

func unlockTwiceNested(e *env) {
	l := e.lock()
	outer := e.must(l.Lock(e.ctx))
	inner := e.must(l.Lock(outer.Context()))
	e.unlock(inner)
	require.ErrorIs(e, inner.Unlock(e.ctx), latchkey.ErrNotHeld)
	e.count(outer.Context(), l, 1)
	// The outer hold may be released first, too.
	inner = e.must(l.Lock(outer.Context()))
	e.unlock(outer)
	require.ErrorIs(e, outer.Unlock(e.ctx), latchkey.ErrNotHeld)
	e.locked(l, true)
	e.count(context.WithoutCancel(inner.Context()), l, 1)
	e.unlock(inner)
	e.locked(l, false)
}

func nilHold(e *env) {
	var h *latchkey.Hold
	require.ErrorIs(e, h.Unlock(e.ctx), latchkey.ErrNotHeld, "Unlock")
	require.ErrorIs(e, <-h.UnlockAsync(e.ctx), latchkey.ErrNotHeld, "UnlockAsync")
	require.ErrorIs(e, h.Extend(e.ctx, time.Second), latchkey.ErrNotHeld, "Extend")
	require.Error(e, h.Context().Err(), "Context")
	require.ErrorIs(e, context.Cause(h.Context()), latchkey.ErrNotHeld, "cause")
	require.Nil(e, h.Lost(), "Lost")
	require.Zero(e, h.Remaining(), "Remaining")
	require.Zero(e, h.Token(), "Token")
	require.Zero(e, h.Holder(), "Holder")
	require.Empty(e, h.HolderID(), "HolderID")
	require.Empty(e, h.Name(), "Name")
}

func unlockCancelled(e *env) {
	l := e.lock()
	ctx, cancel := context.WithCancel(e.ctx)
	h := e.must(l.Lock(ctx))
	cancel()
	require.NoError(e, h.Unlock(ctx))
	e.locked(l, false)
}

func unlockEnds(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	ctx, lost := h.Context(), h.Lost()
	require.NoError(e, ctx.Err(), "Context while held")
	require.Positive(e, h.Remaining(), "Remaining while held")
	e.unlock(h)
	require.ErrorIs(e, ctx.Err(), context.Canceled, "Context")
	require.NotErrorIs(e, context.Cause(ctx), latchkey.ErrLeaseLost, "cause")
	require.Zero(e, h.Remaining(), "Remaining")
	e.open(lost)
	e.open(h.Lost())
}

func parentEnds(e *env) {
	l := e.lock()
	ctx, cancel := context.WithCancelCause(e.ctx)
	h := e.must(l.Lock(ctx))
	cancel(errBoom)
	require.ErrorIs(e, context.Cause(h.Context()), errBoom, "cause")
	e.locked(l, true)
	e.open(h.Lost())
	e.unlock(h)
}

func forceUnlock(e *env) {
	a, b := e.lock(), e.lock()
	freed, err := b.ForceUnlock(e.ctx)
	require.NoError(e, err)
	require.False(e, freed, "ForceUnlock of a free lock")
	h := e.must(a.Lock(e.ctx))
	freed, err = b.ForceUnlock(e.ctx)
	require.NoError(e, err)
	require.True(e, freed, "ForceUnlock of a held lock")
	e.locked(a, false)
	successor := e.must(b.TryLock(e.ctx))
	e.isLost(h.Unlock(e.ctx))
	ends(e, "Lost", h.Lost())
	require.ErrorIs(e, h.Context().Err(), context.Canceled, "Context")
	e.isLost(h.Unlock(e.ctx))
	e.isLost(h.Extend(e.ctx, time.Minute))
	e.locked(b, true)
	e.unlock(successor)
}

func forceHolder(e *env) {
	a, b := e.lock(), e.lock()
	forcer, ok := b.(interface {
		ForceUnlockHolder(ctx context.Context, holder string) (bool, error)
	})
	if !ok {
		return // a lock of several holders has no such thing
	}
	force := func(holder string, want bool) {
		freed, err := forcer.ForceUnlockHolder(e.ctx, holder)
		require.NoError(e, err)
		require.Equal(e, want, freed, "ForceUnlockHolder %q", holder)
	}
	force("nobody:1", false)
	h := e.must(a.Lock(e.ctx))
	force("nobody:1", false)
	force(h.HolderID()+"1", false)
	e.locked(a, true)
	if !e.kind.nonReentrant {
		e.must(a.Lock(h.Context()))
	}
	force(h.HolderID(), true)
	e.locked(a, false)
	successor := e.must(b.TryLock(e.ctx))
	force(h.HolderID(), false)
	e.locked(b, true)
	e.isLost(h.Unlock(e.ctx))
	e.unlock(successor)
	_, err := forcer.ForceUnlockHolder(e.ctx, "")
	require.ErrorContains(e, err, "empty")
}

func forceWakes(e *env) {
	a, c := e.lock(), e.client()
	b := e.kind.new(c, e.name)
	h := e.must(a.Lock(e.ctx))
	got := e.lockLater(e.ctx, b)
	e.waiting(c, 1)
	forced := time.Now()
	freed, err := a.ForceUnlock(e.ctx)
	require.NoError(e, err)
	require.True(e, freed)
	out := receive(e, "the lock", got)
	e.must(out.Hold, out.Err)
	e.prompt(forced, out.At)
	e.isLost(h.Unlock(e.ctx))
	e.unlock(out.Hold)
}

func extend(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx, latchkey.Lease(time.Minute)))
	require.NoError(e, h.Extend(e.ctx, time.Second), "Extend by less")
	require.Greater(e, e.ttl(l), 50*time.Second, "TTL after a shorter Extend")
	require.NoError(e, h.Extend(e.ctx, time.Hour))
	require.Greater(e, e.ttl(l), 59*time.Minute, "TTL after Extend")
	require.Greater(e, h.Remaining(), 58*time.Minute, "Remaining after Extend")
	require.LessOrEqual(e, h.Remaining(), e.ttl(l), "Remaining errs on the safe side")
	for _, d := range []time.Duration{0, -1, time.Microsecond, 1 << 62} {
		require.Error(e, h.Extend(e.ctx, d), "Extend by %v", d)
	}
	_, err := l.ForceUnlock(e.ctx)
	require.NoError(e, err)
	e.isLost(h.Extend(e.ctx, time.Hour))
	ends(e, "Lost", h.Lost())
	e.locked(l, false)
}

func doUnlocks(e *env) {
	l := e.lock()
	err := latchkey.Do(e.ctx, l, func(ctx context.Context) error {
		e.count(ctx, l, 1)
		return nil
	})
	require.NoError(e, err)
	e.locked(l, false)
	err = latchkey.Do(e.ctx, l, func(context.Context) error { return errBoom })
	require.Same(e, errBoom, err, "as it is")
	e.locked(l, false)
}

func doLost(e *env) {
	l := e.lock()
	err := latchkey.Do(e.ctx, l, func(context.Context) error {
		_, err := l.ForceUnlock(e.ctx)
		require.NoError(e, err)
		return errBoom
	})
	require.ErrorIs(e, err, errBoom)
	e.isLost(err)
	err = latchkey.Do(e.ctx, l, func(context.Context) error {
		_, err := l.ForceUnlock(e.ctx)
		return err
	})
	e.isLost(err)
}

func doPanics(e *env) {
	l := e.lock()
	require.PanicsWithValue(e, "boom", func() {
		_ = latchkey.Do(e.ctx, l, func(context.Context) error { panic("boom") })
	})
	e.locked(l, false)
}

func doRefused(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	ran := false
	err := latchkey.Do(e.ctx, l, func(context.Context) error { ran = true; return nil }, latchkey.Wait(0))
	require.ErrorIs(e, err, latchkey.ErrNotAcquired)
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	err = latchkey.Do(ended, l, func(context.Context) error { ran = true; return nil })
	require.ErrorIs(e, err, context.Canceled)
	require.False(e, ran, "the function ran")
	e.unlock(h)
}
