package engine

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A lockRequest is one request of a lockAttempt.
type lockRequest struct {
	count int              // the hold count before it
	bound time.Duration    // for how long it may be executed
	asked time.Time        // when it was made
	sent  watchdog.Instant // the same by the watchdog's clock
	opts  run.Options
	list  waitlistChange
}

// Try asks Redis once for one hold more than the holder has.
func (c *lockAttempt) Try(ctx context.Context) (wait.Answer, error) {
	e, hd, caller := c.spec.engine, c.holding, ctx
	if at, ok := c.deadline(); ok {
		// The wait bounds the request, like the caller's context.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
	}
	if err := hd.lockOps(ctx); err != nil {
		if caller.Err() == nil { // a request of this holder has no answer yet
			err = run.Both(ErrNotAcquired, errNoAnswer)
		}
		return wait.Answer{}, err
	}
	defer hd.unlockOps()
	count := hd.counted()
	if ans, ok, err := c.unasked(count); ok {
		return ans, err
	}
	q := c.prepare(ctx, count)
	g, err := c.spec.Scripts.Acquire(ctx, e, q.opts, &c.req)
	e.waitlist.end(&q.list, c.waitlistAfter(g, err), q.asked.Add(q.bound+run.ClockSlack))
	if err == nil {
		c.failing, c.backoff = time.Time{}, 0
		e.answers()
		return c.replied(&q, g)
	}
	c.alone = run.IsCode(err, "TRYAGAIN") // while a slot is being moved, a request with one key succeeds
	if run.Classify(err) == run.Unknown {
		c.doubt(count, q.bound)
		c.named = true
	}
	if ctx.Err() != nil && caller.Err() == nil {
		return wait.Answer{}, run.Both(ErrNotAcquired, errNoAnswer)
	}
	return c.failed(caller, q.asked, err)
}

// unasked returns the answer that needs no request, if there is one. The caller
// has ops.
func (c *lockAttempt) unasked(count int) (ans wait.Answer, ok bool, err error) {
	e, hd, s := c.spec.engine, c.holding, c.spec
	if d := hd.releaseInDoubtFor(); d > 0 {
		return wait.Answer{Again: d}, true, nil
	}
	switch {
	case c.hold != nil: // a release has handed it the lock meanwhile
		return wait.Answer{Granted: true}, true, nil
	case count > 0 && s.NonReentrant:
		return wait.Answer{}, true, ErrReentry
	case count == 0 && s.NoUpgrade && e.otherCount(hd.key.holder, s) > 0:
		return wait.Answer{}, true, ErrUpgrade
	}
	return wait.Answer{}, false, nil
}

// prepare returns the next request of c, and sets c.req to what it asks for.
// The caller has ops, sends it, and ends its waitlistChange.
func (c *lockAttempt) prepare(ctx context.Context, count int) lockRequest {
	e, hd, s := c.spec.engine, c.holding, c.spec
	q := lockRequest{count: count, asked: time.Now(), sent: e.now()}
	q.opts = run.Options{Within: c.patiently(), Replicas: run.Confirmed(e.cfg.Acks.On())}
	q.bound = c.bound(ctx, q.opts.Within)
	c.req = Request{
		Holder: hd.field, Count: count + 1, Lease: c.lease(), Label: c.label(count),
		Waits: c.waiting, Deadline: e.Clock.Deadline(q.asked, q.bound),
	}
	if c.req.Label != "" {
		hd.tagged.Store(true)
	}
	switch {
	case c.queues:
		c.req.Wait, c.queued = c.queueWait(), true
		hd.mu.Lock()
		c.req.Ends = hd.ends
		hd.mu.Unlock()
	case (c.contended || !e.waitlist.empty()) && !c.alone && e.gives(s):
		// Only a waiter listens, so only a waiter adds an entry. Any request
		// removes those that are known.
		q.list = c.joinWaitlist()
	}
	return q
}

// replied applies the reply g to q, and returns what it means. The caller has
// ops.
func (c *lockAttempt) replied(q *lockRequest, g Grant) (wait.Answer, error) {
	switch g.Status {
	case Granted:
		return c.take(q, g)
	case NotHolder:
		c.holding.gone()
		return wait.Answer{}, errLost
	case PastDeadline:
		// The estimate of the server's clock was wrong, and is right now. Or
		// the request took that long, and the network may have delivered it
		// once before, in time.
		if g.Server > c.req.Deadline.NotAfter {
			c.doubt(q.count, 0)
			c.lates++
		}
		return c.failure(q.asked, run.ErrLate)
	}
	c.confirming = false
	if c.lates > 0 && c.lates == c.doubts {
		c.lates, c.doubts, c.inDoubt = 0, 0, false // it has not been granted
	}
	c.named = c.named || g.Ticket > 0
	if c.queued || c.req.Entry != "" {
		c.holding.waitsSince(q.sent, g.Server)
	}
	c.refused, c.left = true, g.Left
	return wait.Answer{After: g.Left, Ticket: g.Ticket, Next: g.Next}, nil
}

// take takes what q was granted, if it is to be trusted. The caller has ops.
func (c *lockAttempt) take(q *lockRequest, g Grant) (wait.Answer, error) {
	e, hd, lease := c.spec.engine, c.holding, c.req.Lease
	if err := e.Short(q.opts.Replicas); err != nil {
		return wait.Answer{}, c.unreplicated(q.count, err)
	}
	if c.outdated(q.asked) {
		c.doubt(q.count, 0)
		return wait.Answer{Again: reloadTime}, nil
	}
	if c.queues && q.count == 0 && g.Server > 0 && g.Left > lease && !c.cut {
		// The lock was granted before this request, for longer than it asks
		// for, and the message has not arrived. Ask once more with the lease
		// that is known now.
		c.cut = true
		c.doubt(q.count, 0)
		hd.cuts(g.Server + g.Left.Milliseconds())
		return wait.Answer{Again: time.Millisecond}, nil
	}
	c.hold = hd.grant(c.ctx, c.spec, c.cfg, g, q.count+1, watchdog.NewWindow(q.sent, lease))
	if c.hold == nil {
		return c.void(q.count, lease)
	}
	if c.cut {
		c.doubts-- // that request was answered, so nothing of it is on its way
	}
	if c.doubts > 0 {
		hd.acquireInDoubt(c.until)
	}
	c.inDoubt, c.queued = false, false
	return wait.Answer{Granted: true, After: lease}, nil
}

// void handles a grant that came too late to be trusted. The lock is requested
// again, which renews it, and in the end given back.
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

// mostVoids is how many grants in a row may come too late, from a server that
// was frozen, before the lease counts as too short for the round trip.
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
