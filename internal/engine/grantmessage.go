package engine

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/lua"
)

// A client that releases a lock may grant it to a waiter of another client that
// is known to be alive, and tell that client. The waiter need not ask. With a
// queue, the lease of such a grant is short, and the watchdog extends it.

// leastGiven is what must be left of such a short lease for the waiter to trust
// it without asking.
const leastGiven = 2 * time.Second

// findID returns the holding of the holder with that ID for s, counted in, or
// nil if there is none.
func (e *Engine) findID(id string, s *Spec) *holding {
	n, ok := e.number(id)
	if !ok {
		return nil
	}
	return e.find(n, s)
}

// number returns the number of the holder with that ID.
func (e *Engine) number(id string) (n uint64, ok bool) {
	i := strings.LastIndexByte(id, ':')
	n, err := strconv.ParseUint(id[i+1:], 10, 64)
	return n - e.offset, err == nil
}

// seen notes that a request, sent at that moment, found a waiter in the queue
// at at, in server ms. It reports whether the waiter may have a label.
func (e *Engine) seen(s *Spec, id string, sent watchdog.Instant, at int64) (labelled bool) {
	if hd := e.findID(id, s); hd != nil {
		hd.waitsSince(sent, at)
		labelled = hd.tagged.Load()
		hd.leave()
	}
	return labelled
}

// waitsSince notes that the holder did not have the lock when a request was
// sent, nor when Redis answered it. Any later grant is from after that.
func (hd *holding) waitsSince(sent watchdog.Instant, at int64) {
	hd.mu.Lock()
	if at >= hd.waitsAt {
		hd.waits, hd.waitsAt = sent, at
	}
	hd.mu.Unlock()
}

// Proof returns what this client's scripts leave beside a queue in Redis.
// Clients that grant one of its waiters a lock use it to prove that they can
// read the queue.
func (e *Engine) Proof() string { return e.proof }

// A grantMessage tells a client that one of its holders was granted a lock.
type grantMessage struct {
	id    string // the holder
	lease time.Duration
	at    int64 // server ms
	token int64
	text  string // the message up to the tag
	tag   string
}

// parseGrantMessage parses a message "+<number> <ms> <server ms> [<token>]
// <tag>".
func (e *Engine) parseGrantMessage(message string) (g grantMessage, ok bool) {
	text, isGrant := strings.CutPrefix(message, "+")
	at := strings.LastIndexByte(text, ' ')
	if !isGrant || at < 0 {
		return grantMessage{}, false
	}
	text, tag := text[:at+1], text[at+1:]
	var n [4]int64
	fields := 0
	for rest := text; rest != ""; fields++ {
		field, after, _ := strings.Cut(rest, " ")
		x, err := strconv.ParseUint(field, 10, 63)
		if err != nil || fields == len(n) {
			return grantMessage{}, false
		}
		n[fields], rest = int64(x), after
	}
	if fields < 3 || n[1] > MaxLease.Milliseconds() {
		return grantMessage{}, false
	}
	number := text[:strings.IndexByte(text, ' ')]
	return grantMessage{e.cfg.ID + ":" + number, time.Duration(n[1]) * time.Millisecond, n[2], n[3], text, tag}, true
}

// proves reports whether the tag of g, for a waiter in the queue of s, was made
// by a client that knows the proof. A client that can only publish cannot make
// it, and a client that listens learns only tags of holders that come once.
func (e *Engine) proves(s *Spec, g grantMessage) bool {
	// The waiter does not move until this is done, so it allocates nothing.
	var buf [256]byte
	b := append(append(append(append(buf[:0], s.Key...), ' '), g.text...), e.proof...)
	sum := lua.SHA1(b) // the only hash available to scripts; a collision is of no use to anybody
	var digits [2 * len(sum)]byte
	hex.Encode(digits[:], sum[:])
	return subtle.ConstantTimeCompare(append(buf[:0], g.tag...), digits[:]) == 1
}

