package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
)

// unconfirmed is how long a waiter sleeps at most while its subscription is not
// confirmed yet.
const unconfirmed = time.Second

func (e *Engine) deadline(d time.Duration) run.Deadline { return e.Clock.Deadline(time.Now(), d) }

// An Op is a method that acquires.
type Op struct {
	Name string // for errors
	Try  bool   // makes one attempt, unless the LockConfig sets a wait
}

// The Ops that most locks have.
var (
	Lock    = &Op{Name: "lock"}
	TryLock = &Op{Name: "trylock", Try: true}
)

// Acquire takes the lock s for the holder in ctx, or for a fresh one. It
// returns a Hold, or an error with nothing held: what a failed attempt may have
// left in Redis is undone in the background, or ends with its lease.
func (s *Spec) Acquire(ctx context.Context, op *Op, cfg *LockConfig) (*Hold, error) {
	if err := s.admit(ctx, cfg); err != nil {
		return nil, s.engine.Wrap(op.Name, s, err)
	}
	if s.engine.lines.Waiting() > 0 {
		if c := s.follower(ctx, op, cfg); c != nil && c.follow() {
			return c.run(op, c.place.Await(ctx, c.overC()))
		}
	}
	c, p := s.newLockAttempt(ctx, op, cfg)
	return c.run(op, p)
}

// admit checks a call with cfg and counts it in at the gate, which the caller has
// to leave.
func (s *Spec) admit(ctx context.Context, cfg *LockConfig) error {
	if s.err != nil {
		return s.err
	}
	if err := cfg.check(); err != nil {
		return err
	}
	if cfg.Permanent && s.Scripts != nil {
		return errors.New("the option Permanent is for permits")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.engine.gate.Enter() {
		return run.ErrClosed
	}
	return nil
}

// newLockAttempt returns an attempt of the holder in ctx, or of a fresh one,
// and memory for its wait policy.
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

// follower returns an attempt that can wait behind others of its client, or nil
// if it has to do something else first. Its holding is made when it reaches the
// head of the line; see Heads.
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

// follow makes c wait behind others of its client. It returns false if there
// are none.
func (c *lockAttempt) follow() bool {
	c.begin()
	if !c.spec.engine.lines.Follow(c.spec.Line, c, &c.place) {
		c.stop()
		return false
	}
	c.tellOfWait()
	return true
}

// tellOfWait reports to the observer that c, which follows others, waits.
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

// Heads prepares c, which has followed others with a fresh holder, to ask.
func (c *lockAttempt) Heads() {
	if c.holding != nil {
		return // it has its holding already
	}
	c.begins(c.spec.engine.enter(c.holder, c.spec, true))
}

// begins makes c an attempt in the name of hd.
func (c *lockAttempt) begins(hd *holding) {
	c.holding = hd
	hd.mu.Lock()
	hd.attempts++
	hd.mu.Unlock()
}

// run carries c through to its end. p is memory for its first wait policy.
func (c *lockAttempt) run(op *Op, p *wait.Policy) (*Hold, error) {
	defer c.leave()
	e, s := c.spec.engine, c.spec
	err := c.acquire(c.ctx, p)
	left := c.ends()
	c.report(1, err)
	switch {
	case err == nil:
		c.acquired(c.hold)
		if c.hold.holding != c.holding && (left || c.doubts > 0) {
			// It was handed the lock under another holder. What Redis may still
			// grant to its own is undone.
			e.undo(c)
		}
		c.hold.setOrigin(e.newOrigin(c.fresh))
		return c.hold, nil
	case c.holding == nil: // it has sent no request
		return nil, e.Wrap(op.Name, s, c.taken(err))
	case c.queued:
		e.withdraw(c)
	case left, c.inDoubt, e.waitlist.has(s.Key, c.holding.field):
		e.undo(c)
	}
	if err = c.taken(err); c.inDoubt {
		err = inDoubt{err}
	}
	return nil, e.Wrap(op.Name, s, err)
}

// ends ends c as an attempt of its holder. It reports whether it was the last
// one and the holder was granted something that nobody has taken.
func (c *lockAttempt) ends() (left bool) {
	hd := c.holding
	if hd == nil || c.ended {
		return false
	}
	c.ended = true
	hd.mu.Lock()
	defer hd.mu.Unlock()
	hd.attempts--
	if hd.attempts == 0 {
		left, hd.heard = hd.heard && hd.count == 0, false
	}
	return left
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

// A lockAttempt is an attempt to acquire a lock. It is a wait.Claim.
type lockAttempt struct {
	attempt
	holder  uint64
	place   wait.Place // its first place in a line
	holding *holding   // its own; nil while it follows others in a line and cannot ask
	hold    *Hold      // set once it is granted; of another holding if it took one over
	req     Request    // the last request
	base    int        // the hold count before the request in doubt
	voids   int        // number of grants that came too late
	lates   int        // how many of doubts are for replies that the request came too late
	fresh   bool       // the holder was made for this attempt
	queues  bool       // its requests ask for a place in the queue
	queued  bool       // a request may have got a place in the queue
	named   bool       // that place may have been a new one, so its label is that of the attempt
	alone   bool       // requests name no key except that of the lock
	cut     bool       // it has asked for a shorter lease than it was granted
	ended   bool       // ends was called
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
			// No reader has been refused, so several may have the lock at once:
			// each asks.
			var ans wait.Answer
			if ans, err = c.Try(ctx); err != nil || ans.Granted {
				return err
			}
		}
		if has {
			// The holder has the lock, or its other half, so it stands in no
			// line.
			var ans wait.Answer
			if ans, err = c.Try(ctx); err == nil && !ans.Granted {
				if ans.Again == 0 {
					c.spec.engine.watchdog.Recheck() // Redis does not know what the holder has
				}
				err = c.pause(ctx, ans)
			}
		} else {
			// With many readers the line would never end, and would grant them
			// one by one. So after a grant to the head all of them ask at once.
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

// settled waits until no earlier release in doubt can affect the request to
// come. It does so before c joins the line, where it would delay others.
func (c *lockAttempt) settled(ctx context.Context) error {
	if !c.holding.tryOps() {
		return nil // another call changes the hold count; Try checks again
	}
	d := c.holding.releaseInDoubtFor()
	c.holding.unlockOps()
	if d <= 0 {
		return nil
	}
	return c.pause(ctx, wait.Answer{Again: d})
}

// waited notes how a wait has ended: after a failed wait, a release may still
// grant the lock.
func (c *lockAttempt) waited(p *wait.Policy, err error) error {
	if err != nil && p.Reserved {
		c.doubt(0, returnBound)
	}
	return err
}

// lease returns the lease to request under cfg.
func (e *Engine) lease(cfg *LockConfig) time.Duration {
	d := cfg.Lease
	if d == 0 {
		d = e.renewed(cfg)
		if cfg.MaxHold > 0 {
			d = min(d, cfg.MaxHold)
		}
	}
	return d.Truncate(time.Millisecond)
}

// renewed returns the lease that the watchdog renews under cfg.
func (e *Engine) renewed(cfg *LockConfig) time.Duration {
	return cmp.Or(cfg.Renewed, e.cfg.WatchdogTimeout)
}

func (c *lockAttempt) lease() time.Duration {
	return c.spec.engine.lease(c.cfg)
}
