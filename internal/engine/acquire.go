package engine

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// unconfirmed is how long a waiter sleeps at most while its subscription is not
// confirmed yet.
const unconfirmed = time.Second

func (e *Engine) deadline(d time.Duration) run.Deadline { return e.Clock.Deadline(time.Now(), d) }

// An Op is a way of acquiring.
type Op struct {
	Name string // for errors
	Try  bool   // it is one attempt, unless the LockConfig says how long to wait
}

// What most locks have.
var (
	Lock    = &Op{Name: "lock"}
	TryLock = &Op{Name: "trylock", Try: true}
)

// Acquire takes the lock s for the holder in ctx, or for a fresh one. It returns a
// Hold, or an error and nothing held: what a failed attempt may have left in Redis
// is undone in the background, or ends with its lease.
func (s *Spec) Acquire(ctx context.Context, op *Op, cfg *LockConfig) (*Hold, error) {
	if err := s.admit(ctx, op, cfg); err != nil {
		return nil, err
	}
	if s.engine.lines.Waiting() > 0 {
		if c := s.follower(ctx, op, cfg); c != nil && c.follow() {
			return c.run(op, c.place.Await(ctx, c.overC()))
		}
	}
	c, p := s.newLockAttempt(ctx, op, cfg)
	return c.run(op, p)
}

// admit lets a call through the gate, if what it asks for makes sense.
func (s *Spec) admit(ctx context.Context, op *Op, cfg *LockConfig) error {
	e := s.engine
	if err := e.checkAcquire(ctx, s, cfg); err != nil {
		return e.Wrap(op.Name, s, err)
	}
	if !e.gate.Enter() {
		return e.Wrap(op.Name, s, run.ErrClosed)
	}
	return nil
}

// newLockAttempt returns an attempt of the holder in ctx, or of a fresh one, and room for how
// it waits.
func (s *Spec) newLockAttempt(ctx context.Context, op *Op, cfg *LockConfig) (*lockAttempt, *wait.Policy) {
	all := new(struct {
		attempt lockAttempt
		policy  wait.Policy
	})
	c := &all.attempt
	c.init(ctx, s, cfg)
	c.bounded = op.Try || cfg.Waits
	hd, fresh := s.engine.join(ctx, s)
	c.holder, c.fresh = hd.key.holder, fresh
	c.begins(hd)
	return c, &all.policy
}

// follower returns an attempt that may wait behind others of its client; nil when it has
// to do something else first. Its holding is made when it comes to the head of the line:
// see Heads.
func (s *Spec) follower(ctx context.Context, op *Op, cfg *LockConfig) *lockAttempt {
	bounded := op.Try || cfg.Waits
	if s.Queue != nil || s.Shared || bounded && cfg.Wait <= 0 {
		return nil
	}
	if _, ok := s.engine.holderIn(ctx, s); ok {
		return nil
	}
	c := new(lockAttempt)
	c.init(ctx, s, cfg)
	c.holder, c.fresh, c.bounded = NewHolder(), true, bounded
	return c
}

// follow has c wait behind others of its client; false when there are none.
func (c *lockAttempt) follow() bool {
	c.begin()
	if !c.spec.engine.lines.Follow(c.spec.Line, c, &c.place) {
		c.stop()
		return false
	}
	c.tellOfWait()
	return true
}

// tellOfWait tells the observer that c, which follows others, waits.
func (c *lockAttempt) tellOfWait() {
	done := false
	defer func() {
		if !done { // the hook has panicked
			c.spec.engine.lines.Leave(&c.place)
			c.leave()
		}
	}()
	c.waits()
	done = true
}

// Heads makes c ready to ask, which has followed others. Its holder is a fresh one.
func (c *lockAttempt) Heads() {
	if c.holding != nil {
		return // it has stood in line with all it needs
	}
	c.begins(c.spec.engine.enter(c.holder, c.spec, true))
}

// begins gives c what it needs to ask, in the name of hd.
func (c *lockAttempt) begins(hd *holding) {
	c.holding = hd
	hd.beginAttempt()
}

// run takes c to its end. p is room for how it waits first.
func (c *lockAttempt) run(op *Op, p *wait.Policy) (*Hold, error) {
	defer c.leave()
	e, s := c.spec.engine, c.spec
	err := c.acquire(c.ctx, p)
	left := c.ends()
	c.report(1, err)
	switch {
	case err == nil:
		if c.hold.holding != c.holding && (left || c.doubts > 0) {
			// It was handed the lock under another holder. What Redis may still grant to
			// its own goes to nobody.
			e.undo(c)
		}
		return c.hold, nil
	case c.holding == nil: // it has asked for nothing
		return nil, e.Wrap(op.Name, s, err)
	case c.queued:
		e.withdraw(c)
	case left, c.inDoubt, e.waitlist.has(s.Key, c.holding.field):
		e.undo(c)
	}
	if c.inDoubt {
		err = inDoubt{err}
	}
	return nil, e.Wrap(op.Name, s, err)
}

