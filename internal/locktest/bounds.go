package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
)

// boundRules are the rules about MaxHold and HoldAtLeast. They run only in fake time.
var boundRules = []rule{
	{name: "MaxHold bounds the watchdog", test: maxHold},
	{name: "MaxHold beyond the lease is renewed until then", test: maxHoldShort},
	{name: "Extend goes no further than MaxHold", test: extendWithinMaxHold},
	{name: "Extend goes as far as the longest MaxHold of the holder", test: extendNested, skip: reentrantOnly},
	{name: "HoldAtLeast keeps the lock closed", test: holdAtLeast, alone: true},
	{name: "HoldAtLeast lets waiters in when its time is over", test: holdAtLeastBriefly, alone: true},
	{name: "HoldAtLeast that is over changes nothing", test: holdAtLeastOver},
	{name: "HoldAtLeast outlasts Close", test: holdAtLeastClose},
	{name: "options that contradict each other are refused", test: contradictions},
}

func maxHold(e *env) {
	l := e.lock()
	start := time.Now()
	h := e.must(l.Lock(e.ctx, latchkey.MaxHold(5*time.Minute)))
	e.sleepFor(4 * time.Minute)
	e.open(h.Lost())
	<-h.Lost()
	require.LessOrEqual(e, time.Since(start), 5*time.Minute, "when it was lost")
	require.Greater(e, time.Since(start), 5*time.Minute-4*time.Second, "when it was lost")
	require.ErrorIs(e, context.Cause(h.Context()), latchkey.ErrLeaseLost)
	e.sleepFor(5*time.Minute - time.Since(start))
	e.locked(l, false)
	e.isLost(h.Unlock(e.ctx))
}

func maxHoldShort(e *env) {
	l := e.lock()
	start := time.Now()
	h := e.must(l.Lock(e.ctx, latchkey.MaxHold(5*time.Second)))
	require.Equal(e, 5*time.Second, e.ttl(l), "TTL: no more than MaxHold")
	<-h.Lost()
	require.LessOrEqual(e, time.Since(start), 5*time.Second, "when it was lost")
	require.Greater(e, time.Since(start), 4500*time.Millisecond, "when it was lost")
	// A hold that is given back in time is like any other.
	e.sleepFor(time.Second)
	h = e.must(l.Lock(e.ctx, latchkey.MaxHold(time.Hour)))
	e.sleepFor(time.Minute)
	e.unlock(h)
	e.locked(l, false)
}

func extendWithinMaxHold(e *env) {
	l := e.lock()
	for _, most := range []time.Duration{10 * time.Second, 2 * time.Minute} {
		start := time.Now()
		h := e.must(l.Lock(e.ctx, latchkey.MaxHold(most)))
		e.sleepFor(4 * time.Second)
		require.NoError(e, h.Extend(e.ctx, time.Hour))
		require.LessOrEqual(e, h.Remaining(), most-4*time.Second, "Remaining")
		require.Greater(e, h.Remaining(), window(most-4*time.Second)-time.Second, "Remaining")
		require.LessOrEqual(e, e.ttl(l), most-time.Since(start)+2*time.Millisecond, "TTL")
		require.NoError(e, h.Extend(e.ctx, time.Second), "it never shortens")
		<-h.Lost()
		require.LessOrEqual(e, time.Since(start), most, "when it was lost")
		require.Greater(e, time.Since(start), window(most)-time.Second, "when it was lost")
		e.isLost(h.Extend(e.ctx, time.Hour))
		e.sleepFor(most + 2*time.Millisecond - time.Since(start))
		e.locked(l, false)
	}
}

func extendNested(e *env) {
	l := e.lock()
	start := time.Now()
	ctx := latchkey.WithHolder(e.ctx)
	outer := e.must(l.Lock(ctx, latchkey.MaxHold(5*time.Second)))
	longer := e.must(l.Lock(ctx, latchkey.MaxHold(10*time.Second)))
	require.NoError(e, outer.Extend(e.ctx, time.Minute))
	require.LessOrEqual(e, outer.Remaining(), 10*time.Second-time.Since(start), "the longest bound counts")
	require.Greater(e, outer.Remaining(), 9*time.Second, "the longest bound counts")
	e.unlock(longer)

	fixed := e.must(l.Lock(ctx, latchkey.Lease(time.Minute)))
	e.sleepFor(11 * time.Second)
	left := outer.Remaining()
	err := outer.Extend(e.ctx, time.Hour)
	require.ErrorContains(e, err, "MaxHold of 5s leaves nothing to extend")
	require.NotErrorIs(e, err, latchkey.ErrNotHeld)
	var out *latchkey.Error
	require.ErrorAs(e, err, &out)
	require.False(e, out.MaybeApplied())
	require.Equal(e, left, outer.Remaining())
	require.NoError(e, fixed.Extend(e.ctx, 2*time.Minute), "it has no such bound")
	require.Equal(e, window(2*time.Minute), outer.Remaining())

	free := e.must(l.Lock(ctx))
	require.NoError(e, outer.Extend(e.ctx, time.Hour), "none counts when one has no bound")
	require.Equal(e, window(time.Hour), outer.Remaining())
	e.unlock(free)
	e.unlock(fixed)
	e.unlock(outer)
}

