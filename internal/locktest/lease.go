package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// leaseRules are the rules about time. They run only in fake time.
var leaseRules = []rule{
	{name: "the watchdog keeps a hold for long", test: keeps},
	{name: "a fixed lease is lost before others get in", test: fixedLease, alone: true},
	{name: "a lost hold is not held", test: afterLoss},
	{name: "an Unlock that comes too late gives back what is left", test: lateUnlock},
	{name: "an Unlock that comes too late lets a waiter in", test: lateUnlockWakes, alone: true},
	{name: "an Unlock that comes too late, by the holder, gives back what is left", test: lateUnlockByHolder, skip: composedOnly},
	{name: "ForceUnlock is noticed within one renewal", test: forceNoticed},
	{name: "ExtendHolder prolongs the lease of that holder only and never shortens it", test: extendHolder},
	{name: "a key taken by somebody else is noticed within one renewal", test: takeoverNoticed},
	{name: "a nested lease never shortens the outer one", test: nestedShorter, skip: reentrantOnly},
	{name: "a nested lease prolongs, and its Unlock leaves the lease", test: nestedLonger, skip: reentrantOnly},
	{name: "the watchdog wins over a nested lease", test: nestedUnderWatchdog, skip: reentrantOnly},
	{name: "a nested hold of the watchdog is renewed while it lasts", test: nestedWatchdog, skip: reentrantOnly},
	{name: "nested holds are lost together", test: lostTogether, skip: reentrantOnly},
	{name: "MaxHold bounds the watchdog", test: maxHold},
	{name: "MaxHold beyond the lease is renewed until then", test: maxHoldShort},
	{name: "Extend goes no further than MaxHold", test: extendWithinMaxHold},
	{name: "Extend goes as far as the longest MaxHold of the holder", test: extendNested, skip: reentrantOnly},
	{name: "HoldAtLeast keeps the lock closed", test: holdAtLeast, alone: true},
	{name: "HoldAtLeast lets waiters in when its time is over", test: holdAtLeastBriefly, alone: true},
	{name: "HoldAtLeast that is over changes nothing", test: holdAtLeastOver},
	{name: "HoldAtLeast outlasts Close", test: holdAtLeastClose},
	{name: "Extend of a fixed lease moves the loss", test: extendMoves},
	{name: "Remaining falls with time and with a renewal rises", test: remaining},
	{name: "Do joins the end of the lease", test: doLeaseOver},
	{name: "a waiter gets in when a dead holder's lease ends", test: deadHolder, alone: true},
	{name: "options that contradict each other are refused", test: contradictions},
}

// window returns how long a lease is trusted.
func window(lease time.Duration) time.Duration { return lease - lease/100 - 2*time.Millisecond }

func (e *env) sleepFor(d time.Duration) { e.bubble.Advance(d) }

func keeps(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	h := e.must(l.Lock(e.ctx))
	minutes := redistest.Many(30, 5)
	for range minutes {
		e.sleepFor(time.Minute)
		require.Greater(e, e.ttl(l), 20*time.Second-2, "TTL")
		require.Greater(e, h.Remaining(), 19*time.Second, "Remaining")
	}
	require.NoError(e, h.Context().Err())
	e.open(h.Lost())
	// Every 10 s; the last one is due now.
	require.InDelta(e, 6*minutes, c.Stats().Renewals, 1, "Renewals")
	e.unlock(h)
	n := c.Stats().Renewals
	e.sleepFor(time.Minute)
	require.Equal(e, n, c.Stats().Renewals, "Renewals after Unlock")
}

func fixedLease(e *env) {
	l, c := e.lock(), e.client()
	other := e.kind.new(c, e.name)
	const lease = 10 * time.Second
	start := time.Now()
	h := e.must(l.Lock(e.ctx, latchkey.Lease(lease)))
	require.Equal(e, lease, e.ttl(l), "TTL")
	got := e.lockLater(e.ctx, other)
	<-h.Lost()
	require.Equal(e, window(lease), time.Since(start), "when it was lost")
	require.ErrorIs(e, context.Cause(h.Context()), latchkey.ErrLeaseLost, "cause")
	e.locked(l, true)
	out := receive(e, "the lock", got)
	e.must(out.Hold, out.Err)
	require.GreaterOrEqual(e, out.At.Sub(start), lease, "when the other got in")
	require.LessOrEqual(e, out.At.Sub(start), lease+2*time.Millisecond+e.sleep, "when the other got in")
	e.isLost(h.Unlock(e.ctx))
	e.locked(other, true)
	e.unlock(out.Hold)
}

