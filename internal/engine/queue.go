package engine

import (
	"context"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
)

// A Queue runs the scripts of a queue of waiters in Redis.
type Queue interface {
	// Channels returns the Redis channels on which a waiter is told of its
	// turn: that of this client, and the waiter's own, for clients that know no
	// other.
	Channels(holder string) (client, own string)
	// Timeout returns how long a dead waiter may keep its place.
	Timeout() time.Duration
	// Keep reports to Redis that this client and its waiters are alive. It
	// returns for each waiter whether it has a place, and the server's time in
	// ms.
	Keep(ctx context.Context, e *Engine, opts run.Options, holders []string) (has []bool, at int64, err error)
	// Leave gives up a place: Granted, Unchanged (there was none), or PastDeadline.
	Leave(ctx context.Context, e *Engine, opts run.Options, l *Leaving) (Status, error)
}

// A Leaving is a request to give up a place in a queue.
type Leaving struct {
	Holder   string
	Wait     time.Duration // as in the Request that queued
	Deadline run.Deadline
	Next     string // set by Leave: the waiter of this client whose turn it is now
}

const (
	// keepEvery is the longest time between a client's reports that it and all
	// its waiters are alive.
	keepEvery = 5 * time.Second
	// aliveFor is for how long a client then counts as alive; a shorter Timeout
	// shortens it.
	aliveFor = 3 * keepEvery
	// keepBatch is the number of waiters that one script looks at.
	keepBatch = 100
	// leaveMoment is how long a call that gives up waits for the first attempt
	// to leave the queue.
	leaveMoment = 50 * time.Millisecond
	// leavePatience is how long leaving is tried.
	leavePatience = 30 * time.Second
)

// Keeping returns how often the waiters in a queue are kept, and for how long
// their client counts as alive after each time.
func (e *Engine) Keeping(timeout time.Duration) (every, alive time.Duration) {
	every = min(keepEvery, e.cfg.Recheck, timeout/3)
	return every, max(3*every, min(aliveFor, timeout))
}

// untilTurn waits in the queue.
func (c *lockAttempt) untilTurn(ctx context.Context, p wait.Policy) error {
	q := c.queue(p)
	err := c.spec.engine.lines.UntilTurn(ctx, c.spec.Line, c, q)
	return c.waited(&q.Policy, err)
}

// queue returns how c waits in its queue.
func (c *lockAttempt) queue(p wait.Policy) *wait.Queue {
	e, s := c.spec.engine, c.spec
	p.Recheck, _ = e.Keeping(s.Queue.Timeout())
	client, own := s.Queue.Channels(c.holding.field)
	p.Listen = func() wait.Hints {
		return hints{e.notifier.SubscribeFunc(client, func(payload string) bool { return e.receive(s, payload) })}
	}
	return &wait.Queue{
		Policy:    p,
		ID:        c.holding.field,
		ListenOwn: func() wait.Hints { return hints{e.notifier.Subscribe(own)} },
		Keep:      func(ctx context.Context, ids []string) []string { return e.keepQueue(ctx, s, ids) },
		Stray:     func(id string) { e.stray(s, id) },
	}
}

// queueWait returns the wait from which the score in the queue follows.
func (c *lockAttempt) queueWait() time.Duration {
	timeout := c.spec.Queue.Timeout()
	if _, ok := c.deadline(); !ok {
		return timeout
	}
	return min(max(c.cfg.Wait, time.Millisecond), timeout)
}

// keepQueue keeps waiters alive and returns those without a place.
func (e *Engine) keepQueue(ctx context.Context, s *Spec, ids []string) (lost []string) {
	for len(ids) > 0 {
		batch := ids[:min(len(ids), keepBatch)]
		ids = ids[len(batch):]
		sent := e.now()
		has, at, err := s.Queue.Keep(ctx, e, run.Options{}, batch)
		if err != nil {
			// It is tried again before any client takes them for dead.
			e.cfg.Logger.Warn("latchkey: waiters could not be kept", "name", s.Name, "err", err)
			return lost
		}
		var labels []string
		var leases []time.Duration
		for i, id := range batch {
			switch {
			case i >= len(has):
			case !has[i]:
				lost = append(lost, id)
			case e.seen(s, id, sent, at):
				labels, leases = append(labels, names.Label(s.Key, id)), append(leases, s.Queue.Timeout())
			}
		}
		if len(labels) > 0 {
			e.writeLabels(ctx, run.Options{}, "", labels, leases)
		}
	}
	return lost
}

