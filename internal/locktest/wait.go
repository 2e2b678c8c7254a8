package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
)

var waitRules = []rule{
	{name: "TryLock makes one attempt", test: tryOnce, alone: true},
	{name: "Wait runs out with ErrNotAcquired", test: waitRunsOut, alone: true},
	{name: "Wait gets what is released in time", test: waitGets, alone: true},
	{name: "a context that runs out is its own error", test: contextRunsOut, alone: true},
	{name: "a cancelled waiter returns at once", test: cancelledWaiter, alone: true},
	{name: "a done context asks nothing", test: doneContext},
	{name: "a waiter behind others returns at once too", test: cancelledBehind, alone: true},
	{name: "bad durations are refused", test: badDurations},
}

func tryOnce(e *env) {
	a, b := e.lock(), e.lock()
	h := e.must(a.Lock(e.ctx))
	for _, opts := range [][]latchkey.LockOption{
		nil, {latchkey.Wait(0)}, {latchkey.Wait(-time.Hour)},
	} {
		start := time.Now()
		got, err := b.TryLock(e.ctx, opts...)
		e.refused(got, err, latchkey.ErrNotAcquired)
		e.exactly(0, time.Since(start), "time for one attempt")
		start = time.Now()
		if opts != nil {
			// The option does the same for Lock.
			got, err = b.Lock(e.ctx, opts...)
			e.refused(got, err, latchkey.ErrNotAcquired)
			e.exactly(0, time.Since(start), "time for one attempt")
		}
	}
	e.unlock(h)
	e.unlock(e.must(b.TryLock(e.ctx, latchkey.Wait(0))))
}

func waitRunsOut(e *env) {
	a, c := e.lock(), e.client()
	b := e.kind.new(c, e.name)
	h := e.must(a.Lock(e.ctx))
	const d = 70 * time.Millisecond
	start := time.Now()
	got, err := b.TryLock(e.ctx, latchkey.Wait(d))
	e.refused(got, err, latchkey.ErrNotAcquired)
	require.NotErrorIs(e, err, context.DeadlineExceeded)
	e.exactly(d, time.Since(start), "time waited")
	start = time.Now()
	got, err = b.Lock(e.ctx, latchkey.Wait(d))
	e.refused(got, err, latchkey.ErrNotAcquired)
	e.exactly(d, time.Since(start), "time waited by Lock")
	require.Zero(e, c.Stats().Waiting, "Waiting")
	e.unlock(h)
}

func waitGets(e *env) {
	a, c := e.lock(), e.client()
	b := e.kind.new(c, e.name)
	h := e.must(a.Lock(e.ctx))
	got := Later(func() (*latchkey.Hold, error) { return b.TryLock(e.ctx, latchkey.Wait(time.Minute)) })
	e.waiting(c, 1)
	released := time.Now()
	e.unlock(h)
	out := receive(e, "the lock", got)
	e.must(out.Hold, out.Err)
	e.prompt(released, out.At)
	require.NoError(e, out.Hold.Context().Err(), "Wait must not end the Hold's Context")
	e.unlock(out.Hold)
}

func contextRunsOut(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	const d = 70 * time.Millisecond
	for _, acquire := range []func(context.Context) (*latchkey.Hold, error){
		func(ctx context.Context) (*latchkey.Hold, error) { return l.Lock(ctx) },
		func(ctx context.Context) (*latchkey.Hold, error) { return l.TryLock(ctx, latchkey.Wait(time.Hour)) },
	} {
		ctx, cancel := context.WithTimeout(e.ctx, d)
		start := time.Now()
		got, err := acquire(ctx)
		cancel()
		e.refused(got, err, context.DeadlineExceeded)
		require.NotErrorIs(e, err, latchkey.ErrNotAcquired)
		e.exactly(d, time.Since(start), "time waited")
	}
	e.unlock(h)
}

func cancelledWaiter(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	h := e.must(l.Lock(e.ctx))
	ctx, cancel := context.WithCancel(e.ctx)
	got := e.lockLater(ctx, l)
	e.waiting(c, 1)
	cancelled := time.Now()
	cancel()
	out := receive(e, "the answer", got)
	e.refused(out.Hold, out.Err, context.Canceled)
	require.NotErrorIs(e, out.Err, latchkey.ErrNotAcquired)
	var wrapped *latchkey.Error
	require.ErrorAs(e, out.Err, &wrapped)
	if e.bubble != nil { // at rest, so nothing was under way
		require.False(e, wrapped.MaybeApplied(), "MaybeApplied: it was refused and asked for nothing since")
	}
	e.exactly(0, out.At.Sub(cancelled), "time from cancel to return")
	require.Zero(e, c.Stats().Waiting, "Waiting")
	e.unlock(h)
	e.unlock(e.must(l.TryLock(e.ctx, latchkey.Wait(patience))))
}

func cancelledBehind(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	h := e.must(l.Lock(e.ctx))
	head := e.lockLater(e.ctx, l)
	e.waiting(c, 1)
	ctx, cancel := context.WithCancel(e.ctx)
	middle := e.lockLater(ctx, l)
	e.waiting(c, 2)
	tail := e.lockLater(e.ctx, l)
	e.waiting(c, 3)
	cancelled := time.Now()
	cancel()
	out := receive(e, "the middle's answer", middle)
	e.refused(out.Hold, out.Err, context.Canceled)
	e.exactly(0, out.At.Sub(cancelled), "time from cancel to return")
	e.unlock(h)
	out = receive(e, "the head's answer", head)
	e.unlock(e.must(out.Hold, out.Err))
	out = receive(e, "the tail's answer", tail)
	e.unlock(e.must(out.Hold, out.Err))
}

func doneContext(e *env) {
	l := e.lock()
	cause := errors.New("why")
	ctx, cancel := context.WithCancelCause(e.ctx)
	cancel(cause)
	got, err := l.Lock(ctx)
	e.refused(got, err, context.Canceled)
	got, err = l.TryLock(ctx)
	e.refused(got, err, context.Canceled)
	got, err = l.TryLock(ctx, latchkey.Wait(time.Hour))
	e.refused(got, err, context.Canceled)
	require.NotErrorIs(e, err, latchkey.ErrNotAcquired)
	e.locked(l, false)
}

func badDurations(e *env) {
	l := e.lock()
	for _, d := range []time.Duration{0, -time.Second, 999 * time.Microsecond, 1<<63 - 1} {
		for what, o := range map[string]latchkey.LockOption{
			"lease": latchkey.Lease(d), "MaxHold": latchkey.MaxHold(d), "HoldAtLeast": latchkey.HoldAtLeast(d),
		} {
			got, err := l.Lock(e.ctx, o)
			require.ErrorContains(e, err, what, "with %v", d)
			require.ErrorContains(e, err, d.String())
			require.Nil(e, got)
			_, err = l.TryLock(e.ctx, o)
			require.ErrorContains(e, err, what, "TryLock with %v", d)
		}
	}
	for _, d := range []time.Duration{time.Millisecond, 3*time.Millisecond - 1} {
		for what, o := range map[string]latchkey.LockOption{"lease": latchkey.Lease(d), "MaxHold": latchkey.MaxHold(d)} {
			got, err := l.Lock(e.ctx, o)
			require.ErrorContains(e, err, what+" of "+d.String()+": the least is 3ms")
			require.NotErrorIs(e, err, latchkey.ErrLeaseLost)
			require.Nil(e, got)
		}
	}
	e.locked(l, false)
}