func afterLoss(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	ctx := latchkey.WithHolder(e.ctx)
	h := e.must(l.Lock(ctx, latchkey.Lease(time.Second)))
	<-h.Lost()
	e.isLost(h.Unlock(e.ctx))
	e.isLost(h.Unlock(e.ctx))
	e.isLost(h.Extend(e.ctx, time.Second))
	require.ErrorIs(e, l.Unlock(ctx), latchkey.ErrNotHeld, "Unlock by the holder")
	require.Zero(e, h.Remaining(), "Remaining")
	e.until("one loss and no hold", func() bool { return c.Stats().Losses == 1 && c.Stats().Held == 0 })
	got, err := l.Lock(h.Context())
	require.Error(e, err, "Lock under the Context of a lost Hold")
	require.Nil(e, got)
	e.sleepFor(time.Second)
	e.unlock(e.must(l.Lock(ctx)))
}

// lateUnlock checks the Unlock of a lost hold that Redis still has. Redis may
// have a hold for longer than the holder trusts it: here, by the margin of the
// window; for longer if a renewal was executed after the holder had given up,
// or if the server's clock was set back.
func lateUnlock(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx, latchkey.Lease(10*time.Second)))
	<-h.Lost()
	e.locked(l, true)
	e.isLost(h.Unlock(e.ctx))
	e.locked(l, false)
	e.unlock(e.must(l.TryLock(e.ctx)))
}

func lateUnlockByHolder(e *env) {
	l := e.lock()
	ctx := latchkey.WithHolder(e.ctx)
	lost := e.must(l.Lock(ctx, latchkey.Lease(10*time.Second)))
	<-lost.Lost()
	e.locked(l, true)
	require.ErrorIs(e, l.Unlock(ctx), latchkey.ErrNotHeld, "Unlock by the holder")
	e.locked(l, false)
	again := e.must(l.Lock(ctx))
	e.isLost(lost.Unlock(e.ctx))
	require.NoError(e, again.Context().Err())
	e.locked(l, true) // a later grant of the same holder is not taken away
	e.unlock(again)
}

func lateUnlockWakes(e *env) {
	l, c := e.lock(), e.client()
	other := e.kind.new(c, e.name)
	const lease = 10 * time.Second
	start := time.Now()
	h := e.must(l.Lock(e.ctx, latchkey.Lease(lease)))
	got := e.lockLater(e.ctx, other)
	<-h.Lost()
	e.isLost(h.Unlock(e.ctx))
	out := receive(e, "the lock", got)
	e.must(out.Hold, out.Err)
	require.LessOrEqual(e, out.At.Sub(start), window(lease)+e.sleep, "when the other got in")
	e.unlock(out.Hold)
}

func forceNoticed(e *env) {
	l, other := e.lock(), e.lock()
	start := time.Now()
	h := e.must(l.Lock(e.ctx))
	e.sleepFor(3 * time.Second)
	_, err := other.ForceUnlock(e.ctx)
	require.NoError(e, err)
	<-h.Context().Done()
	require.Equal(e, 10*time.Second, time.Since(start), "when it was noticed")
	<-h.Lost()
	require.ErrorIs(e, context.Cause(h.Context()), latchkey.ErrLeaseLost)
	e.isLost(h.Unlock(e.ctx))
}

