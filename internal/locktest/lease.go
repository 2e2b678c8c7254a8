package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// leaseRules are the rules about leases. They run only in fake time.
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
	{name: "Extend of a fixed lease moves the loss", test: extendMoves},
	{name: "Remaining falls with time and with a renewal rises", test: remaining},
	{name: "Do joins the end of the lease", test: doLeaseOver},
	{name: "a waiter gets in when a dead holder's lease ends", test: deadHolder, alone: true},
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
