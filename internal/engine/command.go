package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/direct"
	"github.com/latchkey-go/latchkey/lua"
)

// A scriptCmd is an EVALSHA or EVAL that go-redis sends once: it asks a command
// for NoRetry before it sends it again, in the ClusterClient too. The engine
// decides about retries, because only it knows what a second run would do.
type scriptCmd struct{ *redis.Cmd }

// NoRetry tells go-redis not to repeat the command by itself.
func (scriptCmd) NoRetry() bool { return true }

// A Reply is the answer to a script: an integer, which is Int, an array of
// them, which is Ints, or another array, which is Any.
type Reply struct {
	Int  int64
	Ints []int64
	Any  []any
	got  time.Time
}

// Learn takes in the server time in ms that the script told with its answer.
func (e *Engine) Learn(r Reply, serverMs int64) {
	if !r.got.IsZero() {
		e.server.learn(r.got, serverMs)
	}
}

// Head is how many places Eval needs at the beginning of its arguments.
const Head = 3

// Eval runs a script once, or, when the server does not know it, a second time
// with its text. args are Head empty places, that many keys, and the arguments
// of the script. It must answer with an integer or an array.
//
// It returns no later than ctx ends, whatever go-redis does; then the error is
// ctx's own, and the script may have run or may run yet. The keys must lie in
// one slot.
func (e *Engine) Eval(ctx context.Context, s *lua.Script, keys int, args []any) (Reply, error) {
	if e.ring {
		return Reply{}, both{ErrUnsupported, errRing}
	}
	args[0], args[1], args[2] = "evalsha", s.Arg(), keys
	r, err := e.eval(ctx, s, args)
	if err != nil && isCode(err, "NOSCRIPT") {
		// A restart, a failover, SCRIPT FLUSH or a new node: everyday.
		if e.known[s.Index].Load() {
			e.watchdog.Recheck()
		}
		again := slices.Clone(args) // the first may still be read by go-redis
		again[0], again[1] = "eval", s.Source
		r, err = e.eval(ctx, s, again)
	}
	return r, err
}

func (e *Engine) eval(ctx context.Context, s *lua.Script, args []any) (r Reply, err error) {
	a, sent, err := e.straight(ctx, args)
	if !sent {
		cmd := scriptCmd{redis.NewCmd(ctx, args...)}
		cmd.SetFirstKeyPos(Head)
		if err = e.process(ctx, cmd); err == nil { // else go-redis may have it still
			a = answerOf(cmd.Val())
		}
	}
	if err != nil {
		e.reload(ctx, err)
		e.suspect(err)
		return r, err
	}
	if k := &e.known[s.Index]; !k.Load() {
		k.Store(true)
		e.answered.Store(true)
	}
	if _, ok := ctx.(*acked); !ok { // else it came before the replicas had confirmed
		r.got = time.Now()
	}
	r.Int, r.Ints = a.Int, a.Ints
	if a.Other {
		list, ok := a.Any.([]any)
		if !ok {
			return r, Unexpected(s, a.Any)
		}
		r.Any = list
	}
	return r, nil
}

// answerOf returns what go-redis has read as what package direct reads.
func answerOf(v any) direct.Answer {
	switch v := v.(type) {
	case int64:
		return direct.Answer{Int: v}
	case []any:
		ints := make([]int64, len(v))
		for i, x := range v {
			n, ok := x.(int64)
			if !ok {
				return direct.Answer{Any: v, Other: true}
			}
			ints[i] = n
		}
		return direct.Answer{Ints: ints}
	}
	return direct.Answer{Any: v, Other: true}
}

// reload makes a ClusterClient look at its cluster again after an error that may
// mean that a node is gone: by itself it would go on asking that node for a
// minute, which is longer than a lease.
func (e *Engine) reload(ctx context.Context, err error) {
	rdb, ok := e.rdb.(*redis.ClusterClient)
	if !ok {
		return
	}
	var reply redis.Error
	if errors.As(err, &reply) && !isCode(err, "CLUSTERDOWN") && !isCode(err, "READONLY") {
		return // a node that answers is there
	}
	rdb.ReloadState(context.WithoutCancel(ctx)) // in the background, and not too often
}