func extendHolder(e *env) {
	a, b, c := e.lock(), e.lock(), e.client()
	extender, ok := b.(interface {
		ExtendHolder(ctx context.Context, holder string, lease time.Duration) (bool, error)
	})
	if !ok {
		return // a lock of several holders has no such thing
	}
	extend := func(holder string, lease time.Duration, want bool) {
		extended, err := extender.ExtendHolder(e.ctx, holder, lease)
		require.NoError(e, err)
		require.Equal(e, want, extended, "ExtendHolder %q", holder)
	}
	extend("nobody:1", time.Hour, false)
	e.locked(a, false)
	h := e.must(a.Lock(e.ctx, latchkey.Lease(time.Minute), latchkey.Label("by hand")))
	if !e.kind.nonReentrant {
		e.must(a.Lock(h.Context(), latchkey.Lease(time.Minute)))
	}
	extend("nobody:1", time.Hour, false)
	extend(h.HolderID()+"1", time.Hour, false)
	extend(h.HolderID(), time.Second, true)
	require.Equal(e, time.Minute, e.ttl(b), "the lease after a shorter one")
	extend(h.HolderID(), time.Hour, true)
	require.Equal(e, time.Hour, e.ttl(b), "the lease")
	e.sleepFor(30 * time.Minute)
	e.isLost(h.Unlock(e.ctx)) // it does not know
	e.locked(a, false)

	h = e.must(a.Lock(e.ctx, latchkey.Lease(time.Minute), latchkey.Label("by hand")))
	if !e.kind.nonReentrant {
		e.must(a.Lock(h.Context(), latchkey.Lease(time.Minute)))
	}
	extend(h.HolderID(), time.Hour, true)
	e.sleepFor(30 * time.Minute)
	e.locked(b, true)
	info, err := c.Info(e.ctx, e.name)
	require.NoError(e, err)
	require.Len(e, info.Holders, 1)
	require.Equal(e, "by hand", info.Holders[0].Label)
	e.sleepFor(30*time.Minute + time.Second)
	e.locked(b, false)
	extend(h.HolderID(), time.Hour, false)
	for _, d := range []time.Duration{0, -1, time.Microsecond, 1 << 62} {
		_, err := extender.ExtendHolder(e.ctx, h.HolderID(), d)
		require.Error(e, err, "ExtendHolder by %v", d)
	}
	_, err = extender.ExtendHolder(e.ctx, "", time.Hour)
	require.ErrorContains(e, err, "empty")
}

func takeoverNoticed(e *env) {
	l, other := e.lock(), e.lock()
	h := e.must(l.Lock(e.ctx))
	_, err := other.ForceUnlock(e.ctx)
	require.NoError(e, err)
	successor := e.must(other.TryLock(e.ctx))
	select {
	case <-h.Lost():
	case <-time.After(10*time.Second + time.Millisecond):
		require.FailNow(e, "not lost within one renewal")
	}
	e.sleepFor(10 * time.Minute)
	require.NoError(e, successor.Context().Err(), "the successor's Context")
	e.unlock(successor)
}

func nestedShorter(e *env) {
	l := e.lock()
	start := time.Now()
	outer := e.must(l.Lock(e.ctx, latchkey.Lease(time.Minute)))
	inner := e.must(l.Lock(outer.Context(), latchkey.Lease(time.Second)))
	require.Equal(e, time.Minute, e.ttl(l), "TTL after the nested Lock")
	e.sleepFor(5 * time.Second)
	require.NoError(e, inner.Context().Err(), "with two holds the longer lease wins")
	e.unlock(inner)
	require.Equal(e, 55*time.Second, e.ttl(l), "TTL after the nested Unlock")
	<-outer.Lost()
	require.Equal(e, window(time.Minute), time.Since(start), "when it was lost")
}

func nestedLonger(e *env) {
	l := e.lock()
	start := time.Now()
	outer := e.must(l.Lock(e.ctx, latchkey.Lease(time.Second)))
	inner := e.must(l.Lock(outer.Context(), latchkey.Lease(time.Minute)))
	require.Equal(e, time.Minute, e.ttl(l), "TTL after the nested Lock")
	e.sleepFor(5 * time.Second)
	e.open(outer.Lost())
	e.unlock(inner)
	require.Equal(e, 55*time.Second, e.ttl(l), "TTL after the nested Unlock")
	<-outer.Lost()
	require.Equal(e, window(time.Minute), time.Since(start), "when it was lost")
}

