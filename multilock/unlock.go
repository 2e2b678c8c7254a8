package multilock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
)

// An answer is the result of asking one part.
type answer struct {
	part *part
	err  error
}

// ask calls f for all parts at once. The channel is buffered for all answers,
// so nobody needs to receive.
func ask(parts []*part, f func(*part) error) <-chan answer {
	answers := make(chan answer, len(parts))
	for _, p := range parts {
		go func() { answers <- answer{p, f(p)} }()
	}
	return answers
}

// Unlock gives back all parts that were not given back before, all at once. It
// returns when all have answered. If a majority is enough, it returns soon
// after so many members are free that another caller can have the lock.
func (w *whole) Unlock(ctx context.Context) error {
	_, err := w.unlock(ctx, true)
	return err
}

// unlock is Unlock. If Unlock was called before, it returns false without doing
// anything, unless goOn is set.
func (w *whole) unlock(ctx context.Context, goOn bool) (done bool, err error) {
	w.mu.Lock()
	again, was := w.unlocked, w.state == held
	if again && !goOn {
		w.mu.Unlock()
		return false, nil
	}
	w.unlocked = true
	w.endLocked(context.Canceled)
	left, total := w.stateErrLocked(), len(w.parts)
	w.mu.Unlock()
	w.unlocking.Lock()
	defer w.unlocking.Unlock()
	w.mu.Lock()
	back := w.back
	w.mu.Unlock()
	parts := w.present(func(p *part) bool { return !p.back })
	if back || len(parts) == 0 { // possibly by a concurrent Unlock
		return true, w.lock.wrap("unlock", left)
	}
	r := w.returned(ask(parts, func(p *part) error { return w.unlockPart(ctx, p) }), len(parts))
	switch {
	case !w.lock.red:
		return true, w.lock.wrap("unlock", w.found(join(r.errs...)))
	case !was && !again:
		return true, w.lock.wrap("unlock", join(append([]error{left}, r.errs...)...))
	case total-r.missing >= w.lock.quorum && r.free >= w.lock.quorum:
		w.mu.Lock()
		w.back = true
		w.mu.Unlock()
		return true, nil // the leases end what a minority still holds
	}
	return true, w.lock.wrap("unlock", w.found(join(r.errs...)))
}

func (w *whole) unlockPart(ctx context.Context, p *part) error {
	err := p.held.Unlock(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	p.back = err == nil || alreadyFree(err)
	return err
}

// alreadyFree reports whether err says that there was nothing to give back.
func alreadyFree(err error) bool {
	return errors.Is(err, engine.ErrNotHeld) || errors.Is(err, run.ErrClosed)
}

// A returning is the result of giving the parts back.
type returning struct {
	free    int // members known to be free
	missing int // of them, members that were not held before
	errs    []error
}

// returned collects the answers of n parts.
func (w *whole) returned(answers <-chan answer, n int) (r returning) {
	r.free = len(w.lock.members) - n
	var soon <-chan time.Time
	for range n {
		select {
		case a := <-answers:
			if a.err != nil {
				r.errs = append(r.errs, a.err)
			}
			switch {
			case a.err == nil:
				r.free++
			case alreadyFree(a.err):
				r.free++
				r.missing++
			}
		case <-soon:
			return r // the other parts continue in the background
		}
		if w.lock.red && r.free >= w.lock.quorum && soon == nil {
			timer := time.NewTimer(tryBound)
			defer timer.Stop()
			soon = timer.C
		}
	}
	return r
}

// found notes a loss that was found by giving back.
func (w *whole) found(err error) error {
	if !errors.Is(err, engine.ErrLeaseLost) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == released {
		w.state = lost
		if w.gone != nil {
			close(w.gone)
		}
	}
	return err
}

// giveBack gives all holds back at once, on contexts that no caller cancels. It
// waits until that is done, or until grace after ctx is done; the rest
// continues in the background.
func giveBack(ctx context.Context, holds []engine.Held) {
	if len(holds) == 0 {
		return
	}
	var wg sync.WaitGroup
	for _, h := range holds {
		wg.Go(func() { _ = h.Unlock(context.WithoutCancel(ctx)) }) // ends with its lease at the latest
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
