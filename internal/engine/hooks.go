package engine

import (
	"context"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// Hooks are the functions of an Observer. Each may be nil.
type Hooks struct {
	WaitStarted   func(ctx context.Context, kind, name string)
	Acquired      func(ctx context.Context, a Acquisition)
	Failed        func(ctx context.Context, a Acquisition, err error)
	Released      func(kind, name string, held time.Duration)
	Renewed       func(kind, name string, lag time.Duration)
	RenewFailed   func(kind, name string, err error)
	Lost          func(kind, name string, held time.Duration, why LossReason)
	Undone        func(kind, name string)
	Resubscribed  func(channels int)
	ChannelDenied func(channel string, err error)
	Missed        func(kind, name string)
	SlowWait      func(w any) // w is the root's SlowWait
}

// An Acquisition is an acquire that has ended.
type Acquisition struct {
	Kind, Name string
	Wait       time.Duration
	Contended  bool
	Holds      int
}

// A LossReason is the reason for the loss of a hold.
type LossReason string

// The reasons for a loss.
const (
	LossExpired LossReason = "expired" // no renewal succeeded in time
	LossTaken   LossReason = "taken"   // Redis reports that it is not ours
	LossLimit   LossReason = "limit"   // the Lease or MaxHold of the acquire is over
)

func (h Hooks) resubscribed(channels int) {
	if h.Resubscribed != nil {
		h.Resubscribed(channels)
	}
}

// A granted is what is reported to end: a Hold or a Lease.
type granted interface {
	// granted returns what it is of, and when it was granted.
	granted() (s *Spec, since time.Time)
	holder
}

// released reports what has ended without loss.
func (e *Engine) released(g granted) {
	if e.cfg.Hooks.Released == nil && e.cfg.Event == nil {
		return
	}
	s, since := g.granted()
	held := time.Since(since)
	if f := e.cfg.Hooks.Released; f != nil {
		f(s.Kind, s.Name, held)
	}
	if f := e.cfg.Event; f != nil {
		f(e.event(Event{What: Released, Held: held}, s, g))
	}
}

// lost counts and reports what was lost.
func (e *Engine) lost(g granted, why LossReason) {
	s, since := g.granted()
	e.counters.losses.Add(1)
	if why == LossTaken {
		e.watchdog.Recheck() // whatever took it may have taken more
	}
	held := time.Since(since)
	if f := e.cfg.Hooks.Lost; f != nil {
		f(s.Kind, s.Name, held, why)
	}
	if f := e.cfg.Event; f != nil {
		f(e.event(Event{What: Lost, Held: held, Reason: string(why)}, s, g))
	}
}

// tookBackOne counts and reports an acquire that was undone.
func (e *Engine) tookBackOne(s *Spec) {
	e.counters.undone.Add(1)
	if f := e.cfg.Hooks.Undone; f != nil {
		f(s.Kind, s.Name)
	}
}

func (c *attempt) waits() {
	c.spec.engine.watchWaits()
	if c.contended {
		return // it has moved to the end of the line
	}
	c.contended = true
	if f := c.spec.engine.cfg.Hooks.WaitStarted; f != nil {
		f(c.ctx, c.spec.Kind, c.spec.Name)
	}
}

func (c *attempt) missed() {
	c.spec.engine.counters.rechecked.Add(1)
	if f := c.spec.engine.cfg.Hooks.Missed; f != nil {
		f(c.spec.Kind, c.spec.Name)
	}
}

// report reports how the attempt has ended: with that many holds, or with err.
func (c *attempt) report(holds int, err error) {
	h := &c.spec.engine.cfg.Hooks
	if h.Acquired == nil && h.Failed == nil {
		return
	}
	a := Acquisition{Kind: c.spec.Kind, Name: c.spec.Name, Wait: time.Since(c.began()), Contended: c.contended, Holds: holds}
	switch {
	case err == nil && h.Acquired != nil:
		h.Acquired(c.ctx, a)
	case err != nil && h.Failed != nil:
		a.Holds = 0
		h.Failed(c.ctx, a, err)
	}
}

// expiry returns why the holds of hd have expired.
func (hd *holding) expiry() LossReason {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if slices.ContainsFunc(hd.holds, func(h *Hold) bool { return h.forsaken }) {
		return LossExpired
	}
	return expiry(hd.planLocked(time.Now()))
}

// expiry returns why a hold with that plan has expired. Near the end of Max, a
// renewal can gain no more than a tenth of a lease.
func expiry(p watchdog.Plan) LossReason {
	if p.Lease == 0 || p.Max > 0 && p.Max <= p.Lease/10 {
		return LossLimit
	}
	return LossExpired
}
