package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

const (
	// attempt is how long a request may take to reach Redis: a script that
	// arrives later than that after it was sent changes nothing.
	attempt = 5 * time.Second
	// answerWithin is how long a call tries to get a first answer out of Redis
	// (a lost reply, a server that is loading or failing over) before it fails.
	answerWithin = 3 * time.Second
	// waiterPatience is the same for a caller that waits already: it outlives a
	// failover.
	waiterPatience = 30 * time.Second
	// unconfirmed is how long a waiter sleeps at most while its subscription is
	// not confirmed yet.
	unconfirmed = time.Second
	// retryFirst and retryMost bound the back-off between requests that failed.
	retryFirst = 10 * time.Millisecond
	retryMost  = 300 * time.Millisecond
)

func (e *Engine) deadline(d time.Duration) Deadline { return e.server.deadline(time.Now(), d) }

// Acquire takes the lock s for the holder in ctx, or for a fresh one. try makes
// it one attempt, unless cfg says how long to wait. It returns a Hold, or an
// error and nothing held: what a failed attempt may have left in Redis is
// undone in the background, or ends with its lease.
func (e *Engine) Acquire(ctx context.Context, op string, s *Spec, cfg LockConfig, try bool) (*Hold, error) {
	if err := e.checkAcquire(ctx, s, &cfg); err != nil {
		return nil, e.Wrap(op, s, err)
	}
	if !e.gate.enter() {
		return nil, e.Wrap(op, s, ErrClosed)
	}
	defer e.gate.leave()
	n, fresh := e.holderFor(ctx, s)
	ent := e.enter(n, s, fresh)
	defer ent.leave()

	c := &claim{engine: e, spec: s, cfg: cfg, ctx: ctx, entry: ent, fresh: fresh, start: time.Now()}
	err := c.acquire(ctx, try || cfg.Waits)
	c.report(err)
	if err != nil {
		if c.unsettled {
			e.undo(c)
			err = inDoubt{err}
		}
		return nil, e.Wrap(op, s, err)
	}
	return c.hold, nil
}

func (e *Engine) checkAcquire(ctx context.Context, s *Spec, cfg *LockConfig) error {
	if s.err != nil {
		return s.err
	}
	if err := cfg.check(); err != nil {
		return err
	}
	return ctx.Err()
}

// A claim is one caller's attempt to come to hold a lock.
type claim struct {
	engine *Engine
	spec   *Spec
	cfg    LockConfig
	ctx    context.Context // the acquire's: parent of the Hold's Context
	entry  *entry
	fresh  bool // the holder is nobody else's
	start  time.Time

	waiting   bool      // not just one attempt
	deadline  time.Time // of a bounded wait; zero for none
	failing   time.Time // since when Redis has not answered; zero while it does
	backoff   time.Duration
	contended bool
	req       Request
	hold      *Hold

	// unsettled is set while a request may have been granted without our knowing.
	unsettled bool
	doubts    int       // how many such requests there were
	base      int       // the hold count before it
	until     time.Time // when it can no longer be
}

// acquire waits for its turn and asks until it is granted.
func (c *claim) acquire(ctx context.Context, bounded bool) error {
	if bounded && c.cfg.Wait <= 0 {
		return c.once(ctx)
	}
	c.waiting = true
	var over *time.Timer
	if bounded {
		c.deadline = c.start.Add(c.cfg.Wait)
		over = time.NewTimer(c.cfg.Wait)
		defer over.Stop()
	}
	for {
		p := c.policy(over)
		var taken <-chan struct{}
		var has bool
		if !c.fresh {
			taken, has = c.entry.takenSignal()
			has = has || c.engine.otherCount(c.entry.key.holder, c.spec) > 0
		}
		var err error
		if has {
			// The holder has the lock, or its other half: it stands in no line.
			var ans wait.Answer
			if ans, err = c.Try(ctx); err == nil && !ans.Granted {
				err = c.pause(ctx, ans, over)
			}
		} else {
			p.Interrupt = taken
			err = c.engine.lines.Until(ctx, c.spec.Line, c, &p)
		}
		switch {
		case errors.Is(err, wait.ErrOver):
			return ErrNotAcquired
		case errors.Is(err, wait.ErrInterrupted), err == nil && c.hold == nil:
			continue
		}
		return err
	}
}

