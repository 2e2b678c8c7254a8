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

// A state is the state of a whole.
type state int

const (
	making   state = iota // parts are still missing
	held                  // enough parts are held
	released              // given back
	lost                  // too many parts were lost
	closed                // Close of a client gave back too many parts
)

// A whole is a hold that consists of holds of other locks, its parts.
type whole struct {
	lock   *Lock
	holder uint64 // the holder of WithHolder; 0 without one

	unlocking sync.Mutex // held by a running Unlock, so that the next one sees the result

	// mu guards the fields below. No method of a part is called with mu held,
	// because parts call into the whole with their own locks held.
	mu       sync.Mutex
	parts    []*part
	live     int // number of parts that are held
	state    state
	cause    error // the cause with which ctx ended
	ctx      context.Context
	cancel   context.CancelCauseFunc
	gone     chan struct{} // the channel of Lost; made on demand
	unlocked bool          // Unlock was called
	back     bool          // an Unlock has given back as many parts as it has to
	timer    *time.Timer   // the timer of every
	outer    any           // the whole that this one is part of
	ended    func(cause error)
}

// A part is the hold of one member.
type part struct {
	held   engine.Held
	member int
	over   bool // the part is no longer held
	back   bool // nothing is left to give back
}

var _ engine.Held = (*whole)(nil)

func newWhole(ctx context.Context, l *Lock) *whole {
	w := &whole{lock: l}
	w.holder, _ = engine.HolderFrom(ctx)
	return w
}

// add makes h a part. It returns false if the whole is over; h then still
// belongs to the caller.
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

// settle makes the whole held and returns true if enough parts are held.
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

// endLocked ends the whole: its Context, and Lost if the cause is a loss.
func (w *whole) endLocked(cause error) {
	if w.state != held {
		return
	}
	w.cause = cause
	w.cancel(cause) // before Lost is closed, so that whoever sees Lost finds the cause
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

// stateErrLocked returns why the whole is not held, or nil if it is.
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

// NotHeld returns the error for a method that needs a held whole, or nil.
func (w *whole) NotHeld(op string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lock.wrap(op, w.stateErrLocked())
}

// present returns the parts that pick selects.
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

// Context returns the context of the hold; see latchkey.Hold.
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

// Remaining returns how long enough parts may still be trusted.
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

// Token returns the fencing token of the only member that has one. It returns 0
// if several members have tokens, because tokens of several servers cannot be
// compared.
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

// Origins says where the parts were acquired.
func (w *whole) Origins() (of []*engine.Origin) {
	for _, p := range w.present(anyPart) {
		of = append(of, p.held.Origins()...)
	}
	return of
}

// Holder returns the holder of WithHolder, or else that of the first part.
func (w *whole) Holder() uint64 {
	if w.holder != 0 {
		return w.holder
	}
	return w.present(anyPart)[0].held.Holder()
}

// HolderID returns the holder of the first part as its server shows it.
func (w *whole) HolderID() string { return w.present(anyPart)[0].held.HolderID() }

// Holds returns what the parts hold.
func (w *whole) Holds(e *engine.Engine) (keys []engine.HeldKey) {
	for _, p := range w.present(func(*part) bool { return w.state == held }) {
		keys = append(keys, p.held.Holds(e)...)
	}
	return keys
}

// Speaks returns the holder that the whole's Context carries for s: that of the
// part whose Context does.
func (w *whole) Speaks(e *engine.Engine, s *engine.Spec) (holder uint64, ok bool) {
	for _, p := range w.present(anyPart) {
		if n, ok := p.held.Speaks(e, s); ok {
			return n, true
		}
	}
	return 0, false
}

// JoinWhole makes w a part of another whole.
func (w *whole) JoinWhole(outer any, ended func(cause error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outer, w.ended = outer, ended
	if w.state != held {
		ended(w.cause)
	}
}

// wholeOf returns the whole of the lock with that id among the wholes around a
// hold, or nil.
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

// StayClosed keeps the parts closed until d from now.
func (w *whole) StayClosed(ctx context.Context, d time.Duration) error {
	for _, p := range w.present(anyPart) {
		if err := p.held.StayClosed(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// Extend makes the leases of enough parts last until at least lease from now,
// as far as the MaxHold of each allows.
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
			return w.NotHeld(op) // the other parts continue in the background
		}
	}
	if len(errs) == 0 {
		return w.NotHeld(op) // a part was lost before it was asked
	}
	return w.lock.wrap(op, join(errs...))
}

// grace is how long a failed acquire, whose own wait is over, waits for the
// members that it gives back.
const grace = 50 * time.Millisecond

// heldBy returns the acquisition behind a member's Hold.
func heldBy(h *latchkey.Hold, err error) (engine.Held, error) {
	switch {
	case err != nil:
		return nil, err
	case h == nil || engine.HeldOf(h) == nil:
		return nil, errNoHold
	}
	return engine.HeldOf(h), nil
}

// drop ends a whole that is not to be used.
func (w *whole) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(engine.ErrNotHeld)
	w.state = released
}

// missing returns the members without a held part.
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

// every calls f every d while the whole is held. Each call runs on a goroutine
// of its own.
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
