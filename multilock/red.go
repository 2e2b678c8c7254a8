package multilock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
)

const (
	// tryBound is how long a member may take to answer at first, unless a tenth
	// of the lease is less. The bound doubles with each round in which no
	// majority answers, up to tryMost. tryMost is also the bound for a member
	// that is asked while there is a hold.
	tryBound = 50 * time.Millisecond
	tryMost  = time.Second
	// silence is how long a member that did not answer is asked by only one
	// caller, as long as there is a majority without it.
	silence = 500 * time.Millisecond
	// pauseFirst and pauseMost bound the random delay before a round. It grows
	// with each round in which other callers had some members too.
	pauseFirst = 10 * time.Millisecond
	pauseMost  = 200 * time.Millisecond
)

// majority asks all members at once, round by round, until one round has got a
// majority whose leases leave some time. A round without one gives back what it
// got. Of the callers in this process that wait for the same majority, only the
// first asks.
func (t *attempt) majority(ctx context.Context) (*whole, error) {
	c := &redWaiter{attempt: t, caller: ctx, pause: pauseFirst, patience: t.lock.answerTimeout()}
	var err error
	if t.once {
		var ans wait.Answer
		if ans, err = c.Try(ctx); err == nil && !ans.Granted {
			err = c.last.refusal(ctx, t)
		}
	} else {
		err = c.wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := t.stayClosed(ctx, c.last.whole); err != nil {
		_ = c.last.whole.Unlock(ctx) // ends with its leases at the latest
		return nil, err
	}
	return c.last.whole, nil
}

// A redWaiter is a caller that waits for a majority, as the wait loop sees it.
type redWaiter struct {
	*attempt
	engine.Outsider // of the first member; empty in a line of its own
	caller          context.Context
	last            round
	rounds          int
	pause           time.Duration // longest delay before the next round
	refused         bool          // a member has refused
	failing         time.Time     // since when no majority answers; zero while one does
	patience        time.Duration
}

// wait joins the line of waiters and asks when it is at the head.
func (c *redWaiter) wait(ctx context.Context) error {
	lines, shown, m := c.lock.line(ctx)
	p := wait.Policy{
		Poll:        wait.Backoff{Initial: pauseFirst, Max: pauseMost, Multiplier: 2},
		Recheck:     pauseMost,
		Unconfirmed: pauseMost,
		Exclusive:   true,
	}
	if shown.engine != nil {
		c.Outsider = shown.spec.Outsider(ctx, &c.cfg)
		p.Events = c.Outsider
	}
	if m.engine != nil {
		p.Listen = func() wait.Hints { return m.engine.Hints(m.spec) }
	}
	if !c.deadline.IsZero() {
		over := time.NewTimer(time.Until(c.deadline))
		defer over.Stop()
		p.Over = over.C
	}
	err := lines.Until(ctx, "red "+c.lock.id, c, &p)
	if errors.Is(err, wait.ErrOver) {
		if c.rounds > 0 && !c.refused { // nobody says that others have it
			return join(append([]error{engine.ErrNotAcquired}, c.last.errs...)...)
		}
		return join(c.taken(ctx, &c.last), c.last.inDoubt())
	}
	return err
}

// line returns the lines in which the waiters of l stand, the member for which they
// are seen to wait, and the member whose wake-ups they hear. A caller that may already
// hold l stands in a line of its own, where nobody sees it.
func (l *Lock) line(ctx context.Context) (lines *wait.Lines, first, hears member) {
	var heard []member
	for m := range l.leaves() {
		if m.engine == nil {
			continue
		}
		if m.engine.HeldBy(ctx, m.spec) != "" {
			return wait.NewLines(), member{}, member{}
		}
		if first.engine == nil {
			first = m
		}
		if m.spec.Channel != "" && !m.engine.Reticence().Silent() {
			heard = append(heard, m)
		}
	}
	switch {
	case first.engine == nil:
		return wait.NewLines(), first, first
	case len(heard) == 0:
		return first.engine.Lines(), first, member{}
	}
	return first.engine.Lines(), first, heard[rand.IntN(len(heard))]
}

// Try makes one round.
func (c *redWaiter) Try(ctx context.Context) (wait.Answer, error) {
	if c.rounds++; c.rounds > 1 && !sleep(c.over, rand.N(c.pause)) {
		return wait.Answer{Again: time.Millisecond}, nil // the wait is over or the caller is gone
	}
	r := c.tryAll(ctx)
	c.last, c.everybody, c.refused = r, false, c.refused || r.refused
	quorum := c.lock.quorum
	switch now := time.Now(); {
	case r.whole != nil:
		return wait.Answer{Granted: true}, nil
	case ctx.Err() != nil:
		return wait.Answer{}, join(ctx.Err(), r.inDoubt())
	case r.never > len(c.lock.members)-quorum:
		return wait.Answer{}, join(r.errs...)
	case r.answered >= quorum:
		c.failing, c.patience = time.Time{}, engine.WaiterPatience
	case c.failing.IsZero():
		c.failing = now
	case now.Sub(c.failing) >= c.patience:
		return wait.Answer{}, join(r.errs...)
	}
	if r.answered >= quorum && !r.some {
		return wait.Answer{After: pauseMost}, nil // another caller has a majority
	}
	// Several callers have some members each, or there is no answer. Members
	// that the others give back are no reason to ask sooner.
	c.pause, c.everybody = min(2*c.pause, pauseMost), true
	return wait.Answer{Again: c.pause / 4}, nil
}

// sleep waits for d. It returns false if ctx is done first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A round is the result of asking all members at once.
type round struct {
	whole    *whole // nil unless a majority is held
	answered int    // members that granted or refused
	never    int    // members that failed permanently
	some     bool   // some members were granted, but no majority
	refused  bool   // a member has refused
	errs     []error
}

// A grant is a member's answer.
type grant struct {
	member int
	held   engine.Held
	err    error
}

// answered reports whether the member has granted or refused.
func (g *grant) answered() bool { return g.err == nil || errors.Is(g.err, engine.ErrNotAcquired) }

var errSilent = errors.New("a member has not answered lately")

// tryAll makes one round. It returns as soon as it has a majority, or cannot
// get one.
func (t *attempt) tryAll(ctx context.Context) round {
	l := t.lock
	bound, start := t.bound(l.needs()), time.Now()
	trying, cancel := context.WithTimeout(ctx, t.left(bound))
	asked := l.worthAsking(t.everybody)
	grants := make(chan grant, len(l.members))
	for i := range l.members {
		if !asked[i] {
			grants <- grant{i, nil, errSilent}
			continue
		}
		go func() { grants <- t.try(ctx, trying, i) }()
	}
	var r round
	var got []grant
	var missed []int
	failed := 0
	for len(got) < l.quorum && failed <= len(l.members)-l.quorum {
		g := <-grants
		if g.answered() {
			if r.answered++; r.answered == l.quorum && time.Since(start) < bound/4 {
				l.faster()
			}
		}
		switch {
		case g.err == nil:
			got = append(got, g)
			continue
		case g.answered():
			r.refused = true
		case forGood(g.err), l.turnedAway(g):
			r.never++
		case errors.Is(g.err, context.DeadlineExceeded) && time.Since(start) >= bound:
			missed = append(missed, g.member)
		}
		failed++
		r.errs = append(r.errs, g.err)
	}
	if r.answered < l.quorum {
		l.slower(missed, min(2*bound, tryMost))
	}
	pending := len(l.members) - len(got) - failed
	w := newWhole(ctx, l)
	for _, g := range got {
		w.add(g.member, g.held)
	}
	if len(got) >= l.quorum && w.settle(ctx) && w.Remaining() > 0 {
		r.whole = w
		go t.late(ctx, cancel, w, grants, pending)
		return r
	}
	r.some = len(got) > 0
	w.drop()
	cancel() // the clients take back requests that are still under way
	go t.late(ctx, cancel, w, grants, pending)
	held := make([]engine.Held, len(got))
	for i, g := range got {
		held[i] = g.held
	}
	// A member that was granted and no longer answers is no reason to wait.
	soon, end := context.WithTimeout(t.over, bound)
	defer end()
	giveBack(soon, held)
	return r
}

// bound returns how long one member may take, at most d.
func (t *attempt) bound(d time.Duration) time.Duration {
	if lease := t.lease(); lease > 0 {
		d = min(d, lease/10)
	}
	return max(d, time.Millisecond)
}

// needs returns how long the members may take, according to their earlier
// answers.
func (l *Lock) needs() time.Duration {
	d := tryBound
	for m := range l.leaves() {
		if m.engine != nil {
			d = max(d, m.engine.Reticence().Needs())
		}
	}
	return d
}

// slower allows some members d, if they were allowed less.
func (l *Lock) slower(some []int, d time.Duration) {
	for _, i := range some {
		one := Lock{members: l.members[i : i+1]}
		for m := range one.leaves() {
			if m.engine != nil {
				r := m.engine.Reticence()
				r.SetNeeds(max(d, r.Needs()))
			}
		}
	}
}

// faster halves the time of members after a majority took only a small part of
// it.
func (l *Lock) faster() {
	for m := range l.leaves() {
		if m.engine == nil {
			continue
		}
		r := m.engine.Reticence()
		if d := r.Needs() / 2; d > tryBound {
			r.SetNeeds(d)
		} else if d > 0 {
			r.SetNeeds(0)
		}
	}
}

// answerTimeout returns how long to ask members that do not answer: the longest
// answer timeout of their clients.
func (l *Lock) answerTimeout() time.Duration {
	var most time.Duration
	for m := range l.leaves() {
		if m.engine != nil {
			most = max(most, m.engine.AnswerTimeout())
		}
	}
	return cmp.Or(most, engine.AnswerTimeout)
}

// turnedAway reports whether a member's server refused the connection and has
// never answered.
func (l *Lock) turnedAway(g grant) bool {
	one := Lock{members: l.members[g.member : g.member+1]}
	for m := range one.leaves() {
		if m.engine != nil && m.engine.TurnedAway(g.err) {
			return true
		}
	}
	return false
}

// lease returns the shortest lease that is asked of a member; 0 if unknown.
func (t *attempt) lease() time.Duration {
	var least time.Duration
	for m := range t.lock.leaves() {
		if m.engine == nil {
			continue
		}
		if d := m.engine.LeaseTime(&t.cfg); least == 0 || d < least {
			least = d
		}
	}
	return least
}

// worthAsking reports for each member whether to ask it. A silent member is not
// asked if there is a majority without it, unless everybody is set.
func (l *Lock) worthAsking(everybody bool) []bool {
	asked := make([]bool, len(l.members))
	n := 0
	for i, m := range l.members {
		asked[i] = m.engine == nil || m.engine.Reticence().Ask(silence)
		if asked[i] {
			n++
		}
	}
	if n < l.quorum || everybody {
		for i := range asked {
			asked[i] = true
		}
	}
	return asked
}

// try asks one member once, under trying, which ends with ctx or earlier.
func (t *attempt) try(ctx, trying context.Context, i int) grant {
	m := t.lock.members[i]
	h, err := heldBy(m.locker.TryLock(trying, t.options(0)))
	g := grant{i, h, err}
	if m.engine != nil {
		switch {
		case g.answered() || forGood(err):
			m.engine.Reticence().Answered()
		case ctx.Err() == nil && !errors.Is(trying.Err(), context.Canceled):
			m.engine.Reticence().Missed(silence)
		}
	}
	return g
}

// forGood reports whether asking again is useless.
func forGood(err error) bool {
	for _, lasting := range []error{
		engine.ErrReentry, engine.ErrUpgrade, engine.ErrKeyConflict, run.ErrUnsupported,
		run.ErrClosed, engine.ErrLeaseLost, errNoHold,
	} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return run.Hopeless(err)
}

// late receives the answers that come after the round. Grants join w if it is
// held, and are given back otherwise.
func (t *attempt) late(ctx context.Context, cancel context.CancelFunc, w *whole, grants <-chan grant, n int) {
	defer cancel()
	for range n {
		t.join(ctx, w, <-grants)
	}
	t.repair(ctx, w)
}

// join makes a grant a part of w, or gives it back if w is over.
func (t *attempt) join(ctx context.Context, w *whole, g grant) {
	ctx = context.WithoutCancel(ctx)
	switch {
	case g.err != nil:
	case !w.add(g.member, g.held):
		_ = g.held.Unlock(ctx) // ends with its lease at the latest
	case t.atLeast > 0:
		_ = g.held.StayClosed(ctx, t.atLeast) // one member of a minority: its failure does no harm
	}
}

// repair asks the missing members again every third of the lease, while w is
// held and renewed. The hold thus outlives the loss of other members.
func (t *attempt) repair(ctx context.Context, w *whole) {
	if t.cfg.Lease > 0 || t.cfg.MaxHold > 0 || t.atLeast > 0 {
		return // a member that is taken later would last longer
	}
	ctx = context.WithoutCancel(ctx)
	w.every(t.lease()/3, func() {
		missing := w.missing()
		if len(missing) == 0 {
			return
		}
		trying, cancel := context.WithTimeout(ctx, t.bound(tryMost))
		defer cancel()
		grants := make(chan grant, len(missing))
		for _, i := range missing {
			go func() { grants <- t.try(ctx, trying, i) }()
		}
		for range missing {
			t.join(ctx, w, <-grants)
		}
	})
}
