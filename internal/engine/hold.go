package engine

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// Held is what a Hold does. Hold implements it for a lock. A multi-lock has an
// implementation of its own.
type Held interface {
	Name() string
	Context() context.Context
	Lost() <-chan struct{}
	Unlock(ctx context.Context) error
	Extend(ctx context.Context, lease time.Duration) error
	Remaining() time.Duration
	Token() int64
	Holder() uint64
	HolderID() string
	// NotHeld returns the *Error of a method that needs a hold that is still
	// held, or nil.
	NotHeld(op string) error
	// Speaks returns the holder that h's Context carries for s, if any.
	Speaks(e *Engine, s *Spec) (holder uint64, ok bool)
	// Origins says where it was acquired, or its parts; see Origin.
	Origins() []*Origin
	// Holds returns what h still holds of e's, as Redis shows it.
	Holds(e *Engine) []HeldKey
	// JoinWhole and StayClosed are for multi-locks; see part.go.
	JoinWhole(whole any, ended func(cause error))
	StayClosed(ctx context.Context, d time.Duration) error
}

// A state is the state of a hold.
type state int

const (
	held     state = iota
	released       // given back, and Redis confirmed it
	unknown        // given back, and Redis did not answer
	lost           // the lease ended, or somebody took it away
	closed         // given back by Close
)

// A Hold is one acquisition, from grant to release or loss.
type Hold struct {
	holding *holding
	spec    *Spec
	cfg     *LockConfig
	parent  context.Context // of Context: the acquire's
	token   int64
	since   time.Time // when it was granted
	target  int       // the hold count that the unknown release asked for
	// Guarded by holding.ops.
	ret Return

	// guarded by holding.mu
	state  state
	cause  error // the cause with which ctx ended
	ctx    context.Context
	cancel context.CancelCauseFunc
	gone   chan struct{} // the channel of Lost; made on demand
	whole  any           // what h is part of; see JoinWhole
	ended  func(cause error)

	origin *Origin // nil if it is not wanted

	forsaken bool // still held, but an Unlock has failed; see forsake
}

var _ Held = (*Hold)(nil)

// Name returns the name of the lock.
func (h *Hold) Name() string { return h.spec.Name }

// Token returns the fencing token, 0 without one.
func (h *Hold) Token() int64 { return h.token }

// Holder returns the number of the holder.
func (h *Hold) Holder() uint64 { return h.holding.key.holder }

// HolderID returns the holder as Redis shows it.
func (h *Hold) HolderID() string { return h.holding.holder() }

// Origins returns the origin of h, if forgotten holds are looked for.
func (h *Hold) Origins() []*Origin {
	if h.holding.engine.cfg.Leaks == 0 {
		return nil
	}
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	if h.origin == nil {
		return nil
	}
	return []*Origin{h.origin}
}

// NotHeld returns the error of a method if h is not held, and nil otherwise.
func (h *Hold) NotHeld(op string) error {
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	return h.holding.engine.Wrap(op, h.spec, h.stateErrLocked())
}

// IsOf reports whether h is an acquisition of s.
func (h *Hold) IsOf(s *Spec) bool { return h.spec == s }

// stateErrLocked returns why h is not held, or nil if it is.
func (h *Hold) stateErrLocked() error {
	switch h.state {
	case held:
		return nil
	case lost:
		return errLost
	case closed:
		return run.ErrClosed
	}
	return ErrNotHeld
}

// Context returns the context of the hold; see the root's Hold. It is made on
// the first call, because many critical sections never ask for it.
func (h *Hold) Context() context.Context {
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(WithHold(h.parent, h))
		if h.state != held || h.forsaken {
			h.cancel(h.cause)
		}
	}
	return h.ctx
}

// Lost returns a channel that is closed when the hold is lost.
func (h *Hold) Lost() <-chan struct{} {
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	if h.gone == nil {
		h.gone = make(chan struct{})
		if h.state == lost {
			close(h.gone)
		}
	}
	return h.gone
}

// endLocked ends h: its Context, and Lost if st is lost.
func (h *Hold) endLocked(st state, cause error) {
	h.state, h.cause = st, cause
	if h.cancel != nil {
		h.cancel(cause)
	}
	if st == lost && h.gone != nil {
		close(h.gone)
	}
	if h.ended != nil {
		h.ended(cause)
	}
}

