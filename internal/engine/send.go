package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// inlineBound is how long a command that is sent on its caller's goroutine may
	// take before it is given up and asked again on a goroutine of its own. A caller
	// whose context ends is back within it.
	inlineBound = 50 * time.Millisecond
	// inlineAgain is how soon a server must answer for commands to be sent on their
	// callers' goroutines again.
	inlineAgain = inlineBound / 2
)

// A sender knows how the go-redis client bounds a call.
type sender struct {
	// deadlines is set where a context's deadline bounds reads and writes: with
	// ContextTimeoutEnabled.
	deadlines bool
	// timeouts is set where a read timeout bounds them.
	timeouts bool
	read     time.Duration // timeout; 0 or less: none that is known
	// slow is set while the server takes longer than inlineBound to answer.
	slow atomic.Bool
}

// waits returns how long the answer to a WAIT of d may be read.
func (s *sender) waits(d time.Duration) time.Duration {
	if s.read > 0 {
		d = min(d, s.read*3/4)
	}
	return max(d, time.Millisecond)
}

func (s *sender) init(rdb redis.UniversalClient) {
	var read, write time.Duration
	var enabled bool
	switch rdb := rdb.(type) {
	case *redis.Client:
		o := rdb.Options()
		read, write, enabled = o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled
	case *redis.ClusterClient:
		o := rdb.Options()
		read, write, enabled = o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled
	}
	s.deadlines = enabled && read >= 0 && write >= 0 // below 0 go-redis sets no deadline at all
	s.timeouts = read > 0 && read <= attempt
	s.read = read
}

// A cleanup is a context under which commands go on although the client is being
// closed: giving back what is held. It ends at a time, if one is set, for what looks
// at its deadline or its error; Done does not show that, so that an Unlock which is
// answered soon needs no timer.
type cleanup struct {
	context.Context
	until time.Time
}

// Deadline returns when c ends.
func (c *cleanup) Deadline() (time.Time, bool) {
	at, ok := c.Context.Deadline()
	if !c.until.IsZero() && (!ok || c.until.Before(at)) {
		return c.until, true
	}
	return at, ok
}

// Err returns why c has ended, nil while it has not.
func (c *cleanup) Err() error {
	if err := c.Context.Err(); err != nil || c.until.IsZero() || time.Now().Before(c.until) {
		return err
	}
	return context.DeadlineExceeded
}

// timed returns a context that ends with c, and whose Done shows that.
func (c *cleanup) timed() (context.Context, context.CancelFunc) {
	if c.until.IsZero() {
		return c.Context, func() {}
	}
	return context.WithDeadline(c.Context, c.until)
}

// within returns c for one request of at most d.
func (c *cleanup) within(d time.Duration) *cleanup {
	once := &cleanup{c.Context, time.Now().Add(d)}
	if !c.until.IsZero() && c.until.Before(once.until) {
		once.until = c.until
	}
	return once
}

// detached returns the context of what gives something back: it has the values of
// ctx, nothing of its cancellation, and ends after most.
func detached(ctx context.Context, most time.Duration) *cleanup {
	return &cleanup{context.WithoutCancel(ctx), time.Now().Add(most)}
}

// process sends cmd and waits for its answer, for the end of ctx, or for Close.
//
// go-redis returns from a command when a timeout or a deadline says so, never because
// a context was cancelled. Where it returns soon enough, the command is sent on the
// caller's goroutine. Elsewhere it has a goroutine of its own, which may outlive the
// call and ends with go-redis's read timeout. With many commands under way they share
// pipelines.
func (e *Engine) process(ctx context.Context, cmd redis.Cmder) error {
	return e.send(ctx, cmd, e.sender.inlines())
}

// inlines reports whether commands are sent on their callers' goroutines.
func (s *sender) inlines() bool { return s.deadlines && !s.slow.Load() }

// A single is the context of a command that is not sent again when its answer is lost:
// it has all the time that go-redis gives it.
type single struct{ context.Context }

// send is process; inline says whether to send cmd on the caller's goroutine.
func (e *Engine) send(ctx context.Context, cmd redis.Cmder, inline bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch c := ctx.(type) {
	case single:
		return e.send(c.Context, cmd, false)
	case *acked:
		return e.processAcked(c, cmd)
	case *patient:
		return c.ask(func(ctx context.Context) error { return e.send(ctx, cmd, inline) })
	}
	e.underway.Add(1)
	defer e.underway.Add(-1)
	if p := e.pipeFor(ctx, cmd); p != nil {
		if j := p.add(cmd, nil); j != nil {
			answered, err := e.await(ctx, j.done)
			if answered {
				j.over()
			}
			if !answered || !e.cluster || !elsewhere(err) {
				return err
			}
		}
	}
	switch {
	case inline:
		return e.inline(ctx, cmd)
	case e.sender.timeouts && ctx.Done() == nil:
		if _, ok := ctx.Deadline(); !ok {
			return e.rdb.Process(ctx, cmd)
		}
	}
	start := time.Now()
	sent := make(chan error, 1)
	go func() {
		err := e.rdb.Process(sooner{ctx, start.Add(attempt)}, cmd)
		if err == nil {
			err = cmd.Err() // an asynchronous AutoPipeliner has only queued it: this waits
		}
		sent <- err
	}()
	answered, err := e.await(ctx, sent)
	if answered && Sort(err) != Maybe && time.Since(start) < inlineAgain {
		e.sender.slow.Store(false)
	}
	return err
}

// inline sends cmd on the caller's goroutine. An answer that does not come within
// inlineBound is given up; the error then says that cmd may have been carried out,
// and the next command has a goroutine.
func (e *Engine) inline(ctx context.Context, cmd redis.Cmder) error {
	at := time.Now().Add(inlineBound)
	err := e.rdb.Process(sooner{ctx, at}, cmd)
	if err != nil && Sort(err) == Maybe && !time.Now().Before(at) {
		e.sender.slow.Store(true)
	}
	return e.ended(ctx, err)
}

// A sooner is a context with an earlier deadline, of which Done says nothing: go-redis
// sets it on the connection.
type sooner struct {
	context.Context
	at time.Time
}

// Deadline returns the earlier one.
func (c sooner) Deadline() (time.Time, bool) {
	if at, ok := c.Context.Deadline(); ok && at.Before(c.at) {
		return at, true
	}
	return c.at, true
}

// await waits for the outcome of a command, for the end of ctx, or for Close.
func (e *Engine) await(ctx context.Context, done <-chan error) (answered bool, err error) {
	closed := e.gate.closed
	if clean, ok := ctx.(*cleanup); ok {
		closed = nil
		timed, cancel := clean.timed()
		defer cancel()
		ctx = timed
	}
	select {
	case err := <-done:
		return true, e.ended(ctx, err)
	case <-ctx.Done():
		return false, ctx.Err()
	case <-closed:
		return false, ErrClosed
	}
}

// ended returns the error of a command that has come back. With
// ContextTimeoutEnabled the end of ctx shows as an i/o timeout.
func (*Engine) ended(ctx context.Context, err error) error {
	if cerr := ctx.Err(); err != nil && cerr != nil && Sort(err) == Maybe {
		return both{cerr, err}
	}
	return err
}
