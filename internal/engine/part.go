package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
)

// What follows lets a lock be made of other locks.

// LockSeam lets a lock that embeds it be found by a lock that is made of it.
type LockSeam struct {
	e *Engine
	s *Spec
}

// NewLockSeam returns a LockSeam for the lock s on e.
func NewLockSeam(e *Engine, s *Spec) LockSeam { return LockSeam{e, s} }

func (s LockSeam) lock() (*Engine, *Spec) { return s.e, s.s }

// LockOf returns the engine and the Spec of a lock, nil for one that does not
// embed LockSeam.
func LockOf(locker any) (*Engine, *Spec) {
	l, ok := locker.(interface{ lock() (*Engine, *Spec) })
	if !ok {
		return nil, nil
	}
	return l.lock()
}

// JoinWhole notes that h is part of a greater hold, and has that told when h
// ends: ended is called once, with the cause, and must neither block nor call
// methods of h. It is called before JoinWhole returns when h has ended already.
func (h *Hold) JoinWhole(whole any, ended func(cause error)) {
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	h.whole, h.ended = whole, ended
	if h.state != held {
		ended(h.cause)
	}
}

// Whole returns what h was said to be part of.
func (h *Hold) Whole() any {
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	return h.whole
}

// StayClosed makes the lock of h stay closed until d from now, although h is
// given back earlier: what the option HoldAtLeast asks for. It does nothing when h has
// ended already.
func (h *Hold) StayClosed(ctx context.Context, d time.Duration) error {
	hd := h.holding
	if err := hd.lockOps(ctx); err != nil {
		return err
	}
	defer hd.unlockOps()
	hd.mu.Lock()
	ended := h.state != held // then the holding may be somebody else's
	hd.mu.Unlock()
	if until := time.Now().Add(d); !ended && until.After(hd.atLeast) {
		hd.atLeast = until
	}
	return nil
}

// HoldIn returns the latest hold of s that the holder in ctx has and that match
// takes; nil when there is none.
func (e *Engine) HoldIn(ctx context.Context, s *Spec, match func(*Hold) bool) *Hold {
	hd, _, _ := e.findIn(ctx, s)
	if hd == nil {
		return nil
	}
	defer hd.leave()
	hd.mu.Lock()
	holds := append([]*Hold(nil), hd.holds...)
	hd.mu.Unlock()
	for i := len(holds) - 1; i >= 0; i-- {
		if match(holds[i]) {
			return holds[i]
		}
	}
	return nil
}

// Check returns an error that says what is wrong with c, or nil.
func (c *LockConfig) Check() error { return c.check() }

// WaiterPatience is for how long an acquire goes on that waits already, when Redis
// does not answer.
const WaiterPatience = waiterPatience

// Reticence notes of a server that it does not answer, so that not everybody who
// can do without it asks it, and how much time it was found to need. The zero
// Reticence is of one that answers, of which the latter is not known.
type Reticence struct {
	until atomic.Pointer[time.Time]
	needs atomic.Int64
}

// Needs returns how much time the server was found to need; 0 when that is not known.
func (r *Reticence) Needs() time.Duration { return time.Duration(r.needs.Load()) }

// SetNeeds notes it.
func (r *Reticence) SetNeeds(d time.Duration) { r.needs.Store(int64(d)) }

// Ask reports whether to ask now: a server that was silent is asked by one caller
// in each pause.
func (r *Reticence) Ask(pause time.Duration) bool {
	until := r.until.Load()
	if until == nil {
		return true
	}
	now := time.Now()
	next := now.Add(pause)
	return now.After(*until) && r.until.CompareAndSwap(until, &next)
}

// Silent reports whether the server did not answer when it was asked last.
func (r *Reticence) Silent() bool { return r.until.Load() != nil }

// Missed notes that the server did not answer in time.
func (r *Reticence) Missed(pause time.Duration) {
	next := time.Now().Add(pause)
	r.until.Store(&next)
}

// Answered notes that it did.
func (r *Reticence) Answered() {
	if r.until.Load() != nil {
		r.until.Store(nil)
	}
}

// Reticence returns what is known of the server's silence.
func (e *Engine) Reticence() *Reticence { return &e.reticence }

// Lines returns the lines in which the callers of this client wait.
func (e *Engine) Lines() *wait.Lines { return e.lines }

// Hints returns the wake-ups of s.
func (e *Engine) Hints(s *Spec) wait.Hints { return hints{e.notifier.Subscribe(s.Channel)} }

// IsClosed reports whether the engine is closed.
func (e *Engine) IsClosed() bool {
	select {
	case <-e.gate.Closed():
		return true
	default:
		return false
	}
}

// Addr returns the address of the one server that e is on; empty where there are
// several, or it is not known.
func (e *Engine) Addr() string {
	rdb, ok := e.rdb.(*redis.Client)
	if !ok || run.BehindSentinel(rdb) {
		return ""
	}
	return rdb.Options().Addr
}
