package multilock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
)

// An answer is what came of asking a part something.
type answer struct {
	part *part
	err  error
}

// ask asks all parts at once. All answers come, and nobody needs to be there.
func ask(parts []*part, f func(*part) error) <-chan answer {
	answers := make(chan answer, len(parts))
	for _, p := range parts {
		go func() { answers <- answer{p, f(p)} }()
	}
	return answers
}

// Unlock gives every part back that was not, all at once. It returns when all
// have answered, or, where a majority is enough, soon after so many members are
// free that another could have it.
func (w *whole) Unlock(ctx context.Context) error {
	_, err := w.unlock(ctx, true)
	return err
}

// unlock is Unlock; it does nothing and is not done where that was called already,
// unless it is to go on with that.
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
	w.giving.Lock()
	defer w.giving.Unlock()
	w.mu.Lock()
	back := w.back
	w.mu.Unlock()
	parts := w.present(func(p *part) bool { return !p.back })
	if back || len(parts) == 0 { // by an Unlock at the same time, too
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
		return true, nil // a minority's troubles end with its leases
	}
	return true, w.lock.wrap("unlock", w.found(join(r.errs...)))
}

func (w *whole) unlockPart(ctx context.Context, p *part) error {
	err := p.held.Unlock(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	p.back = err == nil || notThere(err)
	return err
}

// notThere reports whether err says that there was nothing to be given back.
func notThere(err error) bool {
	return errors.Is(err, engine.ErrNotHeld) || errors.Is(err, run.ErrClosed)
}

// A returning is what came of giving the parts back.
type returning struct {
	free    int // members that are known not to be held
	missing int // of them were not held before
	errs    []error
}

// returned takes in the answers of n parts.
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
			case notThere(a.err):
				r.free++
				r.missing++
			}
		case <-soon:
			return r // the rest goes on by itself
		}
		if w.lock.red && r.free >= w.lock.quorum && soon == nil {
			timer := time.NewTimer(tryBound)
			defer timer.Stop()
			soon = timer.C
		}
	}
	return r
}

// found notes a loss that giving back has found.
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

// giveBack gives holds back, all at once, on contexts that no caller ends. It
// waits for that until ctx is done, and a moment longer; the rest goes on.
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