// once makes one attempt, which includes asking again where an answer was lost.
func (c *claim) once(ctx context.Context) error {
	for {
		ans, err := c.Try(ctx)
		switch {
		case err != nil || ans.Granted:
			return err
		case ans.Again == 0:
			return ErrNotAcquired
		}
		if err := c.pause(ctx, ans, nil); err != nil {
			return err
		}
	}
}

// pause sleeps before asking again outside of a line.
func (c *claim) pause(ctx context.Context, ans wait.Answer, over *time.Timer) error {
	d := ans.Again
	if d == 0 {
		d = retryFirst
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	var out <-chan time.Time
	if over != nil {
		out = over.C
	}
	select {
	case <-timer.C:
		return nil
	case <-out:
		return ErrNotAcquired
	case <-ctx.Done():
		return ctx.Err()
	case <-c.engine.gate.closed:
		return ErrClosed
	}
}

func (c *claim) policy(over *time.Timer) wait.Policy {
	e, s := c.engine, c.spec
	p := wait.Policy{
		Poll:        s.Poll,
		Recheck:     e.cfg.Recheck,
		Unconfirmed: unconfirmed,
		Exclusive:   !s.Shared,
		Closed:      e.gate.closed,
		ClosedErr:   ErrClosed,
		Slept:       c.waits,
		Missed:      c.missed,
	}
	if over != nil {
		p.Over = over.C
	}
	if s.Channel != "" {
		p.Listen = func() wait.Hints { return hints{e.notifier.Subscribe(s.Channel)} }
	}
	return p
}

func (c *claim) waits() {
	c.contended = true
	if f := c.engine.cfg.Hooks.WaitStarted; f != nil {
		f(c.spec.Kind, c.spec.Name)
	}
}

func (c *claim) missed() {
	c.engine.counters.rechecked.Add(1)
	if f := c.engine.cfg.Hooks.Missed; f != nil {
		f(c.spec.Kind, c.spec.Name)
	}
}

func (c *claim) report(err error) {
	h := &c.engine.cfg.Hooks
	switch {
	case err == nil && h.Acquired != nil:
		h.Acquired(c.spec.Kind, c.spec.Name, time.Since(c.start), c.contended)
	case err != nil && h.Failed != nil:
		h.Failed(c.spec.Kind, c.spec.Name, time.Since(c.start), err)
	}
}

// Try asks Redis once for one hold more than the holder has.
func (c *claim) Try(ctx context.Context) (wait.Answer, error) {
	e, ent, s := c.engine, c.entry, c.spec
	caller := ctx
	if !c.deadline.IsZero() {
		// The wait bounds the request, as the caller's context does.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.deadline)
		defer cancel()
	}
	if err := ent.lockOps(ctx); err != nil {
		if caller.Err() == nil {
			err = ErrNotAcquired
		}
		return wait.Answer{}, err
	}
	if d := time.Until(ent.settles); d > 0 {
		ent.unlockOps()
		return wait.Answer{Again: d}, nil
	}
	count := ent.counted()
	switch {
	case count > 0 && s.NonReentrant:
		ent.unlockOps()
		return wait.Answer{}, ErrReentry
	case count == 0 && s.NoUpgrade && e.otherCount(ent.key.holder, s) > 0:
		ent.unlockOps()
		return wait.Answer{}, ErrUpgrade
	}
	lease := c.lease()
	bound := c.bound(ctx)
	sent, dl := e.now(), e.deadline(bound)
	c.req = Request{Holder: ent.field, Count: count + 1, Lease: lease, Label: c.cfg.Label, Waits: c.waiting, Deadline: dl}
	g, err := s.Scripts.Acquire(ctx, e, &c.req)
	defer ent.unlockOps()
	if err != nil {
		if Sort(err) == Maybe {
			c.doubt(count, bound)
		}
		if ctx.Err() != nil && caller.Err() == nil {
			return wait.Answer{}, both{ErrNotAcquired, errNoAnswer}
		}
		return c.failed(caller, err)
	}
	c.failing, c.backoff = time.Time{}, 0
	e.answers()
	switch g.Verdict {
	case Granted:
		c.hold = ent.grant(s, c.cfg, c.ctx, g, count+1, watchdog.NewWindow(sent, lease))
		if c.hold == nil {
			return wait.Answer{}, c.void(count, lease)
		}
		c.unsettled = false
		return wait.Answer{Granted: true, After: lease}, nil
	case Gone:
		ent.gone()
		return wait.Answer{}, errLost
	case Late:
		// The estimate of the server's clock was off, and is right now; or the
		// request did take that long.
		return c.failure(ctx, errLate)
	}
	return wait.Answer{After: g.Left}, nil
}

// void gives back a grant that came too late to be believed in.
func (c *claim) void(base int, lease time.Duration) error {
	c.doubt(base, 0)
	select {
	case <-c.engine.gate.closed:
		return ErrClosed
	default:
	}
	if base > 0 {
		c.base = 0 // what it builds on is lost
		return errLost
	}
	return both{ErrLeaseLost, errShort(lease)}
}

// doubt notes that a request for one hold more than base may have been granted,
// or may be yet: until bound is over, by a clock that may be off by its slack.
func (c *claim) doubt(base int, bound time.Duration) {
	c.unsettled = true
	c.doubts++
	c.base = base
	c.until = time.Now().Add(bound + clockSlack)
}

type errShort time.Duration

func (d errShort) Error() string {
	return "the lease of " + time.Duration(d).String() + " was over before the answer came"
}

var (
	errLate     = errors.New("the request reached Redis too late")
	errNoAnswer = errors.New("Redis has not answered within the wait")
)

// lease returns the lease to ask for.
func (c *claim) lease() time.Duration {
	d := c.cfg.Lease
	if d == 0 {
		d = c.engine.cfg.WatchdogTimeout
		if c.cfg.MaxHold > 0 {
			d = min(d, c.cfg.MaxHold)
		}
	}
	return d.Truncate(time.Millisecond)
}

// bound returns how long the request may take: no longer than anybody is there
// to hear of its success.
func (c *claim) bound(ctx context.Context) time.Duration {
	d := attempt
	if at, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(at))
	}
	if !c.deadline.IsZero() {
		d = min(d, time.Until(c.deadline))
	}
	return max(d, time.Millisecond)
}

