package wait

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// ErrOver is returned by Until if Policy.Over fired.
var ErrOver = errors.New("wait: time is up")

// ErrInterrupted is returned by Until if Policy.Interrupt fired or the line was
// disbanded; see Policy.Apart.
var ErrInterrupted = errors.New("wait: interrupted")

// A Claim is one caller's attempt to get something.
type Claim interface {
	// Try asks once. If it returns an error, it undoes by itself what the
	// attempt may have left behind.
	Try(ctx context.Context) (Answer, error)
}

// An Answer is the reply to a Claim.
type Answer struct {
	// Granted says that the caller has the thing.
	Granted bool
	// After is, on a refusal, the longest sleep that can be right (the rest of
	// the present lease), and on a grant the granted lease. It is 0 if unknown.
	After time.Duration
	// Last is set on a grant after which nothing is left, so that the next
	// waiter need not ask before a hint.
	Last bool
	// Earlier is set, with Policy.Together, on a grant that counts only for
	// waiters that stood in line when the previous request was sent.
	Earlier bool
	// Again is set on a refusal that says nothing about the thing itself, such
	// as a loading server or a lost reply: ask again after that time, whatever
	// the hints say.
	Again time.Duration
	// Ticket is, in a queue in Redis, the number of a new place there, which
	// increases along the queue. It is 0 if the caller had a place already.
	Ticket int64
	// Next is, in such a queue, the waiter of this client whose turn it is.
	Next string
}

// A Group is a Claim whose request can include waiters behind it in the line,
// if they are Members, so that one request serves many.
type Group interface {
	Claim
	// TryAll asks once, for the Group and then for others, in order. The first
	// served of others were granted. settled means that the rest of them were
	// not.
	TryAll(ctx context.Context, others []Member) (ans Answer, served int, settled bool, err error)
}

// A Member is a Claim for which the head of the line can ask. Its methods are
// called while it stands in line, never at the same time as Try, and must not
// block.
type Member interface {
	Claim
	// Enlist includes the Member in a request that is about to be sent, unless
	// it returns false. Until Served or Refused is called, the Member may be
	// granted, as after a Try without a reply.
	Enlist() bool
	// Served says that the Member was granted.
	Served()
	// Refused says that the Member was not granted.
	Refused()
}

// A Header is a Claim that is notified when it becomes the head of a line in
// which it stood behind others. Heads is called before any other call to it as
// the head. It must not block and must not call back.
type Header interface {
	Claim
	Heads()
}

// A Successor is a Claim that takes over, with Policy.Together, what the
// previous head has learned for it. Succeeds is called with the claim of a head
// that has left, if the new head stood in line when the last refused request
// was sent. It must not block and must not call back.
type Successor interface {
	Claim
	Succeeds(head Claim)
}

// A Guest is a Claim that learns, with Policy.Together, whose request admitted
// it. Admitted is called before its wait ends. It must not block and must not
// call back.
type Guest interface {
	Claim
	Admitted(by Claim)
}

// groupSize is how many others the head of a line includes in its request.
const groupSize = 31

// Hints are the wake-ups for one thing. A hint may be late, merged with
// another, or missing.
type Hints interface {
	// C delivers a hint if there was one since the last receive. The first hint
	// comes when hints begin to arrive.
	C() <-chan struct{}
	// Live reports whether hints arrive.
	Live() bool
	// Dead reports that no hint will ever come, so that the waiter must poll.
	Dead() bool
	// Close ends the hints.
	Close()
}

// A Giver is Hints that may also bring a grant.
type Giver interface {
	Hints
	// Given reports whether the waiter would receive a grant.
	Given() bool
}

// A Backoff is a series of growing sleeps.
type Backoff struct {
	Initial    time.Duration
	Max        time.Duration
	Multiplier float64
}

// next returns the sleep after a base of d, and the new base. d is 0 for the
// first sleep. Up to a quarter is taken off at random, so that pollers do not
// run in step.
func (b Backoff) next(d time.Duration) (sleep, base time.Duration) {
	if d == 0 {
		d = b.Initial
	} else if longer := float64(d) * b.Multiplier; longer < float64(b.Max) {
		d = time.Duration(longer)
	} else {
		d = b.Max // also if longer exceeds a Duration
	}
	return jitter(d), d
}

