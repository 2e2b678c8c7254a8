package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
)

var asyncRules = []rule{
	{name: "LockAsync delivers a Hold and ends with it", test: lockAsync},
	{name: "LockAsync waits without its caller", test: lockAsyncWaits, alone: true},
	{name: "LockAsync delivers the context's error once", test: lockAsyncCancelled, alone: true},
	{name: "TryLockAsync delivers a refusal once", test: tryLockAsync, alone: true},
	{name: "UnlockAsync delivers once", test: unlockAsync},
	{name: "a Hold that nobody receives is taken back", test: unread},
	{name: "a Hold that was received is the receiver's", test: received},
}

func lockAsync(e *env) {
	l := e.lock()
	ch := l.LockAsync(e.ctx)
	r := receive(e, "the result", ch)
	h := e.must(r.Value, r.Err)
	e.locked(l, true)
	select {
	case <-ch:
		require.FailNow(e, "the channel has something, or is closed, while the Hold lives")
	default:
	}
	e.unlock(h)
	ends(e, "the channel", ch)
	e.locked(l, false)

	// So a range over it is a critical section for each value.
	n := 0
	for r := range l.LockAsync(e.ctx) {
		e.unlock(e.must(r.Value, r.Err))
		n++
	}
	require.Equal(e, 1, n, "results")
}

func lockAsyncWaits(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	h := e.must(l.Lock(e.ctx))
	ch := l.LockAsync(e.ctx)
	e.waiting(c, 1)
	try := l.TryLockAsync(e.ctx, latchkey.Wait(time.Hour))
	e.waiting(c, 2)
	e.unlock(h)
	r := receive(e, "the result", ch)
	e.unlock(e.must(r.Value, r.Err))
	r = receive(e, "the second result", try)
	e.unlock(e.must(r.Value, r.Err))
	ends(e, "the channel", try)
}

func lockAsyncCancelled(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	h := e.must(l.Lock(e.ctx))
	ctx, cancel := context.WithCancel(e.ctx)
	ch := l.LockAsync(ctx)
	e.waiting(c, 1)
	cancel()
	r := receive(e, "the result", ch)
	e.refused(r.Value, r.Err, context.Canceled)
	ends(e, "the channel", ch)
	e.unlock(h)
}

func tryLockAsync(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	ch := l.TryLockAsync(e.ctx)
	r := receive(e, "the result", ch)
	e.refused(r.Value, r.Err, latchkey.ErrNotAcquired)
	ends(e, "the channel", ch)
	e.unlock(h)
}

func unlockAsync(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	ch := h.UnlockAsync(e.ctx)
	require.NoError(e, receive(e, "the result", ch))
	ends(e, "the channel", ch)
	e.locked(l, false)
	ch = h.UnlockAsync(e.ctx)
	require.ErrorIs(e, receive(e, "the result", ch), latchkey.ErrNotHeld)
	ends(e, "the channel", ch)

	ctx := latchkey.WithHolder(e.ctx)
	e.must(l.Lock(ctx))
	ch = l.UnlockAsync(ctx)
	require.NoError(e, receive(e, "the result", ch))
	ends(e, "the channel", ch)
	require.ErrorIs(e, <-l.UnlockAsync(ctx), latchkey.ErrNotHeld)
	e.locked(l, false)
}

func unread(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	ctx, cancel := context.WithCancel(e.ctx)
	ch := l.LockAsync(ctx)
	e.until("the grant", func() bool { return c.Stats().Held == 1 })
	cancel()
	e.until("the hold to be taken back", func() bool { return c.Stats().Held == 0 })
	r := receive(e, "the result", ch)
	e.refused(r.Value, r.Err, context.Canceled)
	ends(e, "the channel", ch)
	e.locked(l, false)
}

func received(e *env) {
	l := e.lock()
	ctx, cancel := context.WithCancel(e.ctx)
	r := receive(e, "the result", l.LockAsync(ctx))
	h := e.must(r.Value, r.Err)
	cancel()
	require.ErrorIs(e, h.Context().Err(), context.Canceled)
	e.until("nothing", func() bool { return true })
	e.locked(l, true)
	e.unlock(h)
}
