package engine

import (
	"context"
	"errors"
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
	ent, fresh := e.join(ctx, s)
	defer ent.leave()

	c := &claim{call: newCall(ctx, e, s, cfg), entry: ent, fresh: fresh}
	err := c.acquire(ctx, try || cfg.Waits)
	c.report(1, err)
	if err != nil {
		switch {
		case c.queued:
			e.withdraw(c)
		case c.unsettled:
			e.undo(c)
		}
		if c.unsettled {
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
	if cfg.Permanent && s.Scripts != nil {
		return errors.New("the option Permanent is for permits")
	}
	return ctx.Err()
}

// A claim is one caller's attempt to come to hold a lock.
type claim struct {
	call
	entry *entry
	fresh bool // the holder is nobody else's
	req   Request
	hold  *Hold
	base  int // the hold count before the request that is in doubt

	queues bool // requests ask for a place in the queue
	queued bool // one may have got it
}

// acquire waits for its turn and asks until it is granted.
func (c *claim) acquire(ctx context.Context, bounded bool) error {
	if bounded && c.cfg.Wait <= 0 {
		return c.once(ctx, c)
	}
	over := c.begin(bounded)
	if over != nil {
		defer over.Stop()
	}
	for {
		p := c.policy(over)
		var taken <-chan struct{}
		var has bool
		if !c.fresh {
			if err := c.settled(ctx, over); err != nil {
				return err
			}
			taken, has = c.entry.takenSignal()
			has = has || c.engine.otherCount(c.entry.key.holder, c.spec) > 0
		}
		var err error
		c.queues = c.spec.Queue != nil && !has
		if !has && c.spec.Shared && !c.engine.lines.Waits(c.spec.Line) {
			// Nobody has been refused, so many may have it at once: each asks.
			var ans wait.Answer
			if ans, err = c.Try(ctx); err != nil || ans.Granted {
				return err
			}
		}
		if has {
			// The holder has the lock, or its other half: it stands in no line.
			var ans wait.Answer
			if ans, err = c.Try(ctx); err == nil && !ans.Granted {
				err = c.pause(ctx, ans, over)
			}
		} else {
			p.Interrupt = taken
			if c.queues {
				err = c.untilTurn(ctx, p)
			} else {
				err = c.waited(&p, c.engine.lines.Until(ctx, c.spec.Line, c, &p))
			}
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

// settled waits until no request to give back of before can meet what is asked
// for now: outside of the line, in which it would hold up others.
func (c *claim) settled(ctx context.Context, over *time.Timer) error {
	select {
	case <-c.entry.ops:
	default:
		return nil // somebody changes what there is; Try looks again
	}
	d := time.Until(c.entry.settles)
	c.entry.unlockOps()
	if d <= 0 {
		return nil
	}
	return c.pause(ctx, wait.Answer{Again: d}, over)
}

// waited notes how a wait has ended: a failed one may have been given the lock
// by whoever gave it back.
func (c *claim) waited(p *wait.Policy, err error) error {
	if err != nil && p.Pledged {
		c.doubt(0, returnBound)
	}
	return err
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
	if c.hold != nil { // it was given to the claim meanwhile
		ent.unlockOps()
		return wait.Answer{Granted: true}, nil
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
	if count > 0 {
		// From here on its own field stands in Redis, whatever becomes of this.
		if err := ent.moveIn(ctx, s); err != nil {
			ent.unlockOps()
			return c.notMoved(caller, err)
		}
	}
	lease := c.lease()
	bound := c.bound(ctx)
	sent, dl := e.now(), e.deadline(bound)
	c.req = Request{Holder: ent.field, Count: count + 1, Lease: lease, Label: c.label(count), Waits: c.waiting, Deadline: dl}
	if c.queues {
		c.req.Wait, c.queued = c.queueWait(), true
	}
	ask, acks := e.acking(ctx)
	g, err := s.Scripts.Acquire(ask, e, &c.req)
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
		if err := acks.short(e); err != nil {
			return wait.Answer{}, c.unreplicated(count, err)
		}
		c.hold = ent.grant(c.ctx, s, c.cfg, g, count+1, watchdog.NewWindow(sent, lease))
		if c.hold == nil {
			return wait.Answer{}, c.void(count, lease)
		}
		if c.doubts > 0 {
			c.entry.haunt(c.until)
		}
		c.unsettled, c.queued = false, false
		return wait.Answer{Granted: true, After: lease}, nil
	case Gone:
		ent.gone()
		return wait.Answer{}, errLost
	case Late:
		// The estimate of the server's clock was off, and is right now; or the
		// request did take that long.
		return c.failure(errLate)
	}
	if c.queued {
		ent.waitsSince(sent)
	}
	return wait.Answer{After: g.Left, Ticket: g.Ticket, Next: g.Next}, nil
}

// notMoved sorts an error of moveIn.
func (c *claim) notMoved(caller context.Context, err error) (wait.Answer, error) {
	switch {
	case errors.Is(err, ErrLeaseLost):
		return wait.Answer{}, err
	case caller.Err() != nil:
		return wait.Answer{}, caller.Err()
	case Sort(err) == Never:
		return wait.Answer{}, err
	}
	return c.failure(err)
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
// or may be within bound.
func (c *claim) doubt(base int, bound time.Duration) {
	c.base = base
	c.call.doubt(bound)
}

type errShort time.Duration

func (d errShort) Error() string {
	return "the lease of " + time.Duration(d).String() + " was over before the answer came"
}

var (
	errLate     = errors.New("the request reached Redis too late")
	errNoAnswer = errors.New("no answer from Redis within the wait")
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
