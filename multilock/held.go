package multilock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
)

// A state is what has become of a whole.
type state int

const (
	making   state = iota // not all parts are there yet
	held                  // by enough parts
	released              // given back
	lost                  // too many parts were lost
	closed                // too many parts were given back by their client's Close
)

// A whole is a hold that consists of the holds of other locks.
type whole struct {
	lock   *Lock
	holder uint64 // of WithHolder; 0 without

	giving sync.Mutex // with the Unlock that is under way: the next one finds what it has left

	// mu guards the fields below. No method of a part is called under it: parts
	// call in here under locks of their own.
	mu       sync.Mutex
	parts    []*part
	live     int // parts that are held
	state    state
	cause    error // with which ctx ended
	ctx      context.Context
	cancel   context.CancelCauseFunc
	gone     chan struct{} // behind Lost; made on demand
	unlocked bool          // Unlock was called
	back     bool          // and has given back as much as it takes
	timer    *time.Timer   // of every
	outer    any           // what it is part of itself
	ended    func(cause error)
}

// A part is the hold of one member.
type part struct {
	held   engine.Held
	member int
	over   bool // it is not held any more
	back   bool // nothing is left to be given back
}

var _ engine.Held = (*whole)(nil)

func newWhole(ctx context.Context, l *Lock) *whole {
	w := &whole{lock: l}
	w.holder, _ = engine.HolderFrom(ctx)
	return w
}

// add makes h a part; false when the whole is over, and h still the caller's.
func (w *whole) add(member int, h engine.Held) bool {
	p := &part{held: h, member: member}
	w.mu.Lock()
	if w.state != making && w.state != held {
		w.mu.Unlock()
		return false
	}
	w.parts = append(w.parts, p)
	w.live++
	w.mu.Unlock()
	h.JoinWhole(w, func(cause error) { w.partEnded(p, cause) })
	return true
}

// settle makes the whole held, if enough parts are.
func (w *whole) settle(ctx context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.live < w.lock.quorum {
		w.state = released
		return false
	}
	w.state = held
	w.ctx, w.cancel = context.WithCancelCause(engine.WithHold(ctx, w))
	return true
}

func (w *whole) partEnded(p *part, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.over {
		return
	}
	p.over = true
	w.live--
	if w.live < w.lock.quorum {
		w.endLocked(cause)
	}
}

// endLocked ends the whole: its Context, and Lost if that is what happened.
func (w *whole) endLocked(cause error) {
	if w.state != held {
		return
	}
	w.cause = cause
	w.cancel(cause) // before Lost is closed: who hears of that finds out why
	switch {
	case errors.Is(cause, engine.ErrLeaseLost):
		w.state = lost
		if w.gone != nil {
			close(w.gone)
		}
	case errors.Is(cause, run.ErrClosed):
		w.state = closed
	default:
		w.state = released
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.ended != nil {
		w.ended(cause)
	}
}

// stateErrLocked says why it is not held, nil when it is.
func (w *whole) stateErrLocked() error {
	switch w.state {
	case held:
		return nil
	case lost:
		return join(engine.ErrLeaseLost, engine.ErrNotHeld)
	case closed:
		return run.ErrClosed
	}
	return engine.ErrNotHeld
}

// NotHeld returns the error of a method that finds nothing held.
func (w *whole) NotHeld(op string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lock.wrap(op, w.stateErrLocked())
}

// present returns the parts that pick takes.
func (w *whole) present(pick func(*part) bool) []*part {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*part
	for _, p := range w.parts {
		if pick(p) {
			out = append(out, p)
		}
	}
	return out
}

func anyPart(*part) bool { return true }

// Name returns the name of the lock.
func (w *whole) Name() string { return w.lock.name }

// Context returns the context of the hold; see the root's Hold.
func (w *whole) Context() context.Context { return w.ctx }

// Lost returns a channel that is closed when too many parts are lost.
func (w *whole) Lost() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone == nil {
		w.gone = make(chan struct{})
		if w.state == lost {
			close(w.gone)
		}
	}
	return w.gone
}