func nestedUnderWatchdog(e *env) {
	long := time.Duration(redistest.Many(10, 2)) * time.Minute
	l := e.lock()
	outer := e.must(l.Lock(e.ctx))
	inner := e.must(l.Lock(outer.Context(), latchkey.Lease(time.Second)))
	e.sleepFor(long)
	e.open(inner.Lost())
	e.open(outer.Lost())
	e.unlock(inner)
	e.sleepFor(long)
	e.open(outer.Lost())
	e.unlock(outer)
	e.locked(l, false)
}

func nestedWatchdog(e *env) {
	l := e.lock()
	outer := e.must(l.Lock(e.ctx, latchkey.Lease(time.Second)))
	inner := e.must(l.Lock(outer.Context()))
	e.sleepFor(time.Duration(redistest.Many(10, 2)) * time.Minute)
	e.open(outer.Lost())
	left := e.ttl(l)
	e.unlock(inner)
	require.Equal(e, left, e.ttl(l), "TTL after the nested Unlock")
	unlocked := time.Now()
	<-outer.Lost()
	require.LessOrEqual(e, time.Since(unlocked), left, "nobody renews it any more")
}

func lostTogether(e *env) {
	l := e.lock()
	outer := e.must(l.Lock(e.ctx, latchkey.Lease(time.Second)))
	inner := e.must(l.Lock(outer.Context(), latchkey.Lease(time.Second)))
	<-inner.Lost()
	<-outer.Lost()
	e.isLost(inner.Unlock(e.ctx))
	e.isLost(outer.Unlock(e.ctx))
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

func extendMoves(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx, latchkey.Lease(10*time.Second)))
	e.sleepFor(5 * time.Second)
	extended := time.Now()
	require.NoError(e, h.Extend(e.ctx, time.Minute))
	require.Equal(e, time.Minute, e.ttl(l), "TTL")
	require.Equal(e, window(time.Minute), h.Remaining(), "Remaining")
	<-h.Lost()
	require.Equal(e, window(time.Minute), time.Since(extended), "when it was lost")

	// One that the watchdog renews stays so.
	e.sleepFor(time.Minute)
	h = e.must(l.Lock(e.ctx))
	require.NoError(e, h.Extend(e.ctx, 5*time.Minute))
	e.sleepFor(time.Duration(redistest.Many(60, 10)) * time.Minute)
	e.open(h.Lost())
	e.unlock(h)
}

func remaining(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	require.Equal(e, window(30*time.Second), h.Remaining())
	e.sleepFor(9 * time.Second)
	require.Equal(e, window(30*time.Second)-9*time.Second, h.Remaining())
	e.sleepFor(time.Second)
	require.Equal(e, window(30*time.Second), h.Remaining(), "after a renewal")
	e.unlock(h)
}

func doLeaseOver(e *env) {
	l := e.lock()
	err := latchkey.Do(e.ctx, l, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}, latchkey.Lease(time.Second))
	e.isLost(err)
	err = latchkey.Do(e.ctx, l, func(ctx context.Context) error {
		<-ctx.Done()
		return errBoom
	}, latchkey.Lease(time.Second))
	require.ErrorIs(e, err, errBoom)
	e.isLost(err)
}

// deadHolder partitions the holder off for good, so nothing notifies the
// waiter.
func deadHolder(e *env) {
	rdb := e.bubble.Client()
	dead := latchkey.New(rdb, latchkey.WithUnlockTimeout(time.Second))
	l, c := e.kind.new(dead, e.name), e.client()
	start := time.Now()
	h := e.must(l.Lock(e.ctx))
	e.sleepFor(time.Second)
	e.bubble.Partition(rdb)
	got := e.lockLater(e.ctx, e.kind.new(c, e.name))
	<-h.Lost()
	lost := time.Since(start)
	require.Less(e, lost, 30*time.Second, "when it was lost")
	out := receive(e, "the lock", got)
	e.must(out.Hold, out.Err)
	require.Greater(e, out.At.Sub(start), lost, "when the other got in")
	require.GreaterOrEqual(e, out.At.Sub(start), 30*time.Second, "when the other got in")
	require.LessOrEqual(e, out.At.Sub(start), 30*time.Second+2*time.Millisecond+e.sleep, "when the other got in")
	e.unlock(out.Hold)
	require.NoError(e, dead.Close(), "nothing was held any more")
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
