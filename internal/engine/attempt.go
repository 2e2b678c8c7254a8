package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
)

// An attempt is one caller's way to something, be it a lock, a permit or the end of a
// count: how long it may take, how it goes on when Redis does not answer, and what it may
// have been granted without knowing. A lockAttempt and a wantAttempt are made of it. Its
// states are in doc.go.
type attempt struct {
	ctx   context.Context // the caller's, of whatever is acquired
	spec  *Spec
	cfg   *LockConfig
	start time.Duration // since the engine's clock began

	bounded   bool        // it takes no longer than cfg.Wait
	waiting   bool        // not just one try
	contended bool        // it has had to wait
	over      *time.Timer // of a bounded wait

	failing    time.Time // since when Redis has not answered; zero while it does
	why        error     // what came instead last
	backoff    time.Duration
	confirming bool // it has been granted by a node that may be replaced, and asks once more

	// inDoubt is set while a request may have been granted without our knowing.
	inDoubt bool
	doubts  int       // how many such requests there were
	until   time.Time // when none of them can be granted any more
}

func newAttempt(ctx context.Context, s *Spec, cfg *LockConfig) (c attempt) {
	c.init(ctx, s, cfg)
	return c
}

func (c *attempt) init(ctx context.Context, s *Spec, cfg *LockConfig) {
	c.ctx, c.spec, c.cfg, c.start = ctx, s, cfg, time.Since(s.engine.Clock.Start)
}

// began returns when the attempt did.
func (c *attempt) began() time.Time { return c.spec.engine.Clock.Start.Add(c.start) }

// begin begins to wait, or goes on with it. The caller calls stop.
func (c *attempt) begin() {
	c.waiting = true
	if at, ok := c.deadline(); ok {
		c.over = time.NewTimer(time.Until(at))
	}
}

// stop stops the timer of a bounded wait.
func (c *attempt) stop() {
	if c.over != nil {
		c.over.Stop()
	}
}

// deadline returns when a bounded wait ends.
func (c *attempt) deadline() (at time.Time, ok bool) {
	if !c.waiting || !c.bounded {
		return time.Time{}, false
	}
	return c.began().Add(c.cfg.Wait), true
}

// overC returns the channel that ends a bounded wait, nil for another one.
func (c *attempt) overC() <-chan time.Time {
	if c.over == nil {
		return nil
	}
	return c.over.C
}

// doubt notes that a request may have been carried out, or may be yet: until
// bound is over, by a clock that may be off by its slack.
func (c *attempt) doubt(bound time.Duration) {
	c.inDoubt = true
	c.doubts++
	if until := time.Now().Add(bound + run.ClockSlack); until.After(c.until) {
		c.until = until
	}
}

// once makes one attempt, which includes asking again where an answer was lost.
func (c *attempt) once(ctx context.Context, cl wait.Claim) error {
	for {
		ans, err := cl.Try(ctx)
		switch {
		case err != nil || ans.Granted:
			return err
		case ans.Again == 0:
			return ErrNotAcquired
		}
		if err := c.pause(ctx, ans); err != nil {
			return err
		}
	}
}

// pause sleeps before asking again outside of a line.
func (c *attempt) pause(ctx context.Context, ans wait.Answer) error {
	d := ans.Again
	if d == 0 {
		d = run.RetryFirst
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.overC():
		return c.timeUp()
	case <-ctx.Done():
		return ctx.Err()
	case <-c.spec.engine.gate.Closed():
		return run.ErrClosed
	}
}

// events tells an attempt of what becomes of its wait.
type events struct{ *attempt }

func (c events) Slept()  { c.waits() }
func (c events) Missed() { c.missed() }

func (c *attempt) policy() wait.Policy {
	e, s := c.spec.engine, c.spec
	return wait.Policy{
		Listen:      s.listen,
		Poll:        s.Poll,
		Recheck:     e.cfg.Recheck,
		Unconfirmed: unconfirmed,
		Exclusive:   !s.Shared,
		Together:    s.Together,
		Closed:      e.gate.Closed(),
		ClosedErr:   run.ErrClosed,
		Events:      events{c},
		Over:        c.overC(),
	}
}

// bound returns how long the request may take: no longer than anybody is there
// to hear of its success, nor than most, unless that is 0.
func (c *attempt) bound(ctx context.Context, most time.Duration) time.Duration {
	d := run.Attempt
	if most > 0 {
		d = min(d, most)
	}
	if at, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(at))
	}
	if at, ok := c.deadline(); ok {
		d = min(d, time.Until(at))
	}
	return max(d, leastBound)
}

// leastBound is the least time that a request has, however soon nobody is there any
// more to hear of it: clocks are read in whole ms, and that of the server is known to
// about two. What is granted to one who has gone is taken back.
const leastBound = 5 * time.Millisecond

// patience is for how long c asks without an answer.
func (c *attempt) patience() time.Duration {
	if c.contended {
		return waiterPatience
	}
	return c.spec.engine.cfg.AnswerTimeout
}

// patiently returns how long one request may take, 0 for no bound; see
// Engine.patiently. One who waits has go-redis's timeouts.
func (c *attempt) patiently() time.Duration {
	if c.contended {
		return 0
	}
	return c.spec.engine.Patiently(c.patience(), c.failing)
}

// failed sorts a request made at that time that got no answer.
func (c *attempt) failed(ctx context.Context, asked time.Time, err error) (wait.Answer, error) {
	switch run.Classify(err) {
	case run.Permanent:
		return wait.Answer{}, err
	case run.Unknown:
		if cerr := ctx.Err(); cerr != nil {
			if !errors.Is(err, cerr) { // ctx ended just behind the answer
				err = run.Both(cerr, err)
			}
			return wait.Answer{}, err
		}
		if errors.Is(err, run.ErrClosed) {
			return wait.Answer{}, err
		}
		if run.Hopeless(err) {
			return wait.Answer{}, err
		}
		// Asking again for the same count is harmless, and tells.
	}
	return c.failure(asked, err)
}

// failure says whether to ask again after err, and when. The request was made at that time.
func (c *attempt) failure(asked time.Time, err error) (wait.Answer, error) {
	e, now, patience := c.spec.engine, time.Now(), c.patience()
	var reply redis.Error
	if run.IsSilence(err) && errors.As(c.why, &reply) {
		err = run.Both(err, c.why) // which was the server's last word
	}
	c.why = err
	if c.failing.IsZero() {
		// Whoever stood behind others who gave up has been kept already.
		since := run.Unanswered(asked, now, patience, err)
		c.failing = e.fails(since)
		if began := c.began(); c.failing.Before(began) {
			c.failing = began
		}
	}
	if now.Sub(c.failing) >= patience || run.IsSilence(err) || e.TurnedAway(err) {
		return wait.Answer{}, err
	}
	if c.backoff == 0 {
		c.backoff = run.RetryFirst / 2
	}
	c.backoff = min(2*c.backoff, run.RetryMost)
	d := c.backoff - time.Duration(rand.Int64N(int64(c.backoff/2)))
	if at, ok := c.deadline(); ok && !now.Add(d).Before(at) {
		return wait.Answer{}, c.timeUp()
	}
	return wait.Answer{Again: d}, nil
}

// timeUp is the error of a bounded wait that is over. Where Redis has not answered
// lately, it says so.
func (c *attempt) timeUp() error {
	if c.failing.IsZero() {
		return ErrNotAcquired
	}
	return run.Both(ErrNotAcquired, c.why)
}
