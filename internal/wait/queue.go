package wait

import (
	"context"
	"time"
)

// A Queue sets how to wait in a queue in Redis. Its Recheck is how often one of
// the waiters asks for all, and its Listen opens the hints for all.
type Queue struct {
	Policy
	// ID is the waiter's entry in the queue.
	ID string
	// ListenOwn opens hints for this waiter alone, from publishers that know
	// nothing of the common ones.
	ListenOwn func() Hints
	// Keep reports that waiters are alive and returns those that have no place
	// in the queue any more.
	Keep func(ctx context.Context, ids []string) (lost []string)
	// Stray is called with a waiter of this client whose turn it is and that is
	// not here.
	Stray func(id string)
}

// ownAfter is how long a waiter is the first of its group before it also opens
// hints of its own.
const ownAfter = 20 * time.Millisecond

// UntilTurn is Until for a queue in Redis. Every waiter asks once and then has
// a place in the queue. After that it asks when it is told that it is its turn:
// by hints, by the first of its group, or by a caller of its client that has
// given the thing back.
func (ls *Lines) UntilTurn(ctx context.Context, key string, c Claim, q *Queue) (err error) {
	self := ls.joinGroup(key, q.ID, c)
	w := &queuer{sleeper: sleeper{lines: ls, policy: &q.Policy, begun: &self.begun}, queue: q, self: self}
	defer func() { // Try may panic
		var given chan struct{}
		w.stop()
		if given, q.Reserved = ls.leaveGroup(w.self); given != nil {
			<-given
			err = nil
		}
	}()
	return w.wait(ctx, c)
}

func (w *queuer) wait(ctx context.Context, c Claim) error {
	ls, q, key := w.lines, w.queue, w.self.key
	for {
		w.asks()
		ans, err := c.Try(ctx)
		if err != nil {
			return err
		}
		w.answered(&ans)
		if ans.Granted {
			if w.missed && q.Events != nil {
				q.Events.Missed()
			}
			return nil
		}
		if ans.Next != "" && ans.Next != q.ID && !ls.tell(key, ans.Next, w.missed) {
			q.Stray(ans.Next)
		}
		w.keep(ctx)
		if err := w.rest(ctx, ans); err != nil || w.given() {
			return err
		}
	}
}

// given reports whether another caller has granted w the thing.
func (w *queuer) given() bool {
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	return w.self.given != nil
}

// A queuer is the state of one UntilTurn.
type queuer struct {
	sleeper
	queue *Queue
	self  *fairWaiter

	own      Hints
	ownAt    time.Time // when to open own
	ownHeard bool      // the first hint of own has come
	sent     time.Time // when the last request was sent
	missed   bool      // it was sent because no hint had come for long
}

func (w *queuer) asks() {
	w.lines.mu.Lock()
	w.self.turn = false
	w.lines.mu.Unlock()
	w.sent = time.Now()
}

// answered notes what a reply shows for the whole group.
func (w *queuer) answered(ans *Answer) {
	if ans.Again > 0 {
		return
	}
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	p := w.self.group
	if !p.ends.After(w.sent) {
		p.ends = time.Time{} // this request was due then
	}
	p.held(ans.After)
	if ans.Ticket == 0 {
		return
	}
	spoke := p.first
	p.place(w.self, ans.Ticket)
	if p.first != spoke {
		spoke.nudge()
		p.first.nudge()
	}
}

// keep keeps the group alive when it is time, if w is its first.
func (w *queuer) keep(ctx context.Context) {
	ls, p := w.lines, w.self.group
	ls.mu.Lock()
	if p.first != w.self || time.Since(p.kept) < w.queue.Recheck {
		ls.mu.Unlock()
		return
	}
	p.kept = time.Now()
	ids := p.due()
	ls.mu.Unlock()
	for _, id := range w.queue.Keep(ctx, ids) {
		ls.Tell(w.self.key, id)
	}
}

// rest sleeps until it is time to ask again.
func (w *queuer) rest(ctx context.Context, ans Answer) error {
	q := w.queue
	var again time.Time
	if ans.Again > 0 {
		again = time.Now().Add(ans.Again)
	} else {
		w.begin()
	}
	for {
		next := w.next(again)
		on := signals{told: w.self.wake, hints: next.hints}
		if next.why != never {
			on.timer = w.after(max(time.Until(next.at), 0))
		}
		if w.own != nil {
			on.own = w.own.C()
		}
		ev, _, err := w.sleep(ctx, on)
		if err != nil {
			return err
		}
		switch ev {
		case hinted:
			if w.hears() {
				return nil
			}
		case ownHinted:
			first := !w.ownHeard
			w.ownHeard, w.missed = true, false
			if !first || !w.own.Dead() {
				return nil
			}
		case told:
			if w.isTold() {
				return nil
			}
		case elapsed:
			if next.why == toListen {
				w.own = q.ListenOwn()
				continue
			}
			w.missed = next.why == toRecheck
			return nil
		}
	}
}

// hears handles a hint for the group and reports whether to ask because of it.
func (w *queuer) hears() bool {
	w.missed = false
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	p := w.self.group
	p.heard, p.deaf = true, p.hints.Dead()
	if p.deaf {
		return false
	}
	if p.first != w.self {
		// Another waiter has become the first while this one was not looking.
		p.first.turn = true
		p.first.nudge()
		return false
	}
	return true
}

// isTold reports whether w has been told to ask.
func (w *queuer) isTold() bool {
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	if w.self.turn {
		w.missed = w.self.missed
	}
	return w.self.turn || w.self.given != nil
}

// A reason is why a sleep ends.
type reason int

const (
	never     reason = iota
	toAsk            // the expected time to ask
	toRecheck        // no hint has come for long
	toListen         // time to open hints of its own
)

// A plan is what a sleep waits for, besides events that may come at any time.
type plan struct {
	at    time.Time
	why   reason
	hints <-chan struct{}
}

func (pl *plan) sooner(at time.Time, why reason) {
	if pl.why == never || at.Before(pl.at) {
		pl.at, pl.why = at, why
	}
}

// next plans the sleep. again is when to ask after a failed request, or zero.
// Waiters other than the first of the group wait for nothing in particular.
func (w *queuer) next(again time.Time) (pl plan) {
	if !again.IsZero() {
		pl.sooner(again, toAsk)
		return pl
	}
	q, ls, p := w.queue, w.lines, w.self.group
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if p.first != w.self {
		w.ownAt = time.Time{}
		return pl
	}
	if p.hints == nil && q.Listen != nil {
		p.hints = q.Listen()
	}
	if p.hints != nil {
		pl.hints = p.hints.C()
	}
	recheck := p.kept.Add(q.Recheck)
	if p.ends.IsZero() || recheck.Before(p.ends.Add(-2*slack)) {
		pl.sooner(recheck, toRecheck)
	} else { // as in waiter.length
		pl.sooner(p.ends, toAsk)
	}
	switch {
	case p.deaf || p.hints == nil:
		pl.sooner(time.Now().Add(w.poll()), toAsk)
	case !p.heard:
		pl.sooner(w.sent.Add(jitter(q.Unconfirmed)), toAsk)
	}
	if w.own == nil && q.ListenOwn != nil && !p.deaf {
		if w.ownAt.IsZero() {
			w.ownAt = time.Now().Add(ownAfter)
		}
		pl.sooner(w.ownAt, toListen)
	}
	return pl
}

func (w *queuer) stop() {
	w.sleeper.stop()
	if w.own != nil {
		w.own.Close()
	}
}