// receive handles a message to the waiters of this client. It returns false if
// the message grants nothing, so that it is only a hint.
func (e *Engine) receive(s *Spec, message string) bool {
	g, ok := e.parseGrantMessage(message)
	switch {
	case !ok:
		return false
	case s.Queue == nil:
		return e.receiveListed(s, g)
	case !e.proves(s, g):
		return false
	case !e.gate.Enter():
		e.reject(s, g)
		return true
	}
	defer e.gate.Leave()
	pl, ok := e.lines.ReserveFor(s.Line, g.id)
	if ok && e.accept(pl, g) {
		return true
	}
	e.mayCut(s, g)
	if !e.lines.Tell(s.Line, g.id) { // otherwise it asks and finds that it has the lock
		e.reject(s, g)
	}
	return true
}

// accept lets a waiter take a grant. It returns false if the waiter should ask
// instead. The lease cannot have begun before the last request that found the
// holder waiting.
func (e *Engine) accept(pl wait.Reservation, g grantMessage) bool {
	c := pl.Claim.(*lockAttempt)
	hd, s := c.holding, c.spec
	if !hd.tryOps() {
		pl.Cancel()
		return false // it is asking now
	}
	hd.mu.Lock()
	window := watchdog.NewWindow(hd.waits, g.lease)
	free := hd.count == 0 && hd.waitsAt <= g.at // otherwise it has been refused since
	hd.mu.Unlock()
	least := leastGiven
	if s.Queue == nil {
		least = g.lease / 2
	}
	// A holder that may come again could receive an old message, and no replica
	// has confirmed the request of another client.
	if !free || !c.fresh || e.cfg.Acks.On() || !c.renewed() || c.cfg.Label != "" ||
		s.Fenced && g.token == 0 || window.Remaining(e.now()) < least {
		pl.Cancel()
		hd.unlockOps()
		return false
	}
	var hold *Hold
	if !pl.Commit(g.lease, func() {
		hold = hd.grant(c.ctx, s, c.cfg, Grant{Token: g.token}, 1, window)
		if hold != nil && c.doubts > 0 {
			hd.acquireInDoubt(c.until)
		}
		c.hold = hold
		hd.unlockOps() // from here on the caller may have returned and unlocked
	}) {
		hd.unlockOps()
	}
	return hold != nil
}

// mayCut notes the end of the lease that a waiter was granted, because the
// waiter may want a shorter one.
func (e *Engine) mayCut(s *Spec, g grantMessage) {
	if hd := e.findID(g.id, s); hd != nil {
		hd.cuts(g.at + g.lease.Milliseconds())
		hd.leave()
	}
}

// cuts makes the next request shorten the lease that ends at ends, in server
// ms, to its own.
func (hd *holding) cuts(ends int64) {
	hd.mu.Lock()
	hd.ends = ends
	hd.mu.Unlock()
}

// reject gives back, in the background, a grant to a holder that neither has
// the lock nor waits for it. A holder that has the lock by a hand-over has it
// under another number, which can be granted nothing; see handOver.
func (e *Engine) reject(s *Spec, g grantMessage) {
	n, ok := e.number(g.id)
	if !ok || !e.gate.Enter() && !e.gate.Remain() {
		return
	}
	defer e.gate.Leave()
	hd := e.enter(n, s, false)
	until := time.Now().Add(g.lease)
	e.cleanup.Later(func(ctx context.Context) bool { return e.rejected(ctx, hd, s) || time.Now().After(until) }, hd.leave)
}

// rejected makes one try and reports whether no other is needed.
func (e *Engine) rejected(ctx context.Context, hd *holding, s *Spec) bool {
	if s.Queue != nil || hd.had() {
		// Its hold may be on its way to another waiter in memory, or a new hold
		// to this holder.
		if hd.cleanUpOps(ctx) != nil {
			return ctx.Err() != nil
		}
		defer hd.unlockOps()
	}
	switch {
	case hd.counted() > 0:
		return true // it asked, or handed the lock over, before the message came
	case hd.hear():
		return true
	}
	sent := time.Now()
	v, err := e.returnOnce(ctx, hd, s, &Return{Holder: hd.field}, sent)
	if s.Queue != nil && run.Classify(err) == run.Unknown && !hd.fresh {
		hd.releaseInDoubt(actsUntil())
	}
	return err == nil && v != PastDeadline || run.Hopeless(err)
}
