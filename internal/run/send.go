package run

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// inlineBound is how long a command may take on its caller's goroutine.
	// Then it is given up and sent again on a goroutine of its own. A caller
	// whose context ends returns within that time.
	inlineBound = 50 * time.Millisecond
	// inlineAgain is how fast a server must answer for commands to be sent on
	// their callers' goroutines again.
	inlineAgain = inlineBound / 2
)

// A sender knows how the go-redis client bounds a command.
type sender struct {
	// deadlines is set if the deadline of a context bounds reads and writes:
	// ContextTimeoutEnabled is set.
	deadlines bool
	// timeouts is set if a read timeout bounds them.
	timeouts bool
	read     time.Duration // read timeout; 0 or less if none is known
	// slow is set while the server takes longer than inlineBound to answer.
	slow atomic.Bool
}

// waits returns how long a WAIT may take, so that its reply can still be read.
func (s *sender) waits(a Acks) time.Duration {
	if !a.On() {
		return a.Timeout
	}
	d := a.Timeout
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
	s.timeouts = read > 0 && read <= Attempt
	s.read = read
}

// Options set how a script is sent and how long its reply is waited for. The
// zero value waits until the context ends or the client is closed.
type Options struct {
	// CleanUp is set for a request that gives something back. It continues
	// while the client is being closed, and ends with the deadline of its
	// context, which Done need not show.
	CleanUp bool
	// Once is set for a script that is not sent again if its reply is lost. It
	// has all the time that go-redis allows.
	Once bool
	// Within bounds each command, unless it is 0. A command that takes longer
	// fails with a silence.
	Within time.Duration
	// Replicas, unless nil, makes a WAIT follow the script on the same
	// connection, and receives its reply.
	Replicas *Replicas
}

// unbounded returns o without Within.
func (o Options) unbounded() Options {
	o.Within = 0
	return o
}

// CleanUp is the Options of a request that gives something back.
var CleanUp = Options{CleanUp: true}

// A bounded context has an earlier deadline. Done does not show it, so it needs
// no timer: go-redis sets the deadline on the connection, and await uses a
// timer only while a command runs on a goroutine of its own.
type bounded struct {
	context.Context
	until time.Time
}

// Deadline returns the earlier of the two deadlines.
func (c bounded) Deadline() (time.Time, bool) {
	if at, ok := c.Context.Deadline(); ok && at.Before(c.until) {
		return at, true
	}
	return c.until, true
}

// Err returns why c has ended, or nil if it has not.
func (c bounded) Err() error {
	if err := c.Context.Err(); err != nil || time.Now().Before(c.until) {
		return err
	}
	return context.DeadlineExceeded
}

// Within returns a context for one clean-up request of at most d.
func Within(ctx context.Context, d time.Duration) context.Context {
	return bounded{ctx, time.Now().Add(d)}
}

// Detached returns a context for giving something back. It has the values of
// ctx but not its cancellation, and ends after most.
func Detached(ctx context.Context, most time.Duration) context.Context {
	return Within(context.WithoutCancel(ctx), most)
}

// Timed returns a context whose Done shows the deadline of ctx.
func Timed(ctx context.Context) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, at)
}

// send sends cmd and waits for its reply, the end of ctx, or Close. Every
// script is sent by it, or in a batch, which EvalMany adds to the same
// pipelines.
//
// If many commands are under way, they share pipelines. Otherwise send has to
// consider that go-redis returns early from a command because of a timeout or a
// deadline, but never because a context is cancelled. If such a bound is soon
// enough, cmd is sent on the caller's goroutine. Otherwise cmd has a goroutine
// of its own, which may outlive the call and ends with go-redis's read timeout.
func (rn *Runner) send(ctx context.Context, opts Options, cmd redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if opts.Within > 0 {
		return inTime(ctx, opts.Within, func(ctx context.Context) error { return rn.send(ctx, opts.unbounded(), cmd) })
	}
	if opts.Replicas == nil {
		rn.underway.Add(1)
		defer rn.underway.Add(-1)
		if p := rn.batcherFor(ctx, cmd); p != nil {
			_, joined, err := p.join(ctx, rn, opts, cmd, nil)
			if joined && (!rn.cluster || !wrongNode(err)) {
				return err
			}
		}
		if bound, ok := rn.sender.inline(ctx, opts); ok {
			return rn.inline(ctx, cmd, bound)
		}
	}
	start := time.Now()
	sent := make(chan error, 1)
	reply := opts.Replicas.another() // a copy, because a caller that has left must not see writes to it
	go func() {
		if reply != nil {
			*reply = rn.sendAcked(ctx, cmd)
			sent <- cmd.Err()
			return
		}
		err := rn.rdb.Process(bounded{ctx, start.Add(Attempt)}, cmd)
		if err == nil {
			err = cmd.Err() // waits for an asynchronous AutoPipeliner, which only queues the command
		}
		sent <- err
	}()
	answered, err := rn.await(ctx, opts, sent)
	if answered && reply != nil {
		*opts.Replicas = *reply
	}
	if answered && Classify(err) != Unknown && time.Since(start) < inlineAgain {
		rn.sender.slow.Store(false)
	}
	return err
}

// inlines reports whether commands may be sent on their callers' goroutines,
// bounded by the deadlines of their contexts.
func (s *sender) inlines() bool { return s.deadlines && !s.slow.Load() }

// inline reports whether a command is sent on its caller's goroutine, and after
// which time it is given up. bound is 0 if go-redis's read timeout suffices.
func (s *sender) inline(ctx context.Context, opts Options) (bound time.Duration, ok bool) {
	if !opts.Once && s.inlines() {
		return inlineBound, true
	}
	if !s.timeouts || ctx.Done() != nil {
		return 0, false
	}
	_, ends := ctx.Deadline()
	return 0, !ends
}

// inline sends cmd on the caller's goroutine. A command without a reply within
// bound is given up. The error then says that cmd may have been executed, and
// the next command has a goroutine of its own.
func (rn *Runner) inline(ctx context.Context, cmd redis.Cmder, bound time.Duration) error {
	if bound == 0 {
		return rn.rdb.Process(ctx, cmd)
	}
	at := time.Now().Add(bound)
	err := rn.rdb.Process(bounded{ctx, at}, cmd)
	if err == nil {
		return nil
	}
	if Classify(err) == Unknown && !time.Now().Before(at) {
		rn.sender.slow.Store(true)
	}
	return rn.ended(ctx, err)
}

// await waits for the outcome of a command, for the end of ctx, or for Close.
func (rn *Runner) await(ctx context.Context, opts Options, done <-chan error) (answered bool, err error) {
	closed := rn.cfg.Closed
	var over <-chan time.Time
	if opts.CleanUp {
		closed = nil
		if at, ok := ctx.Deadline(); ok {
			timer := time.NewTimer(time.Until(at))
			defer timer.Stop()
			over = timer.C
		}
	}
	select {
	case err := <-done:
		return true, rn.ended(ctx, err)
	case <-over:
		return false, context.DeadlineExceeded
	case <-ctx.Done():
		return false, ctx.Err()
	case <-closed:
		return false, ErrClosed
	}
}

// ended returns the error of a command that has returned. With
// ContextTimeoutEnabled the end of ctx appears as an i/o timeout.
func (*Runner) ended(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cerr := ctx.Err(); cerr != nil && Classify(err) == Unknown {
		return both{cerr, err}
	}
	return err
}
