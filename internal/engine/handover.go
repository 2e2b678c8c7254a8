package engine

import (
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A lock that is released while other callers of this client wait for it goes
// to the next of them, as long as the slice lasts. Redis is not told: the
// waiter takes over the holding, with its holder and its lease, and has a Hold
// of its own. If it cannot take over the holding, one script releases the lock
// and grants it to the waiter. After the slice the lock is released in the
// ordinary way, and the waiters of other clients have their turn.

// handsOn reports whether s may be handed over, in a slice that ends at slice.
func (e *Engine) handsOn(s *Spec, slice time.Time) bool {
	return s.HandsOn && e.cfg.HandOver > 0 && time.Now().Before(slice)
}

// renewed reports whether c asks for a hold that the watchdog renews without a
// limit.
func (c *lockAttempt) renewed() bool {
	return c.cfg.Lease == 0 && c.cfg.MaxHold == 0 && c.cfg.AtLeast == 0
}

// handOver lets the next waiter take over the holding of h, which has been
// given up, and reports whether it did. The caller has the holding's ops and is
// counted in, and neither after a hand-over.
func (h *Hold) handOver() bool {
	e, hd, s := h.holding.engine, h.holding, h.spec
	if !e.handsOn(s, hd.slice) || !e.lines.Waits(s.Line) || !hd.canBeTakenOver(s, e.renewed(h.cfg)) {
		return false
	}
	for {
		next := e.heir(s, hd.slice)
		if next == nil {
			return false
		}
		c, own := next.attempt, next.attempt.holding
		if !c.fresh || !c.renewed() || e.renewed(c.cfg) != e.renewed(h.cfg) {
			next.Cancel()
			own.unlockOps()
			return false
		}
		g := Grant{slice: hd.slice, room: &own.room}
		if s.Fenced {
			g.Token, g.more = hd.token+1, hd.more-1
		}
		committed := next.Commit(c.lease(), func() {
			// This fails if the window is over or the client is being closed.
			if hold := hd.grant(c.ctx, c.spec, c.cfg, g, 1, hd.left); hold != nil {
				c.hold = hold
				hd.leave()
				hd.unlockOps() // from here on the waiter may unlock it
			}
		})
		handed := committed && c.hold != nil
		own.unlockOps()
		if committed {
			return handed
		}
	}
}

// canBeTakenOver reports whether a waiter can take over hd, which nobody uses
// now, with the lease full. The holding must do exactly what the waiter asks for, and no
// request of the previous Hold may still arrive. The caller has ops.
func (hd *holding) canBeTakenOver(s *Spec, full time.Duration) bool {
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
	// A renewal that is due would find another Hold each time and renew none.
	// And no waiter gets a longer lease than it asked for.
	left := hd.left.Remaining(hd.engine.now())
	return left >= full*2/3 && left <= full
}

// An heir is the waiter of this client that gets a lock when it is released.
// The releaser has the ops of its holding.
type heir struct {
	wait.Reservation
	attempt *lockAttempt
	req     Request
}

// awaited reports whether this client may have a waiter that can get s.
func (e *Engine) awaited(s *Spec) bool { return s.Queue != nil || e.lines.Waits(s.Line) }

// heir reserves s for the waiter that may get it when it is released: the first
// of this client in the queue, or, for a lock without a queue, the head of the
// line. While the slice lasts, that waiter comes before all others. After that
// it takes its turn in the waitlist, if s has one.
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
		if c.fresh && c.renewed() { // it may hand the lock over in memory
			// Tokens are the server's clock in µs: no more of them than µs have
			// passed since the last token, and no more than can be used.
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

// settle applies the result of the request that was sent at sent to the heir.
// It returns true if the result is unknown.
func (h *heir) settle(sent watchdog.Instant, ret *Return, slice time.Time, v Status, err error) (doubt bool) {
	c := h.attempt
	switch {
	case ret.Given:
		h.Commit(h.req.Lease, func() {
			g := Grant{Token: ret.Token, more: ret.More}
			if h.req.Entry == "" { // no other waiter was before it, so a slice begins
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
	case run.Classify(err) == run.Unknown, err == nil && (v == NotHolder || v == PastDeadline): // an earlier run may have granted it
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