// jitter takes off up to a quarter of d.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d/4)+1))
}

// Events are notified of events in Until.
type Events interface {
	// Slept is called once, before the first sleep.
	Slept()
	// Missed is called when a recheck found what a hint should have announced.
	Missed()
}

// A Policy sets how to wait.
type Policy struct {
	// Listen opens the hints; nil to wait by polling alone.
	Listen func() Hints
	// Poll is the back-off between tries without hints.
	Poll Backoff
	// Recheck is the longest sleep, whatever the hints say.
	Recheck time.Duration
	// Unconfirmed is the longest sleep while hints do not arrive yet.
	Unconfirmed time.Duration
	// Exclusive is set if, after a grant to the head, the next waiter cannot be
	// granted before a hint.
	Exclusive bool
	// Together is set if a grant to the head is a grant to all waiters that
	// stood in line when it asked.
	Together bool
	// Apart is set if, after a grant to the head, all other waiters may ask at
	// once: their waits then end with ErrInterrupted.
	Apart bool
	// Over ends the wait with ErrOver; nil for never.
	Over <-chan time.Time
	// Interrupt ends the wait with ErrInterrupted; nil for never.
	Interrupt <-chan struct{}
	// Closed ends the wait with ClosedErr.
	Closed    <-chan struct{}
	ClosedErr error
	// Events receives the events; may be nil.
	Events Events
	// Reserved is set by a wait that has failed if the waiter may still be
	// granted the thing; see Reservation.
	Reserved bool
	// Place is the caller's place in the line if it has one (see Follow), or
	// memory for one, or nil.
	Place *Place
	// Heard is the result of Place.Await.
	Heard Heard
}

// slack is added to the rest of a lease before asking again, so that a key that
// expires in that millisecond is really gone.
const slack = 2 * time.Millisecond

// Until stands in the line for key and calls c.Try until it is granted, it
// fails, or the wait ends. If the error is nil, the claim was granted.
//
// Until asks once before it listens, so that a free thing costs one round trip
// and no subscription. Then it listens, and asks again when hints begin to
// arrive, which detects a release in between. It sleeps until a hint, the end
// of the present lease, the recheck, or the end of the wait.
func (ls *Lines) Until(ctx context.Context, key string, c Claim, p *Policy) (err error) {
	pl := p.Place
	if pl == nil {
		pl = new(Place)
	}
	if pl.line == nil {
		ls.join(key, c, pl)
		if p.Together && pl.turn != nil {
			ls.Nudge(key) // the head may have asked before; what ends from now on counts for this caller too
		}
	}
	w := waiter{sleeper: sleeper{lines: ls, policy: p, begun: &pl.begun}, place: pl}
	var next turn
	defer func() { // Try may panic
		w.stop()
		left := ls.leave(pl, next)
		switch {
		case err == nil:
		case left:
			p.Reserved = ls.isReserved(pl)
		default: // granted at the same moment
			w.take()
			err = nil
		}
	}()
	if next, err = w.wait(ctx, c); errors.Is(err, errGiven) {
		return nil
	}
	return err
}

// errGiven ends a wait whose claim was granted by another caller.
var errGiven = errors.New("wait: given")

// wait waits for the turn of w, then asks and sleeps until it is granted. It
// returns what the next waiter is told.
func (w *waiter) wait(ctx context.Context, c Claim) (next turn, err error) {
	ls, p := w.lines, w.policy
	t, err := w.await(ctx)
	switch {
	case err != nil:
		return turn{}, err
	case t.granted:
		return turn{}, errGiven
	case t.ended:
		return turn{}, p.ClosedErr
	case t.disbanded:
		return turn{}, ErrInterrupted
	}
	ans := Answer{After: t.after}
	for {
		if !t.asleep {
			if !ls.stir(w.place) {
				w.take()
				if !p.Exclusive {
					ls.Nudge(w.place.line.key) // the hint that woke w may have announced more than w was granted
				}
				return turn{}, errGiven
			}
			ans, err = w.ask(ctx, c)
			if err != nil {
				return turn{}, err
			}
			if ans.Granted {
				if w.timedOut && p.Events != nil {
					p.Events.Missed()
				}
				if p.Apart {
					ls.disband(w.place)
				}
				return turn{asleep: p.Exclusive || ans.Last, after: ans.After}, nil
			}
		}
		t.asleep = false
		if err := w.rest(ctx, ans); err != nil {
			return turn{}, err
		}
	}
}

