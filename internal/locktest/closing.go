package locktest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
)

var closeRules = []rule{
	{name: "Close gives back what is held", test: closeHolding},
	{name: "Close wakes those who wait for the lock in other clients", test: closeWakes, alone: true},
	{name: "Close ends waiting calls", test: closeWaiting, alone: true},
	{name: "after Close everything is ErrClosed", test: afterClose},
	{name: "Close keeps a loss a loss", test: closeAfterLoss},
	{name: "Close of what was taken away, which nobody knows yet, is no loss", test: closeTaken},
}

func closeHolding(e *env) {
	c, other := e.client(), e.lock()
	l := e.kind.new(c, e.name)
	h := e.must(l.Lock(e.ctx))
	holds := []*latchkey.Hold{h}
	if !e.nonReentrant {
		holds = append(holds, e.must(l.Lock(h.Context())))
	}
	require.Equal(e, len(holds), c.Stats().Held, "Held")
	before := h.Lost()
	require.NoError(e, c.Close())
	e.open(before)
	for _, h := range holds {
		require.ErrorIs(e, h.Context().Err(), context.Canceled, "Context")
		require.ErrorIs(e, context.Cause(h.Context()), latchkey.ErrClosed, "cause")
		e.open(h.Lost())
		require.ErrorIs(e, h.Unlock(e.ctx), latchkey.ErrClosed, "Unlock after Close")
		require.ErrorIs(e, h.Extend(e.ctx, time.Minute), latchkey.ErrClosed, "Extend after Close")
		require.Zero(e, h.Remaining(), "Remaining")
	}
	e.locked(other, false)
	require.Zero(e, c.Stats().Held, "Held after Close")
	require.Zero(e, c.Stats().Losses, "Losses: it was given back")
}

func closeWakes(e *env) {
	c, oc := e.client(), e.client()
	other := e.kind.new(oc, e.name)
	e.must(e.kind.new(c, e.name).Lock(e.ctx))
	got := e.lockLater(e.ctx, other)
	e.waiting(oc, 1)
	closed := time.Now()
	require.NoError(e, c.Close())
	out := receive(e, "the lock", got)
	e.must(out.Hold, out.Err)
	e.prompt(closed, out.At)
	e.unlock(out.Hold)
}

func closeWaiting(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	h := e.must(e.lock().Lock(e.ctx))
	var got []<-chan Outcome
	for i := range 3 {
		got = append(got, e.lockLater(e.ctx, l))
		e.waiting(c, i+1)
	}
	got = append(got, Later(func() (*latchkey.Hold, error) { return l.TryLock(e.ctx, latchkey.Wait(time.Hour)) }))
	e.waiting(c, 4)
	closed := time.Now()
	require.NoError(e, c.Close())
	for _, ch := range got {
		out := receive(e, "the answer", ch)
		e.refused(out.Hold, out.Err, latchkey.ErrClosed)
		require.NotErrorIs(e, out.Err, latchkey.ErrNotAcquired)
		e.exactly(0, out.At.Sub(closed), "time from Close to return")
	}
	e.unlock(h)
}

func afterClose(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	ctx := latchkey.WithHolder(e.ctx)
	e.must(l.Lock(ctx))
	require.NoError(e, c.Close())
	require.NoError(e, c.Close(), "Close again")
	got, err := l.Lock(ctx)
	e.refused(got, err, latchkey.ErrClosed)
	got, err = l.TryLock(ctx)
	e.refused(got, err, latchkey.ErrClosed)
	require.ErrorIs(e, l.Unlock(ctx), latchkey.ErrClosed, "Unlock")
	require.ErrorIs(e, <-l.UnlockAsync(ctx), latchkey.ErrClosed, "UnlockAsync")
	r := <-l.LockAsync(ctx)
	e.refused(r.Value, r.Err, latchkey.ErrClosed)
	r = <-l.TryLockAsync(ctx)
	e.refused(r.Value, r.Err, latchkey.ErrClosed)
	_, err = l.ForceUnlock(ctx)
	require.ErrorIs(e, err, latchkey.ErrClosed, "ForceUnlock")
	_, err = l.IsLocked(ctx)
	require.ErrorIs(e, err, latchkey.ErrClosed, "IsLocked")
	_, err = l.HoldCount(ctx)
	require.ErrorIs(e, err, latchkey.ErrClosed, "HoldCount")
	_, err = l.TTL(ctx)
	require.ErrorIs(e, err, latchkey.ErrClosed, "TTL")
}

func closeAfterLoss(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	h := e.must(l.Lock(e.ctx))
	_, err := l.ForceUnlock(e.ctx)
	require.NoError(e, err)
	e.isLost(h.Unlock(e.ctx))
	require.NoError(e, c.Close())
	require.NotErrorIs(e, context.Cause(h.Context()), latchkey.ErrClosed, "cause")
	e.isLost(h.Unlock(e.ctx))
}

func closeTaken(e *env) {
	// For each hold that an Observer hears to begin it hears one end.
	var begun, given, lost atomic.Int32
	c := e.client(latchkey.WithObserver(latchkey.Observer{
		Acquired: func(_ context.Context, a latchkey.Acquisition) { begun.Add(int32(a.Holds)) },
		Released: func(string, string, time.Duration) { given.Add(1) },
		Lost:     func(string, string, time.Duration, latchkey.LossReason) { lost.Add(1) },
	}))
	h := e.must(e.kind.new(c, e.name).Lock(e.ctx))
	before := h.Lost()
	_, err := e.lock().ForceUnlock(e.ctx)
	require.NoError(e, err)
	require.NoError(e, c.Close())
	require.ErrorIs(e, context.Cause(h.Context()), latchkey.ErrClosed, "cause")
	e.open(before)
	e.open(h.Lost())
	err = h.Unlock(e.ctx)
	require.ErrorIs(e, err, latchkey.ErrClosed, "Unlock after Close")
	require.NotErrorIs(e, err, latchkey.ErrLeaseLost, "Unlock after Close")
	require.Zero(e, c.Stats().Losses, "Losses: it was given back")
	require.Equal(e, begun.Load(), given.Load(), "ends")
	require.Zero(e, lost.Load(), "holds that are said to be lost")
}