// failed sorts a request that got no answer.
func (c *claim) failed(ctx context.Context, err error) (wait.Answer, error) {
	switch Sort(err) {
	case Never:
		return wait.Answer{}, err
	case Maybe:
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return wait.Answer{}, err
		}
		// Asking again for the same count is harmless, and tells.
	}
	return c.failure(ctx, err)
}

// failure says whether to ask again after err, and when.
func (c *claim) failure(ctx context.Context, err error) (wait.Answer, error) {
	now := time.Now()
	if c.failing.IsZero() {
		// Whoever stood behind others who gave up has been kept already.
		c.failing = c.engine.fails(now)
		if c.failing.Before(c.start) {
			c.failing = c.start
		}
	}
	patience := answerWithin
	if c.contended {
		patience = waiterPatience
	}
	if now.Sub(c.failing) >= patience {
		return wait.Answer{}, err
	}
	if c.backoff == 0 {
		c.backoff = retryFirst / 2
	}
	c.backoff = min(2*c.backoff, retryMost)
	d := c.backoff - time.Duration(rand.Int64N(int64(c.backoff/2)))
	if !c.deadline.IsZero() && !now.Add(d).Before(c.deadline) {
		return wait.Answer{}, both{ErrNotAcquired, err}
	}
	return wait.Answer{Again: d}, nil
}
