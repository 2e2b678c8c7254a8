package engine

import (
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A lock that is given back while others of this client wait for it goes to the next of
// them for as long as a slice lasts. Redis hears nothing of it: the waiter takes over the
// holding, with its holder and its lease, and has a Hold of its own. Where that cannot be,
// one script gives the lock back and takes it for the waiter. After the slice the lock is
// released in the ordinary way, and the waiters of other clients have their turn.

// handsOn reports whether s may be handed on, in a slice that ends then.
func (e *Engine) handsOn(s *Spec, slice time.Time) bool {
	return s.HandsOn && e.cfg.HandOver > 0 && time.Now().Before(slice)
}

// renewed reports whether c asks for what the watchdog renews without a limit.
func (c *lockAttempt) renewed() bool {
	return c.cfg.Lease == 0 && c.cfg.MaxHold == 0 && c.cfg.AtLeast == 0
}

// handOver lets the next waiter take over the holding of h, which has been given up, and
// reports whether it did. The caller has the holding's ops and is counted in, and neither
// any more then.
func (h *Hold) handOver() bool {
	e, hd, s := h.holding.engine, h.holding, h.spec
	if !e.handsOn(s, hd.slice) || !e.lines.Waits(s.Line) || !hd.canBeTakenOver(s) {
		return false
	}
	for {
		next := e.heir(s, hd.slice)
		if next == nil {
			return false
		}
		c, own := next.attempt, next.attempt.holding
		if !c.fresh || !c.renewed() {
			next.Cancel()
			own.unlockOps()
			return false
		}
		g := Grant{slice: hd.slice, room: &own.room}
		if s.Fenced {
			g.Token, g.more = hd.token+1, hd.more-1
		}
		committed := next.Commit(c.lease(), func() {
			// Not if the window is over, or the client is being closed.
			if hold := hd.grant(c.ctx, c.spec, c.cfg, g, 1, hd.left); hold != nil {
				c.hold = hold
				hd.leave()
				hd.unlockOps() // from here on it may be unlocked
			}
		})
		handed := committed && c.hold != nil
		own.unlockOps()
		if committed {
			return handed
		}
	}
}

// canBeTakenOver reports whether a waiter can take over hd, which nobody has now: it may
// do nothing else than the waiter asks for, and no request for the one before may come.
// The caller has ops.
func (hd *holding) canBeTakenOver(s *Spec) bool {
	now := time.Now()
	hd.mu.Lock()
	settled := hd.acquireInDoubtUntil.IsZero() && hd.extends == 0 && !now.Before(hd.extended)
	hd.mu.Unlock()
	if !settled || !hd.fresh || hd.tagged.Load() || hd.releaseInDoubtFor() > 0 || hd.lingers() >= time.Millisecond {
		return false
	}
	if s.Fenced && hd.more == 0 {
		return false
	}
	// A renewal that is due would find another Hold each time, and serve none. And no
	// waiter gets a longer lease than the one that it asked for.
	left, full := hd.left.Remaining(hd.engine.now()), hd.engine.cfg.WatchdogTimeout
	return left >= full*2/3 && left <= full
}

// An heir is the waiter of this client to whom a lock goes on as it is given
// back. Its holding's ops are with whoever gives back.
type heir struct {
	wait.Reservation
	attempt *lockAttempt
	req     Request
}

// awaited reports whether somebody of this client may be there to whom s can go on.
func (e *Engine) awaited(s *Spec) bool { return s.Queue != nil || e.lines.Waits(s.Line) }

// heir returns the one who may get s when it is given back: the first one of this
// client in the queue, or, for a lock without a queue, in the line: while the
// slice lasts before all others, then in turn, if s is given away at all.
func (e *Engine) heir(s *Spec, slice time.Time) *heir {
	inTurn := s.Queue == nil && !e.handsOn(s, slice)
	if inTurn && !e.gives(s) || e.cfg.Acks.On() {
		return nil
	}
	select {
	case <-e.gate.Closed():
		return nil
	default:
	}
	next := e.lines.ReserveHead
	if s.Queue != nil {
		next = e.lines.ReserveFirst
	}
	pl, ok := next(s.Line)
	if !ok {
		return nil
	}
	c := pl.Claim.(*lockAttempt)
	if !c.holding.tryOps() {
		pl.Cancel()
		return nil
	}
	if c.holding.counted() > 0 || c.holding.releaseInDoubtFor() > 0 || c.cfg.Label != "" || c.spec.Fenced != s.Fenced || c.spec.Key != s.Key {
		c.holding.unlockOps()
		pl.Cancel()
		return nil
	}
	h := &heir{pl, c, Request{Holder: c.holding.field, Count: 1, Lease: c.lease()}}
	if s.Fenced {
		h.req.Tokens = 1
		if c.fresh && c.renewed() { // it may hand on in memory
			// The server's clock makes them, in µs: no more than it has gone on by
			// since the last one, and no more than can be of use.
			h.req.Tokens += max(time.Until(slice).Microseconds(), 0)
		}
	}
	if inTurn {
		if h.req.Entry = c.waitEntry(h.req.Lease); h.req.Entry == "" {
			c.holding.unlockOps()
			pl.Cancel()
			return nil
		}
	}
	return h
}

// settle tells the heir what has become of the request that was sent at a time,
// and reports whether that is not known.
func (h *heir) settle(sent watchdog.Instant, ret *Return, slice time.Time, v Status, err error) (doubt bool) {
	c := h.attempt
	switch {
	case ret.Given:
		h.Commit(h.req.Lease, func() {
			g := Grant{Token: ret.Token, more: ret.More}
			if h.req.Entry == "" { // else nobody else was there, and a slice begins
				g.slice = slice
			}
			c.hold = c.holding.grant(c.ctx, c.spec, c.cfg, g, 1, watchdog.NewWindow(sent, h.req.Lease))
			if c.hold == nil {
				c.doubt(0, 0) // it has the lock in Redis
			}
			if c.doubts > 0 {
				c.holding.acquireInDoubt(c.until)
			}
		})
	case run.Classify(err) == run.Unknown, err == nil && (v == NotHolder || v == PastDeadline): // an earlier run may have given it
		h.Unknown()
		doubt = true
	case ret.Listed > 0:
		c.holding.waitsSince(sent, ret.Listed)
		h.Cancel()
	default:
		h.Cancel()
	}
	c.holding.unlockOps()
	return doubt
}
