package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A lock that is given back while others of this client wait for it goes on to
// the next of them for as long as a slice lasts: in memory, so that Redis hears
// nothing of it, or, where Redis has a part in it, by one script that gives back
// and takes. At the end of the slice it is given back in the ordinary way, and
// the waiters of other clients have their turn.

// chains are the locks of which Redis shows a holder who has handed on.
type chains struct {
	// mu guards the field below.
	mu sync.Mutex
	m  map[string]*chain // by main key
}

// A chain is a series of hand-overs in memory. The field of its first holder
// stands in Redis for all who follow. That holder was made for one acquisition
// and never comes back, so nobody else can mean that field.
type chain struct {
	key   string
	stand string
	slice time.Time // when it ends

	// mu guards the fields below.
	mu    sync.Mutex
	timer *time.Timer
	last  *holding // who has the lock now
	spec  *Spec
	// moving is set from when the field of last is sent to take the place of the
	// stand until an answer says that it has not: either may stand in Redis.
	moving bool
}

// catchUpAfter is how long after its slice the field of a chain is brought up to
// date, if the last holder has the lock yet.
const catchUpAfter = 15 * time.Millisecond

// handsOn reports whether s may be handed on, in a slice that ends then.
func (e *Engine) handsOn(s *Spec, slice time.Time) bool {
	return s.HandsOn && e.cfg.HandOver > 0 && time.Now().Before(slice)
}

// standing returns the field that stands in Redis for what hd has, or gave up
// last.
func (hd *holding) standing() string {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	return hd.standingLocked()
}

func (hd *holding) standingLocked() string {
	if hd.chain != nil {
		return hd.chain.stand
	}
	return hd.field
}

// moved reports whether Redis may show hd by another field than the one that was
// asked for: then the answer that it is not there says nothing.
func (hd *holding) moved(asked string) bool {
	hd.mu.Lock()
	ch, now := hd.chain, hd.standingLocked()
	hd.mu.Unlock()
	return now != asked || ch.moves()
}