// Speaks returns the holder that h's Context carries for s: h's own, if h is
// held and s has the same scope and client.
func (h *Hold) Speaks(e *Engine, s *Spec) (holder uint64, ok bool) {
	if h.holding.engine != e || h.spec.Scope != s.Scope {
		return 0, false
	}
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	return h.holding.key.holder, h.state == held
}

// Holds returns what h holds, if it does and e is its client.
func (h *Hold) Holds(e *Engine) []HeldKey {
	if h.holding.engine != e {
		return nil
	}
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	if h.state != held {
		return nil
	}
	return []HeldKey{h.holding.shownLocked(h.spec)}
}

// Remaining returns how long the hold may still be trusted.
func (h *Hold) Remaining() time.Duration {
	h.holding.mu.Lock()
	live, item := h.state == held, h.holding.item
	h.holding.mu.Unlock()
	if !live {
		return 0
	}
	return h.holding.engine.watchdog.Remaining(item)
}

// withinMaxHold shortens a lease for Extend to what MaxHold allows: the longest
// MaxHold of the holder's holds. There is no limit if one of them is renewed
// without a bound.
func (h *Hold) withinMaxHold(lease time.Duration) (time.Duration, error) {
	if h.cfg.MaxHold == 0 {
		return lease, nil
	}
	h.holding.mu.Lock()
	now := time.Now()
	plan := h.holding.planLocked(now)
	h.holding.mu.Unlock()
	if plan.Lease > 0 && plan.Max == 0 {
		return lease, nil
	}
	return h.cfg.Within(lease, max(plan.Max, h.cfg.MaxHold-now.Sub(h.since)))
}

// Extend makes the lease last for at least lease from now, as far as MaxHold
// allows.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	e, hd, s := h.holding.engine, h.holding, h.spec
	if err := CheckLease("a lease", lease); err != nil {
		return e.Wrap("extend", s, err)
	}
	if !e.gate.Enter() {
		return e.Wrap("extend", s, run.ErrClosed)
	}
	defer e.gate.Leave()
	hd.mu.Lock()
	item, err := hd.item, h.stateErrLocked() // the result is for this item, not for that of a later hold
	if err == nil {
		hd.extends++
	}
	hd.mu.Unlock()
	if err != nil {
		return e.Wrap("extend", s, err)
	}
	maybe := false // a request without a reply may have been executed
	defer func() {
		hd.mu.Lock()
		hd.extends--
		if maybe || h.state != held { // the lease may be longer than the watchdog knew
			hd.extended = time.Now().Add(run.Attempt + run.ClockSlack)
		}
		hd.mu.Unlock()
	}()
	wanted := lease.Truncate(time.Millisecond)
	if err := ctx.Err(); err != nil {
		return e.Wrap("extend", s, err)
	}
	retry := e.NewRetrier(e.cfg.AnswerTimeout)
	for {
		sent := e.now()
		lease, err := h.withinMaxHold(wanted)
		if err != nil {
			if maybe {
				err = inDoubt{err}
			}
			return e.Wrap("extend", s, err)
		}
		results, err := e.renewAll(ctx, retry.Options(), s.Scripts, []Renewal{{Key: s.Key, Holder: hd.field, Count: hd.counted(), Label: hd.labelled(), Lease: lease}}, e.cfg.Acks.Renewals)
		switch {
		case err != nil || results == nil || results[0] == watchdog.Failed:
			maybe = maybe || results == nil && run.Classify(err) == run.Unknown
			if err := retry.After(ctx, err); err != nil {
				if maybe {
					err = inDoubt{err}
				}
				return e.Wrap("extend", s, err)
			}
		case results[0] == watchdog.NotOurs:
			hd.endAll(item, lost, ErrLeaseLost, LossTaken)
			return h.NotHeld("extend") // lost, or released while the request was under way
		default:
			e.watchdog.Prolong(item, watchdog.NewWindow(sent, lease))
			// The hold may have ended while the request was under way.
			return h.NotHeld("extend")
		}
	}
}