// turn tells a waiter of this client that it is its turn.
func (e *Engine) turn(s *Spec, id string) {
	if id != "" && !e.lines.Tell(s.Line, id) {
		e.stray(s, id)
	}
}

// stray gives up the place of a waiter that has gone and whose leaving has
// failed. Its client is alive, so nobody else would.
func (e *Engine) stray(s *Spec, id string) {
	if !e.gate.Enter() {
		return
	}
	n, ok := e.number(id)
	if !ok {
		e.gate.Leave()
		return
	}
	hd := e.enter(n, s, false)
	if !hd.alone() { // the holder comes, holds, or leaves by itself
		hd.leave()
		e.gate.Leave()
		return
	}
	go func() {
		defer e.gate.Leave()
		defer hd.leave()
		ctx, cancel := context.WithTimeout(e.gate.Late(), returnBound)
		defer cancel()
		if hd.lockOps(ctx) != nil {
			return
		}
		defer hd.unlockOps()
		if hd.counted() > 0 || e.lines.InGroup(s.Line, hd.field) {
			return // the holder has come meanwhile, as a holder from a context may
		}
		l := &Leaving{Holder: id, Wait: s.Queue.Timeout(), Deadline: e.deadline(returnBound)}
		_, err := s.Queue.Leave(ctx, e, run.CleanUp, l)
		switch {
		case err == nil:
			e.turn(s, l.Next)
		case run.Classify(err) == run.Unknown:
			hd.releaseInDoubt(actsUntil())
		}
	}()
}

// withdraw gives up the place that a failed attempt may have in its queue, and
// what it may have been granted. It returns after the first try, or after
// leaveMoment.
func (e *Engine) withdraw(c *lockAttempt) {
	c.holding.stay()
	first := make(chan struct{})
	tried := sync.OnceFunc(func() { close(first) })
	end := time.Now().Add(leavePatience)
	e.cleanup.Later(func(ctx context.Context) bool {
		// The place comes first: a waiter without one is granted nothing any
		// more.
		left := e.left(ctx, c) || time.Now().After(end)
		settled := !c.inDoubt || e.undone(ctx, c)
		tried()
		return settled && left
	}, func() {
		tried()
		c.holding.leave()
	})
	timer := time.NewTimer(leaveMoment)
	defer timer.Stop()
	select {
	case <-first:
	case <-timer.C:
	}
}

// left makes one try to leave the queue and reports whether no other is needed.
func (e *Engine) left(ctx context.Context, c *lockAttempt) bool {
	hd, s := c.holding, c.spec
	if hd.cleanUpOps(ctx) != nil {
		return ctx.Err() != nil
	}
	defer hd.unlockOps()
	once := run.Within(ctx, returnBound)
	if n := hd.counted(); n > 0 || e.lines.InGroup(s.Line, hd.field) {
		if n == 0 && c.named || n > 0 && hd.label == "" {
			e.unlabel(once, c)
		}
		return true // the holder has the lock, or waits for it in another attempt
	}
	l := &Leaving{Holder: hd.field, Wait: c.queueWait()}
	if !hd.fresh {
		l.Deadline = e.deadline(returnBound)
	}
	v, err := s.Queue.Leave(once, e, run.CleanUp, l)
	if err != nil {
		if run.Classify(err) == run.Unknown && !hd.fresh {
			hd.releaseInDoubt(actsUntil())
		}
		return run.Hopeless(err)
	}
	e.turn(s, l.Next)
	e.unlabel(once, c)
	return v != PastDeadline
}

// unlabel removes the label that c may have left at its place in the queue.
func (e *Engine) unlabel(ctx context.Context, c *lockAttempt) {
	if c.cfg.Label != "" {
		e.writeLabels(ctx, run.CleanUp, "", []string{names.Label(c.spec.Key, c.holding.field)}, []time.Duration{0})
	}
}
