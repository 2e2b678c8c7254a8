package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
)

// undo takes back what a failed attempt may have been granted, in the background:
// the caller has gone. "Nothing to undo" is no proof before the deadline of the
// attempt's requests has passed, because one of them may still be on its way.
func (e *Engine) undo(c *lockAttempt) {
	if c.until.IsZero() {
		c.until = time.Now() // nothing is on its way: it has a place in the list
	}
	c.holding.stay()
	e.cleanup.Later(func(ctx context.Context) bool { return e.undone(ctx, c) }, c.holding.leave)
}

// undone makes one try and reports whether no more is needed.
func (e *Engine) undone(ctx context.Context, c *lockAttempt) bool {
	hd, s := c.holding, c.spec
	if hd.cleanUpOps(ctx) != nil {
		return ctx.Err() != nil
	}
	past := time.Now().After(c.until)
	if hd.counted() > c.base {
		// The holder has come to hold it by another attempt, and that is what Redis
		// shows.
		hd.unlockOps()
		return past
	}
	// Its own entry, which need not be the one that is known: another waiter of this
	// client may be in the list by now. What it would be given later, nobody gives back.
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
		// Of several requests another one may be on its way yet; and who waits may have
		// been given it by whoever gave it back, so that this was not what is in doubt.
		return past || c.doubts == 1 && !c.waiting
	case v == PastDeadline:
		return false
	}
	return past
}

// acquireInDoubt notes that a request of before, whose answer never came, may be carried
// out until then: after the release it would take the lock for nobody.
func (hd *holding) acquireInDoubt(until time.Time) {
	hd.mu.Lock()
	hd.acquireInDoubtUntil = until
	hd.mu.Unlock()
}

// resolve undoes, in the background, what such a request may yet do.
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
		hd.engine.withdraw(c) // it may queue, too
		return
	}
	hd.engine.undo(c)
}

// earlierAttempt returns an attempt that stands for those of before, which nobody waits for.
func (hd *holding) earlierAttempt(s *Spec) *lockAttempt {
	c := &lockAttempt{attempt: newAttempt(hd.engine.gate.Late(), s, &LockConfig{})}
	c.holding = hd
	return c
}
