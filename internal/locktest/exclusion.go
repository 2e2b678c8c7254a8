package locktest

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

var exclusionRules = []rule{
	{name: "goroutines sharing one value exclude each other", test: sharedValue, alone: true},
	{name: "clients exclude each other", test: twoClients, alone: true},
	{name: "names are locks of their own", test: twoNames},
	{name: "waiters of one client are served in order", test: inOrder, alone: true},
	{name: "a release reaches a waiter of another client at once", test: wakesOther, alone: true},
	{name: "a waiter that gives up passes the hint on", test: passesHint, skip: hintedOnly, alone: true},
	{name: "a key of another kind is left alone", test: keyConflict},
}

func sharedValue(e *env) {
	const workers = 8
	rounds := redistest.Many(10, 3)
	l := e.lock()
	var wg sync.WaitGroup
	inside := 0 // not atomic: the race detector watches it too
	for range workers {
		wg.Go(func() {
			for range rounds {
				h, err := l.Lock(e.ctx)
				if !assert.NoError(e, err, "Lock") {
					return
				}
				inside++
				n := inside
				e.pass(time.Millisecond)
				assert.Equal(e, n, inside, "somebody else was here")
				assert.Equal(e, 1, n, "holders inside")
				inside--
				assert.NoError(e, h.Unlock(e.ctx), "Unlock")
			}
		})
	}
	wg.Wait()
	e.locked(l, false)
}

// pass lets other goroutines run.
func (e *env) pass(d time.Duration) {
	if e.bubble != nil {
		time.Sleep(d) // fake time: until all other goroutines are blocked
		return
	}
	runtime.Gosched()
}

func twoClients(e *env) {
	a, b := e.lock(), e.lock()
	h := e.must(a.Lock(e.ctx))
	got, err := b.TryLock(e.ctx)
	e.refused(got, err, latchkey.ErrNotAcquired)
	e.locked(b, true)
	e.unlock(h)
	e.locked(b, false)
	h = e.must(b.TryLock(e.ctx))
	got, err = a.TryLock(e.ctx)
	e.refused(got, err, latchkey.ErrNotAcquired)
	e.unlock(h)
}

func twoNames(e *env) {
	c := e.client()
	a, b := e.kind.new(c, e.name), e.kind.new(c, e.name+"2")
	require.Equal(e, e.name, a.Name(), "Name")
	ha := e.must(a.Lock(e.ctx))
	hb := e.must(b.TryLock(e.ctx))
	require.Equal(e, e.name+"2", hb.Name(), "Name of the Hold")
	e.unlock(ha)
	e.locked(b, true)
	e.unlock(hb)
}

func inOrder(e *env) {
	const waiters = 12
	c := e.client()
	l := e.kind.new(c, e.name)
	h := e.must(l.Lock(e.ctx))
	order := make(chan int, waiters)
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			h, err := l.Lock(e.ctx)
			if !assert.NoError(e, err, "Lock") {
				return
			}
			order <- i
			assert.NoError(e, h.Unlock(e.ctx), "Unlock")
		})
		e.waiting(c, i+1)
	}
	e.unlock(h)
	wg.Wait()
	close(order)
	want := 0
	for i := range order {
		require.Equal(e, want, i, "who was served: got the waiter who came %d., want the %d.", i+1, want+1)
		want++
	}
	require.Equal(e, waiters, want, "waiters served")
	require.Zero(e, c.Stats().Waiting, "Waiting")
}

func wakesOther(e *env) {
	a, c := e.lock(), e.client()
	b := e.kind.new(c, e.name)
	for range 3 {
		h := e.must(a.Lock(e.ctx))
		got := e.lockLater(e.ctx, b)
		e.waiting(c, 1)
		released := time.Now()
		e.unlock(h)
		out := receive(e, "the lock", got)
		e.must(out.Hold, out.Err)
		e.prompt(released, out.At)
		e.unlock(out.Hold)
	}
}

// passesHint cancels the head of the line at the moment of the release, when it
// may have received the hint already. The next waiter must still wake up.
func passesHint(e *env) {
	a, c := e.lock(), e.client()
	b := e.kind.new(c, e.name)
	for i := range redistest.Many(20, 6) {
		h := e.must(a.Lock(e.ctx))
		first, cancel := context.WithCancel(e.ctx)
		head := e.lockLater(first, b)
		e.waiting(c, 1)
		next := e.lockLater(e.ctx, b)
		e.waiting(c, 2)
		released := time.Now()
		var wg sync.WaitGroup
		if i%2 == 0 {
			wg.Go(cancel)
		} else {
			defer cancel()
			wg.Go(func() {
				e.pass(0)
				cancel()
			})
		}
		e.unlock(h)
		wg.Wait()
		if out := receive(e, "the head's answer", head); out.Err == nil {
			// The head got the lock; then the next waiter's turn comes with its
			// Unlock.
			released = time.Now()
			require.NoError(e, out.Hold.Unlock(e.ctx), "Unlock")
		} else {
			require.ErrorIs(e, out.Err, context.Canceled)
		}
		out := receive(e, "the lock", next)
		e.must(out.Hold, out.Err)
		e.prompt(released, out.At)
		e.unlock(out.Hold)
	}
	e.until("a line of nobody", func() bool { return c.Stats().Waiting == 0 })
	e.locked(a, false)
}

func keyConflict(e *env) {
	l, rdb := e.lock(), e.redis()
	require.NoError(e, rdb.Set(e.ctx, e.name, "mine", 0).Err())
	h, err := l.Lock(e.ctx)
	e.refused(h, err, latchkey.ErrKeyConflict)
	h, err = l.TryLock(e.ctx)
	e.refused(h, err, latchkey.ErrKeyConflict)
	_, err = l.ForceUnlock(e.ctx)
	require.ErrorIs(e, err, latchkey.ErrKeyConflict, "ForceUnlock")
	_, err = l.IsLocked(e.ctx)
	require.ErrorIs(e, err, latchkey.ErrKeyConflict, "IsLocked")
	require.Equal(e, "mine", rdb.Get(e.ctx, e.name).Val(), "the value of the key")
}
