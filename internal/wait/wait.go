package wait

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// ErrOver is returned by Until when Policy.Over fired.
var ErrOver = errors.New("wait: time is up")

// ErrInterrupted is returned by Until when Policy.Interrupt fired, or the line has
// been disbanded: see Policy.Apart.
var ErrInterrupted = errors.New("wait: interrupted")

// A Claim is one caller's attempt to get something.
type Claim interface {
	// Try asks once. It undoes by itself whatever an attempt may have left
	// behind when it returns an error.
	Try(ctx context.Context) (Answer, error)
}

// An Answer is what a Claim was told.
type Answer struct {
	// Granted says that the caller has it.
	Granted bool
	// After is, on a refusal, the longest sleep that can still be right (what is
	// left of the present lease), and on a grant the lease given. 0: unknown.
	After time.Duration
	// Last is set on a grant after which nothing is left, so that the next one
	// need not ask before a hint.
	Last bool
	// Earlier is set, where Policy.Together is, on a grant that is one only to those
	// who stood in line when the question before this one was asked.
	Earlier bool
	// Again is set on a refusal that says nothing about the thing itself (a
	// server that is loading, a lost reply): ask again after that long, whatever
	// the hints say.
	Again time.Duration
	// Ticket is, in a queue that stands in Redis, the number of a new place there;
	// it grows along the queue. 0: the caller had a place already.
	Ticket int64
	// Next is, in such a queue, the waiter of this client whose turn it is.
	Next string
}

// A Group is a Claim that asks for those behind it in the line as well, which
// must be Members, so that one question serves many.
type Group interface {
	Claim
	// TryAll asks once, for itself and then for others, in order. It returns how
	// many of others were granted: the first served of them. settled says that
	// the rest of them were not.
	TryAll(ctx context.Context, others []Member) (ans Answer, served int, settled bool, err error)
}

// A Member is a Claim for which the head of the line may ask. Its methods are
// called while it stands in line, and never at the same time as Try; they must
// not block.
type Member interface {
	Claim
	// Enlist makes it part of a question that is about to be asked, unless it
	// returns false. Until Served or Refused is called, it may be granted: it is
	// what a Try is that got no answer.
	Enlist() bool
	// Served says that it was granted.
	Served()
	// Refused says that it was not.
	Refused()
}

// A Header is a Claim that wants to know when it has come to the head of a line in
// which it stood behind others. Heads is called before anybody speaks to it there,
// must not block, and must not call back.
type Header interface {
	Claim
	Heads()
}

// A Successor is a Claim that takes over what the head of the line has learned for
// it, where Policy.Together is. Succeeds is called when the head has left, with its
// claim, if the new head stood in line when the last question was asked that was
// refused; it must not block, and must not call back.
type Successor interface {
	Claim
	Succeeds(head Claim)
}

// A Guest is a Claim that wants to know by whose question it was granted, where
// Policy.Together is. Admitted is called before its wait ends, must not block, and
// must not call back.
type Guest interface {
	Claim
	Admitted(by Claim)
}

// groupSize is for how many others the head of a line asks.
const groupSize = 31

// Hints are wake-ups for one thing. A hint may be late, merged with another, or
// missing.
type Hints interface {
	// C has a hint in it when there was one since the last receive. The first
	// comes when the hints have begun to flow.
	C() <-chan struct{}
	// Live says whether hints flow.
	Live() bool
	// Dead says that no hint will ever come, so that one must poll.
	Dead() bool
	// Close ends the hints.
	Close()
}

// A Giver is Hints that may come with the thing itself.
type Giver interface {
	Hints
	// Given says whether the waiter would hear of it.
	Given() bool
}

// A Backoff is a series of growing sleeps.
type Backoff struct {
	Initial    time.Duration
	Max        time.Duration
	Multiplier float64
}

// next returns the sleep that follows d; the first follows 0. Up to a quarter
// is taken off at random so that pollers do not march in step.
func (b Backoff) next(d time.Duration) (sleep, base time.Duration) {
	if d == 0 {
		d = b.Initial
	} else if longer := float64(d) * b.Multiplier; longer < float64(b.Max) {
		d = time.Duration(longer)
	} else {
		d = b.Max // also where longer is too much for a Duration
	}
	return jitter(d), d
}

// jitter takes off up to a quarter of d.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d/4)+1))
}

// Events are what the caller of Until wants to know of.
type Events interface {
	// Slept is called once, before the first sleep.
	Slept()
	// Missed is called when a recheck found what a hint should have told.
	Missed()
}

// A Policy is how to wait.
type Policy struct {
	// Listen opens the hints; nil to wait by polling alone.
	Listen func() Hints
	// Poll is the back-off between tries when there are no hints.
	Poll Backoff
	// Recheck is the longest sleep, whatever the hints say.
	Recheck time.Duration
	// Unconfirmed is the longest sleep while the hints do not flow yet.
	Unconfirmed time.Duration
	// Exclusive is set when a grant to the head means that the next one cannot
	// be granted before a hint.
	Exclusive bool
	// Together is set when a grant to the head is one to everybody who stood in
	// line when it asked.
	Together bool
	// Apart is set when after a grant to the head all the others may as well ask at
	// once: their wait ends with ErrInterrupted then.
	Apart bool
	// Over ends the wait with ErrOver; nil for never.
	Over <-chan time.Time
	// Interrupt ends the wait with ErrInterrupted; nil for never.
	Interrupt <-chan struct{}
	// Closed ends the wait with ClosedErr.
	Closed    <-chan struct{}
	ClosedErr error
	// Events is told of them; nil for nobody.
	Events Events
	// Reserved is set when the wait has failed and the thing may yet be given to
	// the waiter: see Reservation.
	Reserved bool
	// Place is that of the caller in the line, when it has one already (see Follow),
	// or one to be used, or nil.
	Place *Place
	// Heard is what Place.Await has returned.
	Heard Heard
}

