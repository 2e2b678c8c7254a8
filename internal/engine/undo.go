package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
)

// undo takes back, in the background, what a failed attempt may have been
// granted; its caller has gone. A reply that there is nothing to undo proves
// nothing before the deadline of the attempt's requests, because one of them
// may still be on its way.
func (e *Engine) undo(c *lockAttempt) {
	if c.until.IsZero() {
		c.until = time.Now() // no request is on its way: it has an entry in the waitlist
	}
	c.holding.stay()
	e.cleanup.Later(func(ctx context.Context) bool { return e.undone(ctx, c) }, c.holding.leave)
}

// undone makes one try and reports whether no other is needed.
func (e *Engine) undone(ctx context.Context, c *lockAttempt) bool {
	hd, s := c.holding, c.spec
	if hd.cleanUpOps(ctx) != nil {
		return ctx.Err() != nil
	}
	past := time.Now().After(c.until)
	if hd.counted() > c.base {
		// The holder has got the lock by another attempt, and that is what
		// Redis shows.
		hd.unlockOps()
		return past
	}
	// Remove only the attempt's own entries: another waiter of this client may
	// be in the waitlist by now. Nobody gives back what that one would be
	// granted later.
	ret := &Return{Holder: hd.field, Count: c.base, Label: cmp.Or(c.cfg.Label, hd.tag()), Leaves: true}
	v, err := e.returnOnce(ctx, hd, s, ret, time.Now())
	if run.Classify(err) == run.Unknown {
		hd.releaseInDoubt(actsUntil())
	}
	hd.unlockOps()
	switch {
	case err != nil:
		return run.Hopeless(err) || time.Now().After(c.until.Add(c.lease()))
	case v == Granted:
		e.tookBackOne(s)
		// Another of its requests may still be on its way. And a waiter may
		// have been granted the lock by a release, so that this grant was not
		// the one in doubt.
		return past || c.doubts == 1 && !c.waiting
	case v == PastDeadline:
		return false
	}
	return past
}

// acquireInDoubt notes that an earlier acquire without a reply may be executed
// until then. After the release it would take the lock for nobody.
func (hd *holding) acquireInDoubt(until time.Time) {
	hd.mu.Lock()
	hd.acquireInDoubtUntil = until
	hd.mu.Unlock()
}

// resolve undoes, in the background, what such a request may still do.
func (hd *holding) resolve(s *Spec) {
	hd.mu.Lock()
	until := hd.acquireInDoubtUntil
	hd.mu.Unlock()
	if until.IsZero() || time.Now().After(until) {
		return
	}
	c := hd.earlierAttempt(s)
	c.inDoubt, c.until = true, until
	if s.Queue != nil {
		hd.engine.withdraw(c) // it may also queue
		return
	}
	hd.engine.undo(c)
}

// earlierAttempt returns an attempt that stands for earlier requests, for which
// nobody waits.
func (hd *holding) earlierAttempt(s *Spec) *lockAttempt {
	c := &lockAttempt{attempt: newAttempt(hd.engine.gate.Late(), s, &LockConfig{})}
	c.holding = hd
	return c
}