// Unexpected is the error of an answer that a script never gives.
func Unexpected(s *lua.Script, answer any) error {
	return fmt.Errorf("the script %s answered %v, which has no meaning", s.Name, answer)
}

// A cleanup is a context under which commands go on although the client is
// being closed: giving back what is held.
type cleanup struct {
	context.Context
	// values is whose values it has, when that is not Context.
	values context.Context
	// brief is set where the caller needs the answer soon and has nobody to hand
	// the command to: it is then sent on the caller's goroutine, and read for at
	// most returnBound.
	brief bool
	// tells is set where Redis is likely to tell others, who come before the caller.
	tells bool
}

// Value returns what the context that it was made from says.
func (c *cleanup) Value(key any) any {
	if c.values != nil {
		return c.values.Value(key)
	}
	return c.Context.Value(key)
}

// process sends cmd and waits for its answer, for the end of ctx, or for Close.
//
// go-redis does not look at ctx while it reads, so a command has a goroutine of
// its own that may outlive the call; it ends with go-redis's read timeout. To
// wake that goroutine and to be woken by it costs as much as a fifth of a round
// trip on loopback. So where nobody can cancel, and reading is bounded anyhow,
// the command is sent from here.
func (e *Engine) process(ctx context.Context, cmd redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if a, ok := ctx.(*acked); ok {
		return e.processAcked(a, cmd)
	}
	e.underway.Add(1)
	defer e.underway.Add(-1)
	closed := e.gate.closed
	brief := false
	if clean, ok := ctx.(*cleanup); ok {
		closed, brief = nil, clean.brief
	}
	if p := e.pipeFor(ctx, cmd); p != nil {
		if j := p.add(cmd, nil, brief); j != nil {
			answered, err := e.await(ctx, j.done, closed)
			if answered {
				j.over()
			}
			if !answered || !e.cluster || !elsewhere(err) {
				return err
			}
		}
	}
	switch {
	case brief && e.brief != nil:
		return e.brief.Process(ctx, cmd)
	case ctx.Done() == nil && e.direct != nil:
		return e.direct.Process(ctx, cmd)
	}
	to := e.usual
	if at, ok := ctx.Deadline(); ok && e.brief != nil && time.Until(at) <= returnBound {
		to = e.brief // nobody waits longer: the connection is free again the sooner
	}
	sent := make(chan error, 1)
	go func() {
		err := to.Process(ctx, cmd)
		if err == nil {
			err = cmd.Err() // an asynchronous AutoPipeliner has only queued it: this waits
		}
		sent <- err
	}()
	_, err := e.await(ctx, sent, closed)
	return err
}

// await waits for the outcome of a command, for the end of ctx, or for Close.
func (e *Engine) await(ctx context.Context, done <-chan error, closed <-chan struct{}) (answered bool, err error) {
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

// A processor sends commands: a go-redis client.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// reading returns a client that shares rdb's connections and reads for that long at
// most.
func reading(rdb *redis.Client, most time.Duration) *redis.Client {
	read := rdb.Options().ReadTimeout
	if read <= 0 {
		read = attempt
	}
	return rdb.WithTimeout(min(read, most))
}

// timed sets brief and direct to clients that share rdb's connections and read
// for a bounded time, where go-redis has such; and usual to rdb, or to one of those
// where it would read for ever and keep a connection for nobody.
func (e *Engine) timed() {
	e.usual = e.rdb
	var read time.Duration
	switch rdb := e.rdb.(type) {
	case *redis.Client:
		read = rdb.Options().ReadTimeout
		if e.cfg.Hooked {
			break
		}
		if read <= 0 {
			e.usual = reading(rdb, attempt)
		}
		e.brief, e.direct = reading(rdb, returnBound), reading(rdb, answerWithin)
		if !e.cfg.NoDirect {
			e.own, e.reads = direct.New(rdb), attempt
			if read > 0 {
				e.reads = min(read, attempt)
			}
		}
		return
	case *redis.ClusterClient:
		read = rdb.Options().ReadTimeout
	}
	if read > 0 && read <= attempt {
		e.direct = e.rdb
	}
}