// take waits until the claim knows what it was granted.
func (w *waiter) take() {
	for t := range w.place.turn {
		if t.granted {
			return
		}
	}
}

// A waiter is the state of one Until.
type waiter struct {
	sleeper
	place    *Place
	timedOut bool // the last sleep ended by the recheck alone
}

// await waits for the turn of w.
func (w *waiter) await(ctx context.Context) (turn, error) {
	switch h := w.policy.Heard; h.word {
	case hasTurn:
		return h.turn, nil
	case nothing:
		if w.place.turn == nil {
			return turn{}, nil // it is the head
		}
	case isDone:
		return turn{}, ctx.Err()
	case isOver:
		return turn{}, ErrOver
	}
	w.begin()
	_, t, err := w.sleep(ctx, signals{told: w.place.turn})
	return t, err
}

// ask makes the head of the line ask, for itself and for the waiters behind it
// that share its request.
func (w *waiter) ask(ctx context.Context, c Claim) (ans Answer, err error) {
	if w.policy.Together {
		// A waiter that joins from here on asks by itself, because the reply
		// may be older.
		upTo := w.lines.last(w.place)
		ans, err = c.Try(ctx)
		switch {
		case err != nil || ans.Again > 0:
		case !ans.Granted:
			w.place.line.asked = upTo // only the head reads and writes it
		case ans.Earlier:
			w.lines.admit(w.place, w.place.line.asked)
		default:
			w.lines.admit(w.place, upTo)
		}
		return ans, err
	}
	g, ok := c.(Group)
	if !ok {
		return c.Try(ctx)
	}
	places, members := w.lines.enlist(w.place, groupSize)
	ans, served, settled, err := g.TryAll(ctx, members)
	if len(places) > 0 {
		w.lines.dismiss(places, served, settled)
	}
	return ans, err
}

// rest sleeps until it is time to ask again.
func (w *waiter) rest(ctx context.Context, ans Answer) error {
	if ans.Again == 0 {
		w.begin() // otherwise nobody was refused: Redis could not be asked
	}
	var hints <-chan struct{}
	d, recheck := w.length(ans, &hints)
	if d == 0 {
		w.take()
		return errGiven
	}
	timer := w.after(d)
	w.lines.rest(w.place)
	ev, t, err := w.sleep(ctx, signals{told: w.place.turn, hints: hints, timer: timer})
	if err != nil {
		return err
	}
	w.timedOut = ev == elapsed && recheck
	if ev == hinted {
		if d := w.lines.heldBack(w.place); d > 0 {
			_, t, err = w.sleep(ctx, signals{told: w.place.turn, timer: w.after(d)}) // whatever the hints say
		}
	}
	if t.granted {
		return errGiven
	}
	return err
}

// length returns the longest sleep, sets the hints to listen to, and reports
// whether the end of that sleep is a recheck, which should find nothing. It
// returns 0 if the claim has been granted meanwhile.
func (w *waiter) length(ans Answer, hints *<-chan struct{}) (d time.Duration, recheck bool) {
	if ans.Again > 0 {
		// Asking has failed, so the hints do not matter.
		return ans.Again, false
	}
	p := w.policy
	live, dead := false, true
	if p.Listen != nil {
		h := w.lines.listen(w.place, p.Listen)
		if h == nil {
			return 0, false
		}
		*hints, live, dead = h.C(), h.Live(), h.Dead()
	}
	switch {
	case dead:
		d = w.poll()
	case live:
		d, recheck = jitter(p.Recheck), true
	default:
		d = jitter(p.Unconfirmed)
	}
	if ans.After > 0 && ans.After-slack < d { // just before the end of the lease there is nothing to find
		d, recheck = ans.After+slack, false
	}
	return d, recheck
}