// ends ends what c does in the name of its holder, and reports whether the holder was
// given something that nobody has taken.
func (c *lockAttempt) ends() (left bool) {
	if c.holding == nil || c.ended {
		return false
	}
	c.ended = true
	return c.holding.endAttempt()
}

// leave counts c out.
func (c *lockAttempt) leave() {
	c.stop()
	if c.holding != nil {
		c.ends() // if it has panicked
		c.holding.leave()
	}
	c.spec.engine.gate.Leave()
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

// A lockAttempt is an attempt to come to hold a lock. It is a wait.Claim.
type lockAttempt struct {
	attempt
	holder  uint64
	fresh   bool       // the holder is nobody else's
	queues  bool       // requests ask for a place in the queue
	place   wait.Place // the first one in a line
	holding *holding   // its own; nil while it follows others in a line, and cannot ask
	hold    *Hold      // once it is granted; of another holding if it took one over
	req     Request    // the last one
	base    int        // the hold count before the request that is in doubt
	voids   int        // grants that came too late
	lates   int        // of the doubts, those for answers that it came too late
	queued  bool       // a request may have got a place in the queue
	named   bool       // it may have been a new one, at which the label is that of the attempt
	alone   bool       // requests name no key but that of the lock
	cut     bool       // it has asked for a shorter lease than it was given
	ended   bool       // see ends
}

// acquire waits for its turn and asks until it is granted.
func (c *lockAttempt) acquire(ctx context.Context, p *wait.Policy) error {
	if c.bounded && c.cfg.Wait <= 0 {
		return c.once(ctx, c)
	}
	if !c.waiting {
		c.begin()
	}
	place := &c.place
	for ; ; p, place = new(wait.Policy), nil {
		heard := p.Heard
		*p = c.policy()
		p.Place, p.Heard = place, heard
		var taken <-chan struct{}
		var has bool
		if !c.fresh {
			if err := c.settled(ctx); err != nil {
				return err
			}
			taken, has = c.holding.takenSignal()
			has = has || c.spec.engine.otherCount(c.holding.key.holder, c.spec) > 0
		}
		var err error
		c.queues = c.spec.Queue != nil && !has
		if !has && c.spec.Shared && !c.spec.engine.lines.Waits(c.spec.Line) {
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
				if ans.Again == 0 {
					c.spec.engine.watchdog.Recheck() // Redis knows nothing of what the holder has
				}
				err = c.pause(ctx, ans)
			}
		} else {
			// Among many readers the line would not end, and be one by one.
			p.Interrupt, p.Apart = taken, c.spec.Shared
			if c.queues {
				err = c.untilTurn(ctx, *p)
			} else {
				err = c.waited(p, c.spec.engine.lines.Until(ctx, c.spec.Line, c, p))
			}
		}
		switch {
		case errors.Is(err, wait.ErrOver):
			return c.timeUp()
		case errors.Is(err, wait.ErrInterrupted), err == nil && c.hold == nil:
			continue
		}
		return err
	}
}

// settled waits until no request to give back of before can meet what is asked
// for now: outside of the line, in which it would hold up others.
func (c *lockAttempt) settled(ctx context.Context) error {
	if !c.holding.tryOps() {
		return nil // somebody changes what there is; Try looks again
	}
	d := c.holding.releaseInDoubtFor()
	c.holding.unlockOps()
	if d <= 0 {
		return nil
	}
	return c.pause(ctx, wait.Answer{Again: d})
}

// waited notes how a wait has ended: a failed one may have been given the lock
// by whoever gave it back.
func (c *lockAttempt) waited(p *wait.Policy, err error) error {
	if err != nil && p.Reserved {
		c.doubt(0, returnBound)
	}
	return err
}