// Remaining returns for how long enough parts may still be believed in.
func (w *whole) Remaining() time.Duration {
	parts := w.present(func(p *part) bool { return w.state == held })
	if len(parts) < w.lock.quorum {
		return 0
	}
	left := make([]time.Duration, len(parts))
	for i, p := range parts {
		left[i] = p.held.Remaining()
	}
	slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return left[w.lock.quorum-1]
}

// Token returns the fencing token of the one member that gives them. Tokens of
// several servers say nothing about each other.
func (w *whole) Token() int64 {
	if w.lock.red {
		return 0
	}
	var token int64
	for _, p := range w.present(anyPart) {
		switch t := p.held.Token(); {
		case t != 0 && token != 0:
			return 0
		case t != 0:
			token = t
		}
	}
	return token
}

// Holder returns the holder: that of WithHolder, or the first part's.
func (w *whole) Holder() uint64 {
	if w.holder != 0 {
		return w.holder
	}
	return w.present(anyPart)[0].held.Holder()
}

// HolderID returns the holder of the first part as its server shows it.
func (w *whole) HolderID() string { return w.present(anyPart)[0].held.HolderID() }

// Speaks returns the holder that the Context names for s: that of the part that
// speaks for it.
func (w *whole) Speaks(e *engine.Engine, s *engine.Spec) (holder uint64, ok bool) {
	for _, p := range w.present(anyPart) {
		if n, ok := p.held.Speaks(e, s); ok {
			return n, true
		}
	}
	return 0, false
}

// JoinWhole makes it a part of a whole itself.
func (w *whole) JoinWhole(outer any, ended func(cause error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outer, w.ended = outer, ended
	if w.state != held {
		ended(w.cause)
	}
}

// wholeOf returns the whole of a lock of that id in what a hold is part of.
func wholeOf(outer any, id string) *whole {
	for {
		w, ok := outer.(*whole)
		if !ok || w.lock.id == id {
			return w
		}
		w.mu.Lock()
		outer = w.outer
		w.mu.Unlock()
	}
}

// StayClosed makes the parts stay closed until d from now.
func (w *whole) StayClosed(ctx context.Context, d time.Duration) error {
	for _, p := range w.present(anyPart) {
		if err := p.held.StayClosed(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// Extend makes the leases of enough parts last at least until lease from now, as far
// as the MaxHold of each lets it.
func (w *whole) Extend(ctx context.Context, lease time.Duration) error {
	const op = "extend"
	if err := engine.CheckLease("a lease", lease); err != nil {
		return w.lock.wrap(op, err)
	}
	if err := w.NotHeld(op); err != nil {
		return err
	}
	parts := w.present(func(p *part) bool { return !p.over })
	answers := ask(parts, func(p *part) error { return p.held.Extend(ctx, lease) })
	done := 0
	var errs []error
	for range parts {
		a := <-answers
		if a.err != nil {
			errs = append(errs, a.err)
		} else if done++; done == w.lock.quorum {
			return w.NotHeld(op) // the rest, if there is one, goes on by itself
		}
	}
	if len(errs) == 0 {
		return w.NotHeld(op) // a part had been lost before it was asked
	}
	return w.lock.wrap(op, join(errs...))
}

// grace is for how long a failed acquire waits for what it gives back, when its
// caller would not wait any more.
const grace = 50 * time.Millisecond

// heldBy returns what a member's Hold stands for.
func heldBy(h *latchkey.Hold, err error) (engine.Held, error) {
	switch {
	case err != nil:
		return nil, err
	case h == nil || engine.HeldOf(h) == nil:
		return nil, errNoHold
	}
	return engine.HeldOf(h), nil
}

// drop ends a whole that was not held, or not for long.
func (w *whole) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(engine.ErrNotHeld)
	w.state = released
}

// missing returns the members of which no part is held.
func (w *whole) missing() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := make([]bool, len(w.lock.members))
	for _, p := range w.parts {
		there[p.member] = there[p.member] || !p.over
	}
	var out []int
	for i, ok := range there {
		if !ok {
			out = append(out, i)
		}
	}
	return out
}

// every calls f every d while the whole is held, on a goroutine that is there for
// the call only.
func (w *whole) every(d time.Duration, f func()) {
	if d <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != held {
		return
	}
	w.timer = time.AfterFunc(d, func() {
		f()
		w.every(d, f)
	})
}