// slack is added to the rest of a lease before asking again, so that a key that
// expires with the millisecond is really gone.
const slack = 2 * time.Millisecond

// Until stands in line for key and calls c.Try until it is granted, it fails,
// or the wait ends. On a nil error the claim was granted.
//
// It asks once before listening, so that what is free costs one round trip and
// no subscription. Then it listens, asks again once hints flow (a release in
// between is seen by that), and sleeps until a hint, the end of the present
// lease, the recheck, or the end of the wait.
func (ls *Lines) Until(ctx context.Context, key string, c Claim, p *Policy) (err error) {
	pl := p.Place
	if pl == nil {
		pl = new(Place)
	}
	if pl.line == nil {
		ls.join(key, c, pl)
		if p.Together && pl.turn != nil {
			ls.Nudge(key) // the head may have asked before: what ends from here on is his, too
		}
	}
	w := waiter{lines: ls, place: pl, policy: p}
	var next turn
	defer func() { // Try may panic
		w.stop()
		left := ls.leave(pl, next)
		switch {
		case err == nil:
		case left:
			p.Reserved = ls.isReserved(pl)
		default: // it was granted in the same moment
			w.take()
			err = nil
		}
	}()
	if next, err = w.wait(ctx, c); errors.Is(err, errGiven) {
		return nil
	}
	return err
}

// errGiven ends a wait whose claim was granted by somebody else.
var errGiven = errors.New("wait: given")

// wait waits for the turn of w and then asks and sleeps until it is granted, and
// returns what the next one is told.
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
					ls.Nudge(w.place.line.key) // what has woken w may have told of more than it was given
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
		if err := w.sleep(ctx, ans); err != nil {
			return turn{}, err
		}
	}
}

// take waits until the claim knows what it was given.
func (w *waiter) take() {
	for t := range w.place.turn {
		if t.granted {
			return
		}
	}
}

// A waiter is the state of one Until.
type waiter struct {
	lines  *Lines
	place  *Place
	policy *Policy

	timer    *time.Timer
	polled   time.Duration // the last back-off
	timedOut bool          // the last sleep ended by the recheck, nothing else
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
	select {
	case t := <-w.place.turn:
		return t, nil
	case <-ctx.Done():
		return turn{}, ctx.Err()
	case <-w.policy.Over:
		return turn{}, ErrOver
	case <-w.policy.Interrupt:
		return turn{}, ErrInterrupted
	case <-w.policy.Closed:
		return turn{}, w.policy.ClosedErr
	}
}

// ask has the head of the line ask, for itself and for those behind it whom its
// answer concerns.
func (w *waiter) ask(ctx context.Context, c Claim) (ans Answer, err error) {
	if w.policy.Together {
		// Who joins from here on asks for himself: the answer may be older.
		upTo := w.lines.last(w.place)
		ans, err = c.Try(ctx)
		switch {
		case err != nil || ans.Again > 0:
		case !ans.Granted:
			w.place.line.asked = upTo // read and written by the head alone
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

// sleep waits until it is time to ask again.
func (w *waiter) sleep(ctx context.Context, ans Answer) error {
	if ans.Again == 0 {
		w.begin() // else nobody was refused: Redis could not be asked
	}
	var hints <-chan struct{}
	d, recheck := w.length(ans, &hints)
	if d == 0 {
		w.take()
		return errGiven
	}
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	w.lines.rest(w.place)
	select {
	case t := <-w.place.turn:
		w.timedOut = false
		if t.granted {
			return errGiven
		}
		return nil
	case <-hints:
		w.timedOut = false
		if d := w.lines.heldBack(w.place); d > 0 {
			return w.pause(ctx, d)
		}
		return nil
	case <-w.timer.C:
		w.timedOut = recheck
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.policy.Over:
		return ErrOver
	case <-w.policy.Interrupt:
		return ErrInterrupted
	case <-w.policy.Closed:
		return w.policy.ClosedErr
	}
}

// pause waits for d, whatever the hints say.
func (w *waiter) pause(ctx context.Context, d time.Duration) error {
	w.timer.Reset(d)
	select {
	case t := <-w.place.turn:
		if t.granted {
			return errGiven
		}
		return nil
	case <-w.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.policy.Over:
		return ErrOver
	case <-w.policy.Interrupt:
		return ErrInterrupted
	case <-w.policy.Closed:
		return w.policy.ClosedErr
	}
}

// length says how long to sleep at most, sets the hints to listen to, and says
// whether the end of that sleep is a recheck: one that should find nothing. It
// returns 0 when the claim has been granted meanwhile.
func (w *waiter) length(ans Answer, hints *<-chan struct{}) (d time.Duration, recheck bool) {
	if ans.Again > 0 {
		// The refusal was a failure to ask: the hints have nothing to say to it.
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
		d, w.polled = p.Poll.next(w.polled)
	case live:
		d, recheck = jitter(p.Recheck), true
	default:
		d = jitter(p.Unconfirmed)
	}
	if ans.After > 0 && ans.After+slack < d {
		d, recheck = ans.After+slack, false
	}
	return d, recheck
}

// begin counts w as waiting, once.
func (w *waiter) begin() {
	if w.place.begun {
		return
	}
	w.place.begun = true
	w.lines.waiting.Add(1)
	if w.policy.Events != nil {
		w.policy.Events.Slept()
	}
}

func (w *waiter) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.place.begun {
		w.lines.waiting.Add(-1)
	}
}
