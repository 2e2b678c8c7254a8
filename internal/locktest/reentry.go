package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
)

var reentryRules = []rule{
	{name: "a Hold's Context re-enters", test: contextReenters, skip: reentrantOnly},
	{name: "a holder in the context re-enters", test: holderReenters, skip: reentrantOnly},
	{name: "the holder of a non-reentrant lock is refused", test: refusesHolder, skip: nonReentrantOnly},
	{name: "without a holder each acquire is somebody else's", test: freshHolders, alone: true},
	{name: "goroutines under one Hold exclude each other on another lock", test: fanOut, alone: true},
	{name: "goroutines with one holder are one", test: sharedHolder, skip: reentrantOnly},
	{name: "WithHolder under a Hold's Context starts afresh", test: holderUnderHold, alone: true},
	{name: "the Context of an ended Hold takes nothing", test: endedContext, alone: true},
	{name: "holders are told apart and shown", test: holders},
	{name: "a re-entry waits in no line", test: overtakes, skip: reentrantOnly, alone: true},
	{name: "a re-entry into what somebody else has by now is a loss", test: reentersTaken, skip: reentrantOnly, alone: true},
}

func contextReenters(e *env) {
	l := e.lock()
	outer := e.must(l.Lock(e.ctx))
	inner := e.must(l.TryLock(outer.Context()))
	require.Equal(e, outer.HolderID(), inner.HolderID(), "HolderID of the nested Hold")
	third := e.must(l.Lock(inner.Context()))
	e.count(outer.Context(), l, 3)
	e.count(third.Context(), l, 3)
	e.unlock(third)
	e.unlock(inner)
	require.ErrorIs(e, inner.Context().Err(), context.Canceled, "the nested Hold's Context")
	require.NoError(e, outer.Context().Err(), "the outer Hold's Context")
	e.locked(l, true)
	e.count(outer.Context(), l, 1)
	e.unlock(outer)
	e.locked(l, false)
}

func holderReenters(e *env) {
	l := e.lock()
	ctx := latchkey.WithHolder(e.ctx)
	for n := range 3 {
		e.must(l.Lock(ctx))
		e.count(ctx, l, n+1)
	}
	for n := range 3 {
		require.NoError(e, l.Unlock(ctx), "Unlock by the holder")
		e.count(ctx, l, 2-n)
		e.locked(l, n < 2)
	}
	require.ErrorIs(e, l.Unlock(ctx), latchkey.ErrNotHeld, "one Unlock too many")
}

func refusesHolder(e *env) {
	l := e.lock()
	ctx := latchkey.WithHolder(e.ctx)
	h := e.must(l.Lock(ctx))
	for _, again := range []context.Context{ctx, h.Context()} {
		got, err := l.Lock(again)
		e.refused(got, err, latchkey.ErrReentry)
		got, err = l.TryLock(again)
		e.refused(got, err, latchkey.ErrReentry)
		got, err = l.TryLock(again, latchkey.Wait(time.Hour))
		e.refused(got, err, latchkey.ErrReentry)
	}
	e.count(ctx, l, 1)
	e.unlock(h)
	e.unlock(e.must(l.Lock(ctx)))
}

func freshHolders(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	got, err := l.TryLock(e.ctx)
	e.refused(got, err, latchkey.ErrNotAcquired)
	e.count(e.ctx, l, 0)
	require.ErrorIs(e, l.Unlock(e.ctx), latchkey.ErrNotHeld, "Unlock without a holder")
	e.unlock(h)
}

func fanOut(e *env) {
	c := e.client()
	a, b := e.kind.new(c, e.name), e.kind.new(c, e.name+"2")
	h := e.must(a.Lock(e.ctx))
	hb := e.must(b.Lock(h.Context()))
	got, err := b.TryLock(h.Context())
	e.refused(got, err, latchkey.ErrNotAcquired)
	e.unlock(hb)

	var wg sync.WaitGroup
	inside := 0
	for range 4 {
		wg.Go(func() {
			for range 5 {
				err := latchkey.Do(h.Context(), b, func(context.Context) error {
					inside++
					assert.Equal(e, 1, inside, "goroutines inside")
					e.pass(time.Millisecond)
					inside--
					return nil
				})
				assert.NoError(e, err, "Do")
			}
		})
	}
	wg.Wait()
	e.unlock(h)
}