func (ch *chain) moves() bool {
	if ch == nil {
		return false
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.moving
}

// renewed reports whether c asks for what the watchdog renews without a limit.
func (c *claim) renewed() bool {
	return c.cfg.Lease == 0 && c.cfg.MaxHold == 0 && c.cfg.AtLeast == 0
}

// handOver gives what h has given up to the next waiter in memory. The caller has
// the holding's ops.
func (h *Hold) handOver() bool {
	e, hd, s := h.holding.engine, h.holding, h.spec
	if !e.handsOn(s, hd.slice) || hd.tagged.Load() {
		return false
	}
	hd.mu.Lock()
	ch := hd.chain
	nobodys := ch != nil || hd.fresh && hd.acquireInDoubtUntil.IsZero()
	// What stands in Redis for the next one must not be made to last longer.
	nobodys = nobodys && hd.extends == 0 && !time.Now().Before(hd.extended)
	hd.mu.Unlock()
	if !nobodys || ch.moves() || s.Fenced && hd.more == 0 {
		return false
	}
	// A renewal that is due would find another holder each time, and serve none. And
	// nobody gets a longer lease than the one that was asked for.
	if left := hd.left.Remaining(e.now()); left < e.cfg.WatchdogTimeout*2/3 || left > e.cfg.WatchdogTimeout {
		return false
	}
	for {
		next := e.heir(s, hd.slice)
		if next == nil {
			return false
		}
		c := next.claim
		if !c.renewed() {
			next.Cancel()
			c.holding.unlockOps()
			return false
		}
		g := Grant{chain: ch, slice: hd.slice}
		if s.Fenced {
			g.Token, g.more = hd.token+1, hd.more-1
		}
		if ch == nil {
			g.chain = e.newChain(hd, s)
		}
		kept := next.Commit(c.lease(), func() {
			c.sheds()
			c.hold = c.holding.grant(c.ctx, c.spec, c.cfg, g, 1, hd.left)
			if c.hold == nil {
				return
			}
			g.chain.passTo(c.holding, c.spec)
			if c.doubts > 0 {
				c.holding.acquireInDoubt(c.until)
			}
		})
		done := kept && c.hold != nil
		c.holding.unlockOps()
		if !done && ch == nil {
			e.endChain(g.chain)
		}
		if kept {
			return done // if not, the window was over, or the client is being closed
		}
	}
}

// newChain returns a chain in which the field of hd stands.
func (e *Engine) newChain(hd *holding, s *Spec) *chain {
	ch := &chain{key: s.Key, stand: hd.field, slice: hd.slice}
	ch.mu.Lock()
	ch.timer = time.AfterFunc(time.Until(ch.slice)+catchUpAfter, func() { e.catchUp(ch) })
	ch.mu.Unlock()
	e.chains.mu.Lock()
	defer e.chains.mu.Unlock()
	if e.chains.m == nil {
		e.chains.m = make(map[string]*chain)
	}
	e.chains.m[ch.key] = ch
	return ch
}

// stands reports whether the field of a holder stands in Redis for whoever has the
// lock now.
func (e *Engine) stands(key, field string) bool {
	e.chains.mu.Lock()
	defer e.chains.mu.Unlock()
	ch := e.chains.m[key]
	return ch != nil && ch.stand == field
}

// endChain forgets a chain whose stand Redis does not show any more.
func (e *Engine) endChain(ch *chain) {
	ch.mu.Lock()
	ch.timer.Stop()
	ch.mu.Unlock()
	e.chains.mu.Lock()
	defer e.chains.mu.Unlock()
	if e.chains.m[ch.key] == ch {
		delete(e.chains.m, ch.key)
	}
}

func (ch *chain) passTo(hd *holding, s *Spec) {
	ch.mu.Lock()
	ch.last, ch.spec = hd, s
	ch.mu.Unlock()
}

// UpToDate makes Redis show the true holder of the lock with that main key, as
// far as it is one of this client. Whoever asks Redis about holders calls it
// before. It returns when ctx ends, if not earlier.
func (e *Engine) UpToDate(ctx context.Context, key string) {
	e.chains.mu.Lock()
	ch := e.chains.m[key]
	e.chains.mu.Unlock()
	if ch == nil {
		return
	}
	done := make(chan struct{})
	go func() { // it goes on for the next one who asks
		defer close(done)
		e.catchUp(ch)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	case <-e.gate.Closed():
	}
}

var errNobodyYet = errors.New("a hand-over has begun and nobody has the lock yet")

// lockLast takes the ops of who has the lock, or had it last. It returns nil when
// nobody of the chain has it.
func (ch *chain) lockLast(ctx context.Context) (*holding, *Spec, error) {
	for {
		ch.mu.Lock()
		hd, s := ch.last, ch.spec
		ch.mu.Unlock()
		if hd == nil {
			return nil, nil, errNobodyYet
		}
		if err := hd.lockOps(ctx); err != nil {
			return nil, nil, err
		}
		ch.mu.Lock()
		last := ch.last == hd
		ch.mu.Unlock()
		hd.mu.Lock()
		has := hd.chain == ch && hd.count > 0
		hd.mu.Unlock()
		if last && has {
			return hd, s, nil
		}
		hd.unlockOps()
		if last {
			return nil, nil, nil // it was given back, or lost
		}
	}
}

// catchUp puts the field of who has the lock into the place of the stand, and
// tries again later if that cannot be now.
func (e *Engine) catchUp(ch *chain) {
	if !e.gate.Enter() {
		return
	}
	defer e.gate.Leave()
	ctx, cancel := context.WithTimeout(e.gate.Late(), returnBound)
	defer cancel()
	again := returnBound
	hd, s, err := ch.lockLast(ctx)
	switch {
	case errors.Is(err, errNobodyYet):
		again = catchUpAfter
	case err != nil:
	case hd == nil:
		e.endChain(ch)
		return
	default:
		err = hd.moveIn(ctx, s)
		hd.unlockOps()
		if err == nil || errors.Is(err, ErrLeaseLost) {
			return
		}
	}
	ch.mu.Lock()
	ch.timer.Reset(again)
	ch.mu.Unlock()
}

// moveIn puts the field of hd into the place of the one that stands for it, if
// another does. The caller has ops, and hd the lock.
func (hd *holding) moveIn(ctx context.Context, s *Spec) error {
	e := hd.engine
	hd.mu.Lock()
	ch, count := hd.chain, hd.count
	hd.mu.Unlock()
	if ch == nil {
		return nil
	}
	ch.mu.Lock()
	before := ch.moving
	ch.moving = true
	ch.mu.Unlock()
	ret := &Return{
		Holder: ch.stand, Heir: &Request{Holder: hd.field, Count: count},
		Deadline: e.deadline(returnBound),
	}
	ctx, cancel := context.WithTimeout(ctx, returnBound)
	defer cancel()
	v, err := s.Scripts.Release(ctx, e, run.CleanUp, ret)
	if err == nil && v != PastDeadline {
		hd.mu.Lock()
		hd.chain = nil
		hd.mu.Unlock()
		e.endChain(ch)
		if !ret.Given {
			hd.gone()
			return errLost
		}
		return nil
	}
	if err != nil && run.Classify(err) != run.Unknown { // if it was too late, an earlier run may have been in time
		ch.mu.Lock()
		ch.moving = before
		ch.mu.Unlock()
	}
	if err == nil {
		err = run.ErrLate
	}
	return err
}

// unchain notes that what stood in Redis for hd has been given back.
func (hd *holding) unchain() {
	hd.mu.Lock()
	ch := hd.chain
	hd.mu.Unlock()
	if ch != nil {
		hd.engine.endChain(ch)
	}
}

// otherField returns the field to give back if the one that stands was found gone:
// it may have been brought up to date by a request without an answer.
func (hd *holding) otherField() (field string, ok bool) {
	hd.mu.Lock()
	ch := hd.chain
	hd.mu.Unlock()
	return hd.field, ch.moves()
}

// An heir is the waiter of this client to whom a lock goes on as it is given
// back. Its holding's ops are with whoever gives back.
type heir struct {
	wait.Reservation
	claim *claim
	req   Request
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
	c := pl.Claim.(*claim)
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

// sheds has c go on under a number of which Redis knows nothing, if its own may be in a
// list: what is given under that one from here on is nobody's, and is given back. It is
// called as a reservation is committed; the caller has the ops of the holding, before and after.
func (c *claim) sheds() {
	e, s, old := c.spec.engine, c.spec, c.holding
	if !c.fresh || !e.waitlist.has(s.Key, old.field) {
		return
	}
	c.holding = e.enter(NewHolder(), s, true)
	c.holding.tryOps() // nobody else knows it
	c.holding.beginClaim()
	if left := old.endClaim(); left || c.doubts > 0 {
		former := old.earlierClaim(s)
		former.inDoubt, former.doubts, former.until = true, c.doubts, c.until
		former.waiting = true
		c.inDoubt, c.doubts, c.lates, c.until = false, 0, 0, time.Time{}
		e.undo(former)
	}
	old.unlockOps()
	old.leave()
}

// settle tells the heir what has become of the request that was sent at a time,
// and reports whether that is not known.
func (h *heir) settle(sent watchdog.Instant, ret *Return, slice time.Time, v Status, err error) (doubt bool) {
	c := h.claim
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