// Try asks Redis once for one hold more than the holder has.
func (c *lockAttempt) Try(ctx context.Context) (wait.Answer, error) {
	e, hd, s := c.spec.engine, c.holding, c.spec
	caller := ctx
	if at, ok := c.deadline(); ok {
		// The wait bounds the request, as the caller's context does.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
	}
	if err := hd.lockOps(ctx); err != nil {
		if caller.Err() == nil {
			err = ErrNotAcquired
		}
		return wait.Answer{}, err
	}
	if d := hd.releaseInDoubtFor(); d > 0 {
		hd.unlockOps()
		return wait.Answer{Again: d}, nil
	}
	if c.hold != nil { // it was handed to the attempt meanwhile
		hd.unlockOps()
		return wait.Answer{Granted: true}, nil
	}
	count := hd.counted()
	switch {
	case count > 0 && s.NonReentrant:
		hd.unlockOps()
		return wait.Answer{}, ErrReentry
	case count == 0 && s.NoUpgrade && e.otherCount(hd.key.holder, s) > 0:
		hd.unlockOps()
		return wait.Answer{}, ErrUpgrade
	}
	lease := c.lease()
	opts := run.Options{Within: c.patiently(), Replicas: run.Confirmed(e.cfg.Acks.On())}
	bound := c.bound(ctx, opts.Within)
	asked := time.Now()
	sent, dl := e.now(), e.Clock.Deadline(asked, bound)
	var list waitlistChange
	c.req = Request{Holder: hd.field, Count: count + 1, Lease: lease, Label: c.label(count), Waits: c.waiting, Deadline: dl}
	if c.req.Label != "" {
		hd.tagged.Store(true)
	}
	switch {
	case c.queues:
		c.req.Wait, c.queued = c.queueWait(), true
		hd.mu.Lock()
		c.req.Ends = hd.ends
		hd.mu.Unlock()
	case e.gives(s) && !c.alone:
		list = c.joinWaitlist()
	}
	g, err := s.Scripts.Acquire(ctx, e, opts, &c.req)
	defer hd.unlockOps()
	e.waitlist.end(&list, c.waitlistAfter(g, err), asked.Add(bound+run.ClockSlack))
	if err != nil {
		c.alone = run.IsCode(err, "TRYAGAIN") // with one key it goes, while a slot is on the move
		if run.Classify(err) == run.Unknown {
			c.doubt(count, bound)
			c.named = true
		}
		if ctx.Err() != nil && caller.Err() == nil {
			return wait.Answer{}, run.Both(ErrNotAcquired, errNoAnswer)
		}
		return c.failed(caller, asked, err)
	}
	c.failing, c.backoff = time.Time{}, 0
	e.answers()
	switch g.Status {
	case Granted:
		if err := e.Short(opts.Replicas); err != nil {
			return wait.Answer{}, c.unreplicated(count, err)
		}
		if c.outdated(asked) {
			c.doubt(count, 0)
			return wait.Answer{Again: reloadTime}, nil
		}
		if c.queues && count == 0 && g.Server > 0 && g.Left > lease && !c.cut {
			// It had been given the lock before it asked, for longer than it asks for, and
			// has not heard of it: it asks once more, with the lease that it knows now.
			c.cut = true
			c.doubt(count, 0)
			hd.cuts(g.Server + g.Left.Milliseconds())
			return wait.Answer{Again: time.Millisecond}, nil
		}
		c.hold = hd.grant(c.ctx, s, c.cfg, g, count+1, watchdog.NewWindow(sent, lease))
		if c.hold == nil {
			return c.void(count, lease)
		}
		if c.cut {
			c.doubts-- // that request was answered: nothing of it is on its way
		}
		if c.doubts > 0 {
			c.holding.acquireInDoubt(c.until)
		}
		c.inDoubt, c.queued = false, false
		return wait.Answer{Granted: true, After: lease}, nil
	case NotHolder:
		hd.gone()
		return wait.Answer{}, errLost
	case PastDeadline:
		// The estimate of the server's clock was off, and is right now; or the
		// request did take that long, and then the network may have delivered it once
		// before, in time.
		if g.Server > dl.NotAfter {
			c.doubt(count, 0)
			c.lates++
		}
		return c.failure(asked, run.ErrLate)
	}
	c.confirming = false
	if c.lates > 0 && c.lates == c.doubts {
		c.lates, c.doubts, c.inDoubt = 0, 0, false // it has not been granted
	}
	c.named = c.named || g.Ticket > 0
	if c.queued || c.req.Entry != "" {
		hd.waitsSince(sent, g.Server)
	}
	return wait.Answer{After: g.Left, Ticket: g.Ticket, Next: g.Next}, nil
}

// void says what to do about a grant that came too late to be believed in: it is
// asked for again, which renews it, and at last given back.
func (c *lockAttempt) void(base int, lease time.Duration) (wait.Answer, error) {
	c.doubt(base, 0)
	select {
	case <-c.spec.engine.gate.Closed():
		return wait.Answer{}, run.ErrClosed
	default:
	}
	if base > 0 {
		c.base = 0 // what it builds on is lost
		return wait.Answer{}, errLost
	}
	if c.voids++; c.voids < mostVoids {
		return wait.Answer{Again: time.Millisecond}, nil
	}
	return wait.Answer{}, run.Both(ErrLeaseLost, errShort(lease))
}

// mostVoids is how many grants in a row may come too late, of a server that was
// frozen, before the lease is too short for the way there.
const mostVoids = 3

// doubt notes that a request for one hold more than base may have been granted,
// or may be within bound.
func (c *lockAttempt) doubt(base int, bound time.Duration) {
	c.base = base
	c.attempt.doubt(bound)
}

type errShort time.Duration

func (d errShort) Error() string {
	return "the lease of " + time.Duration(d).String() + " was over before the answer came"
}

var errNoAnswer = errors.New("no answer from Redis within the wait")

// lease returns the lease to ask for under cfg.
func (e *Engine) lease(cfg *LockConfig) time.Duration {
	d := cfg.Lease
	if d == 0 {
		d = e.cfg.WatchdogTimeout
		if cfg.MaxHold > 0 {
			d = min(d, cfg.MaxHold)
		}
	}
	return d.Truncate(time.Millisecond)
}

func (c *lockAttempt) lease() time.Duration {
	return c.spec.engine.lease(c.cfg)
}
