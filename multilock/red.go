package multilock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
)

const (
	// tryBound is how long one member may take to answer at first, unless a tenth of
	// the lease is less. It doubles with each round in which no majority did, up to
	// tryMost, which is also what a member has that is asked while there is a hold.
	tryBound = 50 * time.Millisecond
	tryMost  = time.Second
	// silence is for how long a member that did not answer is asked by one caller
	// only, as long as there is a majority without it.
	silence = 500 * time.Millisecond
	// pauseFirst and pauseMost bound the random delay before a round, which grows
	// with each in which others had some members, too.
	pauseFirst = 10 * time.Millisecond
	pauseMost  = 200 * time.Millisecond
)

// majority asks all members at once, round by round, until a round has got a
// majority of them that is good for a while yet. A round that has not gives back
// what it got. Of those in this process who wait for the same majority only the
// first asks.
func (t *taking) majority(ctx context.Context) (*whole, error) {
	c := &redClaim{taking: t, caller: ctx, pause: pauseFirst, patience: t.lock.answerTimeout()}
	var err error
	if t.once {
		var ans wait.Answer
		if ans, err = c.Try(ctx); err == nil && !ans.Granted {
			err = c.last.refusal(t.lock.quorum)
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

// A redClaim is one who waits for a majority, as the wait loop sees it.
type redClaim struct {
	*taking
	caller   context.Context
	last     round
	rounds   int
	pause    time.Duration // the longest delay before the next round
	failing  time.Time     // since when no majority answers; zero while one does
	patience time.Duration
}

// wait stands in line and asks.
func (c *redClaim) wait(ctx context.Context) error {
	lines, m := c.lock.line(ctx)
	p := wait.Policy{
		Poll:        wait.Backoff{Initial: pauseFirst, Max: pauseMost, Multiplier: 2},
		Recheck:     pauseMost,
		Unconfirmed: pauseMost,
		Exclusive:   true,
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
		return join(engine.ErrNotAcquired, c.last.doubts())
	}
	return err
}

// line returns where those who wait for l stand in line, and the member whose
// wake-ups they hear. A caller who may have l already stands in a line of its own.
func (l *Lock) line(ctx context.Context) (*wait.Lines, member) {
	var first *engine.Engine
	var heard []member
	for m := range l.leaves() {
		if m.engine == nil {
			continue
		}
		if m.engine.HeldBy(ctx, m.spec) != "" {
			return wait.NewLines(), member{}
		}
		if first == nil {
			first = m.engine
		}
		if m.spec.Channel != "" && !m.engine.Reticence().Silent() {
			heard = append(heard, m)
		}
	}
	switch {
	case first == nil:
		return wait.NewLines(), member{}
	case len(heard) == 0:
		return first.Lines(), member{}
	}
	return first.Lines(), heard[rand.IntN(len(heard))]
}

// Try makes one round.
func (c *redClaim) Try(ctx context.Context) (wait.Answer, error) {
	if c.rounds++; c.rounds > 1 && !sleep(c.over, rand.N(c.pause)) {
		return wait.Answer{Again: time.Millisecond}, nil // the wait is over, or the caller gone
	}
	r := c.tryAll(ctx)
	c.last, c.everybody = r, false
	quorum := c.lock.quorum
	switch now := time.Now(); {
	case r.whole != nil:
		return wait.Answer{Granted: true}, nil
	case ctx.Err() != nil:
		return wait.Answer{}, join(ctx.Err(), r.doubts())
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
		return wait.Answer{After: pauseMost}, nil // somebody has it
	}
	// Others are at it, and each has some; or there is no answer. What they give
	// back is no reason to hurry.
	c.pause, c.everybody = min(2*c.pause, pauseMost), true
	return wait.Answer{Again: c.pause / 4}, nil
}

// sleep waits for d; false when ctx ended first.
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

// A round is what came of asking all members at once.
type round struct {
	whole    *whole // nil unless a majority is held
	answered int    // members that granted or refused
	never    int    // members that failed for good
	some     bool   // there was a grant, but no majority
	errs     []error
}

// refusal is the error of a single round.
func (r *round) refusal(quorum int) error {
	if r.answered >= quorum {
		return join(engine.ErrNotAcquired, r.doubts())
	}
	return join(r.errs...)
}

// doubts returns the errors of members that may have been taken, and are being
// given back.
func (r *round) doubts() error {
	var errs []error
	for _, err := range r.errs {
		var e *latchkey.Error
		if errors.As(err, &e) && e.MaybeApplied() {
			errs = append(errs, err)
		}
	}
	return join(errs...)
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

// tryAll makes one round. It returns as soon as a majority is had, or cannot be.
func (t *taking) tryAll(ctx context.Context) round {
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
	cancel() // what is under way yet is taken back by its client
	go t.late(ctx, cancel, w, grants, pending)
	held := make([]engine.Held, len(got))
	for i, g := range got {
		held[i] = g.held
	}
	// A member that was had and does not answer now is no reason to wait.
	soon, end := context.WithTimeout(t.over, bound)
	defer end()
	giveBack(soon, held)
	return r
}

// bound returns how long one member may take, at most d.
func (t *taking) bound(d time.Duration) time.Duration {
	if lease := t.lease(); lease > 0 {
		d = min(d, lease/10)
	}
	return max(d, time.Millisecond)
}

// needs returns how long the members may take, by what is known of them.
func (l *Lock) needs() time.Duration {
	d := tryBound
	for m := range l.leaves() {
		if m.engine != nil {
			d = max(d, m.engine.Reticence().Needs())
		}
	}
	return d
}

// slower notes that some members may take d, if they did not have as much.
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

// faster notes that a majority took a small part of what it may.
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

// answerTimeout returns for how long to ask members that do not answer: as long as the
// client that has the most patience.
func (l *Lock) answerTimeout() time.Duration {
	var most time.Duration
	for m := range l.leaves() {
		if m.engine != nil {
			most = max(most, m.engine.AnswerTimeout())
		}
	}
	return cmp.Or(most, engine.AnswerTimeout)
}

// turnedAway reports whether a member's server has refused, and never answered.
func (l *Lock) turnedAway(g grant) bool {
	one := Lock{members: l.members[g.member : g.member+1]}
	for m := range one.leaves() {
		if m.engine != nil && m.engine.TurnedAway(g.err) {
			return true
		}
	}
	return false
}

// lease returns the shortest lease that a member is asked for; 0 when unknown.
func (t *taking) lease() time.Duration {
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

// worthAsking says of each member whether to ask it: not of one that is silent,
// if there is a majority without it, unless everybody is to be asked.
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
func (t *taking) try(ctx, trying context.Context, i int) grant {
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

// forGood reports whether it would be of no use to ask again.
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

// late takes in the answers that come when the round is over: they join the whole
// if it is held, and are given back if not.
func (t *taking) late(ctx context.Context, cancel context.CancelFunc, w *whole, grants <-chan grant, n int) {
	defer cancel()
	for range n {
		t.join(ctx, w, <-grants)
	}
	t.repair(ctx, w)
}

// join makes a grant a part of w, or gives it back if w is over.
func (t *taking) join(ctx context.Context, w *whole, g grant) {
	ctx = context.WithoutCancel(ctx)
	switch {
	case g.err != nil:
	case !w.add(g.member, g.held):
		_ = g.held.Unlock(ctx) // ends with its lease at the latest
	case t.atLeast > 0:
		_ = g.held.StayClosed(ctx, t.atLeast) // a minority of the members
	}
}

// repair asks the members that are missing again and again while the whole is
// held and renewed, every third of the lease: so it outlives the loss of others.
func (t *taking) repair(ctx context.Context, w *whole) {
	if t.cfg.Lease > 0 || t.cfg.MaxHold > 0 || t.atLeast > 0 {
		return // what is taken later would last longer
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