func holdAtLeast(e *env) {
	l, c := e.lock(), e.client()
	other := e.kind.new(c, e.name)
	ctx := latchkey.WithHolder(e.ctx)
	start := time.Now()
	h := e.must(l.Lock(ctx, latchkey.HoldAtLeast(time.Minute)))
	lost := h.Lost()
	got := e.lockLater(e.ctx, other)
	e.sleepFor(12 * time.Second)
	require.NoError(e, h.Unlock(e.ctx))
	e.open(lost)
	require.ErrorIs(e, h.Context().Err(), context.Canceled, "Context")
	require.NotErrorIs(e, context.Cause(h.Context()), latchkey.ErrLeaseLost, "cause")
	e.open(h.Lost())
	require.ErrorIs(e, h.Unlock(e.ctx), latchkey.ErrNotHeld, "a second Unlock")
	e.locked(l, true)
	e.count(ctx, l, 0)
	require.Equal(e, 48*time.Second, e.ttl(l), "TTL")
	again, err := l.TryLock(ctx)
	e.refused(again, err, latchkey.ErrNotAcquired)
	out := receive(e, "the lock", got)
	e.must(out.Hold, out.Err)
	require.GreaterOrEqual(e, out.At.Sub(start), time.Minute, "when the other got in")
	require.LessOrEqual(e, out.At.Sub(start), time.Minute+2*time.Millisecond+e.sleep, "when the other got in")
	e.unlock(out.Hold)
}

func holdAtLeastBriefly(e *env) {
	l, c := e.lock(), e.client()
	start := time.Now()
	h := e.must(l.Lock(e.ctx, latchkey.HoldAtLeast(3*time.Second)))
	e.sleepFor(500 * time.Millisecond)
	got := e.lockLater(e.ctx, e.kind.new(c, e.name)) // its refusal reports a longer lease
	e.sleepFor(500 * time.Millisecond)
	e.unlock(h)
	out := receive(e, "the lock", got)
	e.must(out.Hold, out.Err)
	require.GreaterOrEqual(e, out.At.Sub(start), 3*time.Second, "when the other got in")
	require.LessOrEqual(e, out.At.Sub(start), 3*time.Second+2*time.Millisecond+e.sleep, "when the other got in")
	e.unlock(out.Hold)
}

func holdAtLeastOver(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx, latchkey.HoldAtLeast(time.Minute)))
	e.sleepFor(time.Minute)
	e.unlock(h)
	e.locked(l, false)

	h = e.must(l.Lock(e.ctx, latchkey.HoldAtLeast(time.Second), latchkey.Lease(2*time.Second)))
	e.unlock(h)
	require.Equal(e, time.Second, e.ttl(l), "TTL")
	e.sleepFor(time.Second)
	e.locked(l, false)
}

func holdAtLeastClose(e *env) {
	c, other := e.client(), e.lock()
	e.must(e.kind.new(c, e.name).Lock(e.ctx, latchkey.HoldAtLeast(time.Minute)))
	e.sleepFor(10 * time.Second)
	require.NoError(e, c.Close())
	require.Equal(e, 50*time.Second, e.ttl(other), "TTL after Close")
	e.sleepFor(50 * time.Second)
	e.locked(other, false)
}

func contradictions(e *env) {
	l := e.lock()
	for _, opts := range [][]latchkey.LockOption{
		{latchkey.Lease(time.Second), latchkey.HoldAtLeast(time.Minute)},
		{latchkey.MaxHold(time.Second), latchkey.HoldAtLeast(time.Minute)},
		{latchkey.Lease(time.Second), latchkey.MaxHold(time.Minute)},
	} {
		h, err := l.Lock(e.ctx, opts...)
		require.Error(e, err)
		require.Nil(e, h)
	}
	require.Zero(e, e.bubble.Commands("evalsha")+e.bubble.Commands("eval"), "scripts sent")
}
