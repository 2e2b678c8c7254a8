package plain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A taken is a hold.
type taken struct {
	*latchkey.Hold
	lock   latchkey.Locker
	names  []*name
	belief *belief
	ends   bool // it may be lost
	what   string
}

// take acquires a lock.
func (w *worker) take(ctx context.Context, l latchkey.Locker, b belief, what string, names []*name) *taken {
	opts, ends, text := w.options()
	text = what + text
	call := l.Lock
	switch w.dice.IntN(10) {
	case 0, 1, 2:
		text += " Try"
		call = l.TryLock
	case 3:
		d := w.upTo(0, 60)
		text += fmt.Sprintf(" Try Wait %v", d)
		opts = append(opts, latchkey.Wait(d))
		call = l.TryLock
	}
	if len(names) == 1 {
		wait := names[0].begin()
		defer names[0].end(wait)
	}
	w.note(names, "%v %s ...", w, text)
	h, err := call(ctx, opts...)
	if err != nil {
		w.note(names, "%v %s: %v", w, text, err)
		// On a busy machine a short lease is over before the answer comes.
		if ctx.Err() == nil && !errors.Is(err, latchkey.ErrNotAcquired) && !(ends && errors.Is(err, latchkey.ErrLeaseLost)) {
			w.fail(names[0], "%v: %s: %v", w, text, err)
		}
		return nil
	}
	w.note(names, "%v %s: held as %s for %v", w, text, h.HolderID(), h.Remaining())
	t := &taken{Hold: h, lock: l, names: names, belief: &b, ends: ends, what: text}
	b.who, b.left = h.Holder().String(), h.Remaining
	if b.who == "" || len(names) > 1 {
		b.who = fmt.Sprintf("%p", h) // a lock of locks
	}
	return t
}

func (w *worker) note(names []*name, format string, args ...any) {
	for _, n := range names {
		n.note(format, args...)
	}
}

// believe begins the belief in what was taken.
func (t *taken) believe() {
	for _, n := range t.names {
		n.believe(t.belief)
	}
}

// give gives a hold back in one of the ways that there are.
func (w *worker) give(ctx context.Context, t *taken) {
	for _, n := range t.names {
		n.give(t.belief)
	}
	var errs []error
	how := ""
	switch w.dice.IntN(8) {
	case 0:
		how = "from another goroutine"
		done := make(chan error)
		go func() { done <- t.Unlock(ctx) }()
		errs = append(errs, <-done)
	case 1:
		how = "twice at once"
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				err := t.Unlock(ctx)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		wg.Wait()
	case 2:
		how = "twice"
		errs = append(errs, t.Unlock(ctx), t.Unlock(ctx))
	case 3:
		how = "async"
		errs = append(errs, <-t.UnlockAsync(ctx))
	case 4:
		how = "cancelled"
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		errs = append(errs, t.Unlock(ctx))
	default:
		errs = append(errs, t.Unlock(ctx))
	}
	w.note(t.names, "%v %s: Unlock %s of %s: %v", w, t.what, how, t.HolderID(), errs)
	good := 0
	for _, err := range errs {
		switch {
		case err == nil:
			good++
		case errors.Is(err, latchkey.ErrLeaseLost) && t.ends:
			good = max(good, 1)
		case !errors.Is(err, latchkey.ErrNotHeld) || errors.Is(err, latchkey.ErrLeaseLost):
			w.fail(t.names[0], "%v: Unlock of %s: %v", w, t.HolderID(), err)
		}
	}
	if good != 1 {
		w.fail(t.names[0], "%v: %d of these Unlocks of %s have given it back: %v", w, good, t.HolderID(), errs)
	}
}

// lock is a step with a lock.
func (w *worker) lock(ctx context.Context, names ...*name) {
	in, cancel, text := w.within(ctx)
	defer cancel()
	if w.chance(30) {
		in = latchkey.WithHolder(in)
		text += " WithHolder"
	}
	l, b, what := w.new(names)
	t := w.take(in, l, b, what+text, names)
	if t == nil {
		return
	}
	t.believe()
	w.stay()
	if w.chance(25) {
		w.nested(ctx, t)
	}
	if w.chance(15) {
		d := w.upTo(3, 50)
		err := t.Extend(ctx, d)
		w.note(names, "%v Extend %v of %s: %v", w, d, t.HolderID(), err)
		if err != nil && !t.ends {
			w.fail(names[0], "%v: Extend of %s: %v", w, t.HolderID(), err)
		}
	}
	w.give(ctx, t)
}

// nested takes what is held once more.
func (w *worker) nested(ctx context.Context, t *taken) {
	l, b, what := t.lock, *t.belief, "nested"
	if _, ok := l.(*rwlock.Lock); ok && !b.read && w.chance(50) {
		l, b.read, what = rwlock.New(w.Client, t.names[0].key, rwlock.WriterPreference(preference)).ReadLock(), true, "nested read"
	}
	opts, ends, text := w.options()
	w.note(t.names, "%v %s%s ...", w, what, text)
	h, err := l.TryLock(t.Context(), opts...)
	if err != nil {
		w.note(t.names, "%v %s%s: %v", w, what, text, err)
		switch {
		case errors.Is(err, latchkey.ErrReentry) && !strings.HasPrefix(t.what, "nonreentrant"), t.ends, t.Context().Err() != nil:
		case !errors.Is(err, latchkey.ErrReentry):
			w.fail(t.names[0], "%v: %s%s: %v", w, what, text, err)
		}
		return
	}
	w.note(t.names, "%v %s%s: held as %s for %v", w, what, text, h.HolderID(), h.Remaining())
	inner := &taken{Hold: h, lock: l, names: t.names, belief: &b, ends: ends || t.ends, what: what + text}
	b.left = h.Remaining
	inner.believe()
	w.stay()
	w.give(ctx, inner)
}
