package plain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/semaphore"
)

// semaphore is a step with permits that nobody owns.
func (w *worker) semaphore(ctx context.Context, n *name) {
	in, cancel, text := w.within(ctx)
	defer cancel()
	s := semaphore.New(w.Client, n.key)
	b := &belief{who: w.String(), n: 1 + w.dice.IntN(2), left: func() time.Duration { return 1 }}
	call := func() error { return s.Acquire(in, b.n) }
	switch w.dice.IntN(10) {
	case 0, 1, 2:
		text += " Try"
		call = func() error { return s.TryAcquire(in, b.n) }
	case 3:
		d := w.upTo(0, 60)
		text += fmt.Sprintf(" Try Wait %v", d)
		call = func() error { return s.TryAcquire(in, b.n, latchkey.Wait(d)) }
	}
	wait := n.begin()
	n.note("%v Acquire %d%s ...", w, b.n, text)
	err := call()
	n.end(wait)
	n.note("%v Acquire %d%s: %v", w, b.n, text, err)
	if err != nil {
		if in.Err() == nil && !errors.Is(err, latchkey.ErrNotAcquired) {
			w.fail(n, "%v: Acquire: %v", w, err)
		}
		return
	}
	n.believe(b)
	w.stay()
	n.give(b)
	err = s.Release(ctx, b.n)
	n.note("%v Release %d: %v", w, b.n, err)
	n.check(n, err)
}

// permits is a step with permits that have leases.
func (w *worker) permits(ctx context.Context, n *name) {
	in, cancel, text := w.within(ctx)
	defer cancel()
	s := permitsemaphore.New(w.Client, n.key)
	opts, ends, more := w.options()
	for strings.Contains(more, "HoldAtLeast") {
		opts, ends, more = w.options()
	}
	text += more
	count := 1 + w.dice.IntN(2)
	call := s.AcquireN
	if w.chance(30) {
		text += " Try"
		call = s.TryAcquireN
	}
	wait := n.begin()
	n.note("%v Acquire %d%s ...", w, count, text)
	all, err := call(in, count, opts...)
	n.end(wait)
	if err != nil {
		n.note("%v Acquire %d%s: %v", w, count, text, err)
		if in.Err() == nil && !errors.Is(err, latchkey.ErrNotAcquired) && !(ends && errors.Is(err, latchkey.ErrLeaseLost)) {
			w.fail(n, "%v: Acquire%s: %v", w, text, err)
		}
		return
	}
	var bs []*belief
	for _, p := range all {
		n.note("%v Acquire %d%s: %s for %v", w, count, text, p.ID(), p.Remaining())
		b := &belief{who: p.ID(), n: 1, left: p.Remaining}
		bs = append(bs, b)
		n.believe(b)
	}
	w.stay()
	for i, p := range all {
		if w.chance(20) {
			d := w.upTo(3, 50)
			err := p.Extend(ctx, d)
			n.note("%v Extend %v of %s: %v", w, d, p.ID(), err)
			if err != nil && !ends {
				w.fail(n, "%v: Extend of %s: %v", w, p.ID(), err)
			}
		}
		n.give(bs[i])
		switch {
		case w.chance(15):
			_, err := s.TryRelease(ctx, p.ID())
			n.note("%v TryRelease of %s by its id: %v", w, p.ID(), err)
			n.check(n, err)
			_ = p.Release(ctx)
		case w.chance(20):
			err := p.Release(ctx)
			again := p.Release(ctx)
			n.note("%v Release twice of %s: %v %v", w, p.ID(), err, again)
			if !errors.Is(again, latchkey.ErrNotHeld) {
				w.fail(n, "%v: second Release of %s: %v", w, p.ID(), again)
			}
		default:
			err := p.Release(ctx)
			n.note("%v Release of %s: %v", w, p.ID(), err)
			if err != nil && !(ends && errors.Is(err, latchkey.ErrLeaseLost)) {
				w.fail(n, "%v: Release of %s: %v", w, p.ID(), err)
			}
		}
	}
}

// latch is a step with a latch: it begins a count and ends it, or waits.
func (w *worker) latch(ctx context.Context, n *name) {
	l := countdownlatch.New(w.Client, n.key)
	if w.chance(70) {
		in, cancel, text := w.within(ctx)
		defer cancel()
		wait := n.begin()
		n.note("%v Await%s ...", w, text)
		since := n.passed()
		err := l.Await(in)
		n.end(wait)
		n.note("%v Await%s: %v", w, text, err)
		if err != nil && in.Err() == nil {
			w.fail(n, "%v: Await: %v", w, err)
		}
		n.mu.Lock()
		early := err == nil && n.closed > 0 && n.closed < since
		n.mu.Unlock()
		if early {
			w.fail(n, "%v: Await has returned, and the latch is closed", w)
		}
		return
	}
	count := 1 + w.dice.IntN(3)
	n.note("%v TrySetCount %d ...", w, count)
	set, err := l.TrySetCount(ctx, int64(count))
	n.note("%v TrySetCount %d: %v %v", w, count, set, err)
	if n.check(n, err); err != nil || !set {
		return
	}
	n.mu.Lock()
	n.closed = n.passed()
	n.mu.Unlock()
	for i := range count {
		w.stay()
		if i == count-1 {
			n.mu.Lock()
			n.closed = 0
			n.mu.Unlock()
		}
		n.note("%v CountDown ...", w)
		err := l.CountDown(ctx)
		n.note("%v CountDown: %v", w, err)
		n.check(n, err)
	}
}
