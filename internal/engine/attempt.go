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

// An attempt is one caller's request for something: a lock, a permit or the end
// of a count. It records how long the call may take, what to do while Redis
// does not answer, and which requests are in doubt. A lockAttempt and a
// wantAttempt contain it. Its states are in doc.go.
type attempt struct {
	ctx    context.Context // the caller's
	spec   *Spec
	cfg    *LockConfig
	start  time.Duration // since the start of the engine's clock
	caller *caller       // nil without lookers

	bounded    bool        // it may take no longer than cfg.Wait
	waiting    bool        // it makes more than one try
	contended  bool        // it had to wait
	refused    bool        // Redis has refused it
	confirming bool        // a node that may have been replaced has granted it, and it asks once more
	over       *time.Timer // timer of a bounded wait

	failing time.Time // since when Redis has not answered; zero while it does
	why     error     // the last error instead of a reply
	backoff time.Duration
	left    time.Duration // of the present lease, as the last refusal told; 0 if unknown

	// inDoubt is set while a request may have been granted without the
	// attempt's knowledge.
	inDoubt bool
	doubts  int       // number of such requests
	until   time.Time // after that none of them can be granted
}

// A caller is what lookers compare of the context of a call, which they may not ask once
// the call has returned.
type caller struct {
	id   *identity
	done <-chan struct{}
}

func newAttempt(ctx context.Context, s *Spec, cfg *LockConfig) (c attempt) {
	c.init(ctx, s, cfg)
	return c
}

func (c *attempt) init(ctx context.Context, s *Spec, cfg *LockConfig) {
	c.ctx, c.spec, c.cfg, c.start = ctx, s, cfg, time.Since(s.engine.Clock.Start)
	if len(s.engine.waitings.lookers) > 0 {
		c.caller = &caller{identityOf(ctx), ctx.Done()}
	}
}

// began returns when the attempt began.
func (c *attempt) began() time.Time { return c.spec.engine.Clock.Start.Add(c.start) }

// begin starts the wait, or continues it. The caller must call stop.
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

// overC returns the channel that ends a bounded wait, or nil.
func (c *attempt) overC() <-chan time.Time {
	if c.over == nil {
		return nil
	}
	return c.over.C
}

// doubt notes that a request may have been executed, or may still be within
// bound, by a clock that may be wrong by its slack.
func (c *attempt) doubt(bound time.Duration) {
	c.inDoubt = true
	c.doubts++
	if until := time.Now().Add(bound + run.ClockSlack); until.After(c.until) {
		c.until = until
	}
}

// once makes one try. It asks again if a reply was lost.
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

// pause sleeps before another request outside a line.
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

// events receives the events of an attempt's wait.
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

// bound returns how long the request may take: no longer than anybody waits for
// its success, nor than most, unless that is 0.
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

// leastBound is the least time for a request, however soon nobody waits for it
// any more: clocks are read in whole ms, and the server's clock is known to
// about 2 ms. A grant to a caller that has gone is taken back.
const leastBound = 5 * time.Millisecond

// patience returns how long c asks without a reply.
func (c *attempt) patience() time.Duration {
	if c.contended {
		return waiterPatience
	}
	return c.spec.engine.cfg.AnswerTimeout
}

// patiently returns how long one request may take, or 0 for no bound; see
// run.Runner.Patiently. A waiter has only the timeouts of go-redis.
func (c *attempt) patiently() time.Duration {
	if c.contended {
		return 0
	}
	return c.spec.engine.Patiently(c.patience(), c.failing)
}

// failed handles a request, sent at that time, that got no usable reply.
func (c *attempt) failed(ctx context.Context, asked time.Time, err error) (wait.Answer, error) {
	switch run.Classify(err) {
	case run.Permanent:
		return wait.Answer{}, err
	case run.Unknown:
		if cerr := ctx.Err(); cerr != nil {
			if !errors.Is(err, cerr) { // ctx ended just after the reply
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
		// Asking again for the same hold count is harmless and shows what
		// happened.
	}
	return c.failure(asked, err)
}

// failure returns whether and when to ask again after err. asked is when the
// request was sent.
func (c *attempt) failure(asked time.Time, err error) (wait.Answer, error) {
	e, now, patience := c.spec.engine, time.Now(), c.patience()
	var reply redis.Error
	if run.IsSilence(err) && errors.As(c.why, &reply) {
		err = run.Both(err, c.why) // the server's last error
	}
	c.why = err
	if c.failing.IsZero() {
		// An attempt that stood behind others that gave up has waited already.
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

// taken returns err, or for a refusal the error that says who has the thing. It may ask
// Redis, so nothing of the attempt is held or queued any more.
func (c *attempt) taken(err error) error {
	if err != ErrNotAcquired { //nolint:errorlint // that and nothing else
		return err
	}
	return c.spec.engine.taken(c.ctx, c.spec, c.left, !c.cfg.Part)
}

// taken returns the reason of a refusal of s: with who has it, if that is wanted.
func (e *Engine) taken(ctx context.Context, s *Spec, left time.Duration, details bool) error {
	if e.cfg.Taken == nil {
		return ErrNotAcquired
	}
	return e.cfg.Taken(ctx, s.Kind, s.Name, left, details && e.cfg.TakenDetails)
}

// Refused returns the error of an acquire that s has refused, for a lock of which s is a part.
func (e *Engine) Refused(ctx context.Context, op string, s *Spec, left time.Duration) error {
	return e.Wrap(op, s, e.taken(ctx, s, left, true))
}

// timeUp returns the error of a bounded wait that is over. If Redis has not
// answered lately, the error says so.
func (c *attempt) timeUp() error {
	switch {
	case !c.failing.IsZero():
		return run.Both(ErrNotAcquired, c.why)
	case !c.refused && c.spec.engine.failing.Load() != nil: // those that ask get no answer
		return run.Both(ErrNotAcquired, errNoAnswer)
	}
	return ErrNotAcquired
}
