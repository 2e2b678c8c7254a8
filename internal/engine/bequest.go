package engine

import (
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A client that gives back a lock with a queue gives it to the next waiter at
// once, if that is one of a client that is known to be alive, and tells that
// client: its waiter need not ask. The lease is a short one, which the watchdog
// makes longer.

// leastGiven is what must be left of such a lease for the waiter to believe in it
// without asking.
const leastGiven = 2 * time.Second

// findID returns the entry for s of the holder that has that ID, counted in; nil
// if there is none.
func (e *Engine) findID(id string, s *Spec) *entry {
	i := strings.LastIndexByte(id, ':')
	n, err := strconv.ParseUint(id[i+1:], 10, 64)
	if err != nil {
		return nil
	}
	return e.find(n-e.offset, s)
}

// seen notes that a request that was sent at a moment found a waiter in the queue.
func (e *Engine) seen(s *Spec, id string, sent watchdog.Instant) {
	if ent := e.findID(id, s); ent != nil {
		ent.waitsSince(sent)
		ent.leave()
	}
}

// waitsSince notes that the holder did not have the lock when a request was sent:
// whatever it is given from then on, it is given later.
func (ent *entry) waitsSince(sent watchdog.Instant) {
	ent.mu.Lock()
	ent.waits = sent
	ent.mu.Unlock()
}

// told takes in a message to the waiters of this client: "+<number> <ms>" says
// that the lock was given to that holder, for so long. It returns false for any
// other message.
func (e *Engine) told(s *Spec, message string) bool {
	number, ms, ok := strings.Cut(strings.TrimPrefix(message, "+"), " ")
	lease, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || message[0] != '+' {
		return false
	}
	if !e.gate.enter() {
		return true
	}
	defer e.gate.leave()
	id := e.cfg.ID + ":" + number
	if !e.given(s, id, time.Duration(lease)*time.Millisecond) {
		e.turn(s, id) // it asks, and finds that it has the lock
	}
	return true
}

// given lets a waiter have what it was given, and returns false when it had better
// ask. A lease cannot have begun before the last request that found it waiting.
func (e *Engine) given(s *Spec, id string, lease time.Duration) bool {
	pl, ok := e.lines.PledgeTo(s.Line, id)
	if !ok {
		return false
	}
	c := pl.Claim.(*claim)
	ent := c.entry
	select {
	case <-ent.ops:
	default:
		pl.Drop()
		return false // it is asking
	}
	defer ent.unlockOps()
	ent.mu.Lock()
	window := watchdog.NewWindow(ent.waits, lease)
	free := ent.count == 0
	ent.mu.Unlock()
	// A holder that may come more than once could be told of an earlier time, and no
	// replica has confirmed what somebody else has asked for.
	if !free || !c.fresh || e.cfg.Acks.Min > 0 || !c.bare() || c.cfg.Label != "" || window.Remaining(e.now()) < leastGiven {
		pl.Drop()
		return false
	}
	kept := pl.Keep(lease, func() {
		c.hold = ent.grant(c.ctx, c.spec, c.cfg, Grant{}, 1, window)
		if c.hold != nil && c.doubts > 0 {
			ent.haunt(c.until)
		}
	})
	return kept && c.hold != nil
}