func sharedHolder(e *env) {
	l := e.lock()
	ctx := latchkey.WithHolder(e.ctx)
	const n = 8
	holds := make(chan *latchkey.Hold, n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			h, err := l.Lock(ctx)
			assert.NoError(e, err, "Lock")
			holds <- h
		})
	}
	wg.Wait()
	e.count(ctx, l, n)
	for range n {
		wg.Go(func() { assert.NoError(e, (<-holds).Unlock(ctx), "Unlock") })
	}
	wg.Wait()
	e.locked(l, false)
}

func holderUnderHold(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	afresh := latchkey.WithHolder(h.Context())
	got, err := l.TryLock(afresh)
	e.refused(got, err, latchkey.ErrNotAcquired)
	require.ErrorIs(e, l.Unlock(afresh), latchkey.ErrNotHeld)
	e.unlock(h)
}

func endedContext(e *env) {
	l := e.lock()
	h := e.must(l.Lock(e.ctx))
	ctx := h.Context()
	e.unlock(h)
	got, err := l.Lock(ctx)
	e.refused(got, err, context.Canceled)
	require.ErrorIs(e, l.Unlock(ctx), latchkey.ErrNotHeld, "Unlock")
	e.count(context.WithoutCancel(ctx), l, 0)
	// The hold of the context has ended, so the acquire gets a fresh holder.
	h = e.must(l.Lock(context.WithoutCancel(ctx)))
	got, err = l.TryLock(context.WithoutCancel(ctx))
	e.refused(got, err, latchkey.ErrNotAcquired)
	e.unlock(h)
}

func holders(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	ctx := latchkey.WithHolder(e.ctx)
	me, ok := latchkey.HolderFrom(ctx)
	require.True(e, ok, "HolderFrom")
	h := e.must(l.Lock(ctx))
	require.Equal(e, me, h.Holder(), "Holder of the Hold")
	require.Equal(e, c.ID()+":"+me.String(), h.HolderID(), "HolderID")
	held, err := l.IsHeldBy(e.ctx, me)
	require.NoError(e, err)
	require.True(e, held, "IsHeldBy(me)")
	other, _ := latchkey.HolderFrom(latchkey.WithHolder(e.ctx))
	held, err = l.IsHeldBy(e.ctx, other)
	require.NoError(e, err)
	require.False(e, held, "IsHeldBy(other)")
	e.unlock(h)
	held, err = l.IsHeldBy(e.ctx, me)
	require.NoError(e, err)
	require.False(e, held, "IsHeldBy(me) after Unlock")

	a, b := e.must(l.Lock(e.ctx)), (*latchkey.Hold)(nil)
	e.unlock(a)
	b = e.must(l.Lock(e.ctx))
	require.NotEqual(e, a.Holder(), b.Holder(), "fresh holders")
	e.unlock(b)
}

// overtakes checks that a re-entry does not queue; otherwise holder and waiter
// would wait for each other.
func overtakes(e *env) {
	c := e.client()
	l := e.kind.new(c, e.name)
	ctx := latchkey.WithHolder(e.ctx)
	h := e.must(l.Lock(ctx))
	other := e.lockLater(e.ctx, l)
	e.waiting(c, 1)
	again := e.lockLater(ctx, l)
	out := receive(e, "the re-entry", again)
	e.unlock(e.must(out.Hold, out.Err))
	e.unlock(h)
	out = receive(e, "the lock", other)
	e.unlock(e.must(out.Hold, out.Err))
}

func reentersTaken(e *env) {
	l, other := e.lock(), e.lock()
	for what, reenter := range map[string]func(context.Context) (*latchkey.Hold, error){
		"TryLock":           func(ctx context.Context) (*latchkey.Hold, error) { return l.TryLock(ctx) },
		"TryLock with Wait": func(ctx context.Context) (*latchkey.Hold, error) { return l.TryLock(ctx, latchkey.Wait(time.Second)) },
		"Lock":              func(ctx context.Context) (*latchkey.Hold, error) { return l.Lock(ctx) },
	} {
		ctx := latchkey.WithHolder(e.ctx)
		h := e.must(l.Lock(ctx))
		_, err := other.ForceUnlock(e.ctx)
		require.NoError(e, err)
		successor := e.must(other.Lock(e.ctx))
		start := time.Now()
		got, err := reenter(ctx)
		require.Nil(e, got, what)
		e.isLost(err)
		e.exactly(0, time.Since(start), "time that "+what+" took")
		ends(e, "Lost", h.Lost())
		e.unlock(successor)
	}
}
