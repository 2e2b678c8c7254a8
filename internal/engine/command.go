package engine

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/lua"
)

// A scriptCmd is an EVALSHA or EVAL that go-redis sends once: it asks a command
// for NoRetry before it sends it again, in the ClusterClient too. The engine
// decides about retries, because only it knows what a second run would do.
type scriptCmd struct{ *redis.IntSliceCmd }

// NoRetry tells go-redis not to repeat the command by itself.
func (scriptCmd) NoRetry() bool { return true }

// A Reply is the answer to a script.
type Reply struct {
	Ints      []int64
	sent, got time.Time
}

// Learn takes in the server time in ms that the script told with its answer.
func (e *Engine) Learn(r Reply, serverMs int64) { e.server.learn(r.sent, r.got, serverMs) }

// Eval runs a script once, or, when the server does not know it, a second time
// with its text. Its answer must be an array of integers.
//
// It returns no later than ctx ends, whatever go-redis does; then the error is
// ctx's own, and the script may have run or may run yet. The keys must lie in
// one slot.
func (e *Engine) Eval(ctx context.Context, s *lua.Script, keys []string, args ...any) (Reply, error) {
	if e.ring {
		return Reply{}, both{ErrUnsupported, errRing}
	}
	r, err := e.eval(ctx, "evalsha", s.SHA, keys, args)
	if isCode(err, "NOSCRIPT") {
		// A restart, a failover, SCRIPT FLUSH or a new node: everyday.
		r, err = e.eval(ctx, "eval", s.Source, keys, args)
	}
	return r, err
}

func (e *Engine) eval(ctx context.Context, verb, script string, keys []string, args []any) (Reply, error) {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, verb, script, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	all = append(all, args...)
	cmd := scriptCmd{redis.NewIntSliceCmd(ctx, all...)}
	cmd.SetFirstKeyPos(3)
	r := Reply{sent: time.Now()}
	err := e.process(ctx, cmd)
	if err != nil {
		return r, err
	}
	r.got = time.Now()
	r.Ints = cmd.Val()
	return r, nil
}

// A cleanup is a context under which commands go on although the client is
// being closed: giving back what is held.
type cleanup struct {
	context.Context
	// brief is set where the caller needs the answer soon and has nobody to hand
	// the command to: it is then sent on the caller's goroutine, and read for at
	// most returnBound.
	brief bool
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
	closed := e.gate.closed
	if c, ok := ctx.(cleanup); ok {
		if c.brief && e.brief != nil {
			return e.brief.Process(c.Context, cmd)
		}
		closed = nil
	} else if ctx.Done() == nil && e.direct != nil {
		return e.direct.Process(ctx, cmd)
	}
	done := make(chan error, 1)
	go func() { done <- e.rdb.Process(ctx, cmd) }()
	select {
	case err := <-done:
		// With ContextTimeoutEnabled the end of ctx shows as an i/o timeout.
		if cerr := ctx.Err(); err != nil && cerr != nil && Sort(err) == Maybe {
			return both{cerr, err}
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return ErrClosed
	}
}

// A processor sends commands: a go-redis client.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// timed sets brief and direct to clients that share rdb's connections and read
// for a bounded time, where go-redis has such.
func (e *Engine) timed() {
	switch rdb := e.rdb.(type) {
	case *redis.Client:
		read := rdb.Options().ReadTimeout
		if read <= 0 {
			read = attempt
		}
		e.brief = rdb.WithTimeout(min(read, returnBound))
		e.direct = rdb.WithTimeout(min(read, attempt))
	case *redis.ClusterClient:
		if read := rdb.Options().ReadTimeout; read > 0 && read <= attempt {
			e.direct = rdb
		}
	}
}
