package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
)

// This file lets a lock be a member of a multi-lock.

// LockSeam lets a multi-lock find the engine and the Spec of a lock that embeds
// it.
type LockSeam struct {
	e *Engine
	s *Spec
}

// NewLockSeam returns a LockSeam for the lock s on e.
func NewLockSeam(e *Engine, s *Spec) LockSeam { return LockSeam{e, s} }

func (s LockSeam) lock() (*Engine, *Spec) { return s.e, s.s }

// LockOf returns the engine and the Spec of a lock, or nil if it does not embed
// LockSeam.
func LockOf(locker any) (*Engine, *Spec) {
	l, ok := locker.(interface{ lock() (*Engine, *Spec) })
	if !ok {
		return nil, nil
	}
	return l.lock()
}

// JoinWhole notes that h is part of a whole. ended is called once, when h ends,
// with the cause. It must neither block nor call methods of h. If h has ended
// already, ended is called before JoinWhole returns.
func (h *Hold) JoinWhole(whole any, ended func(cause error)) {
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	h.whole, h.ended = whole, ended
	if h.state != held {
		ended(h.cause)
	}
}

// Whole returns the whole that h was joined to.
func (h *Hold) Whole() any {
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	return h.whole
}

// StayClosed keeps the lock of h closed until d from now, even if h is given
// back earlier. It implements the option HoldAtLeast. It does nothing if h has
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

// HoldIn returns the latest hold of s by the holder in ctx that match accepts,
// or nil.
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

// WaiterPatience is how long a waiting acquire continues while Redis does not
// answer.
const WaiterPatience = waiterPatience

// Reticence records whether a server answers, so that not every caller that can
// do without it asks it, and how much time it needs. The zero Reticence is that
// of a server that answers and whose time is unknown.
type Reticence struct {
	until atomic.Pointer[time.Time]
	needs atomic.Int64
}

// Needs returns how much time the server needs, or 0 if that is unknown.
func (r *Reticence) Needs() time.Duration { return time.Duration(r.needs.Load()) }

// SetNeeds sets how much time the server needs.
func (r *Reticence) SetNeeds(d time.Duration) { r.needs.Store(int64(d)) }

// Ask reports whether to ask now: a silent server is asked by one caller in
// each pause.
func (r *Reticence) Ask(pause time.Duration) bool {
	until := r.until.Load()
	if until == nil {
		return true
	}
	now := time.Now()
	next := now.Add(pause)
	return now.After(*until) && r.until.CompareAndSwap(until, &next)
}

// Silent reports whether the server did not answer its last request.
func (r *Reticence) Silent() bool { return r.until.Load() != nil }

// Missed notes that the server did not answer in time.
func (r *Reticence) Missed(pause time.Duration) {
	next := time.Now().Add(pause)
	r.until.Store(&next)
}

// Answered notes that the server answered.
func (r *Reticence) Answered() {
	if r.until.Load() != nil {
		r.until.Store(nil)
	}
}

// Reticence returns the record of the server's silence.
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

// Addr returns the address of the engine's only server, or "" if there are
// several or it is unknown.
func (e *Engine) Addr() string {
	rdb, ok := e.rdb.(*redis.Client)
	if !ok || run.BehindSentinel(rdb) {
		return ""
	}
	return rdb.Options().Addr
}
