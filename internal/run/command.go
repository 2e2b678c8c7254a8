package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/lua"
)

// A scriptCmd is an EVALSHA or EVAL that go-redis sends once: it asks a command
// for NoRetry before it sends it again, in the ClusterClient too. The caller
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
func (rn *Runner) Learn(r Reply, serverMs int64) {
	if !r.got.IsZero() {
		rn.Clock.learn(r.got, serverMs)
	}
}

// Head is how many places Eval needs at the beginning of its arguments.
const Head = 3

// Eval runs a script once, or, when the server does not know it, a second time
// with its text. args are Head empty places, that many keys, and the arguments
// of the script. It must answer with an integer or an array.
//
// A user who may only look may run scripts that only read, by EVALSHA_RO, and not by
// EVALSHA, which Redis takes for a write to all its keys.
//
// It returns no later than ctx ends, or what opts say, whatever go-redis does; then the
// script may have run or may run yet, and the error is that of ctx, if that ended. The
// keys must lie in one slot.
func (rn *Runner) Eval(ctx context.Context, opts Options, s *lua.Script, keys int, args []any) (Reply, error) {
	if rn.ring {
		return Reply{}, both{ErrUnsupported, errRing}
	}
	args[2] = keys
	if s.Reads && rn.onlyLooks.Load() {
		return rn.run(ctx, opts, s, args, "evalsha_ro", "eval_ro")
	}
	r, err := rn.run(ctx, opts, s, args, "evalsha", "eval")
	if s.Reads && IsCode(err, "NOPERM") {
		looked, refused := rn.run(ctx, opts, s, slices.Clone(args), "evalsha_ro", "eval_ro")
		if refused == nil {
			rn.onlyLooks.Store(true)
			return looked, nil
		}
	}
	return r, err
}

// run runs a script by one command, or, when the server does not know the script, by the
// other, which takes its text. Their names are ready to be sent.
func (rn *Runner) run(ctx context.Context, opts Options, s *lua.Script, args []any, bySHA, byText any) (Reply, error) {
	args[0], args[1] = bySHA, s.Arg()
	r, err := rn.eval(ctx, opts, s, args)
	if err != nil && IsCode(err, "NOSCRIPT") {
		// A restart, a failover, SCRIPT FLUSH or a new node: everyday.
		if rn.known[s.Index].Load() {
			rn.cfg.Suspect()
		}
		again := slices.Clone(args) // the first may still be read by go-redis
		again[0], again[1] = byText, s.Source
		r, err = rn.eval(ctx, opts, s, again)
	}
	return r, err
}

func (rn *Runner) eval(ctx context.Context, opts Options, s *lua.Script, args []any) (r Reply, err error) {
	cmd := scriptCmd{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(Head)
	err = rn.send(ctx, opts, cmd)
	if err != nil {
		rn.hears(err)
		rn.reload(ctx, err)
		rn.suspect(err)
		return r, err
	}
	if k := &rn.known[s.Index]; !k.Load() {
		k.Store(true)
		rn.answered.Store(true)
	}
	if opts.Replicas == nil { // else it came before the replicas had confirmed
		r.got = time.Now()
	}
	return r, r.take(s, cmd.Val())
}

// hears notes that the server has answered, if err is what it said.
func (rn *Runner) hears(err error) {
	var reply redis.Error
	if !rn.answered.Load() && errors.As(err, &reply) {
		rn.answered.Store(true)
	}
}

// take sorts what a script has answered.
func (r *Reply) take(s *lua.Script, answer any) error {
	switch answer := answer.(type) {
	case int64:
		r.Int = answer
	case []any:
		r.Ints = make([]int64, len(answer))
		for i, x := range answer {
			n, ok := x.(int64)
			if !ok {
				r.Ints, r.Any = nil, answer
				break
			}
			r.Ints[i] = n
		}
	default:
		return Unexpected(s, answer)
	}
	return nil
}

// reload makes a ClusterClient look at its cluster again after an error that may
// mean that a node is gone, or no master any more: by itself it would go on asking that
// node for a minute, which is longer than a lease. A replica that runs a script for a
// client with ReadOnly says in its own words that it may not write.
func (rn *Runner) reload(ctx context.Context, err error) {
	rdb, ok := rn.rdb.(*redis.ClusterClient)
	if !ok {
		return
	}
	var reply redis.Error
	if errors.As(err, &reply) && Classify(err) == Permanent {
		return // any other node would say so
	}
	rdb.ReloadState(context.WithoutCancel(ctx)) // in the background, and not too often
}

// Unexpected is the error of an answer that a script never gives.
func Unexpected(s *lua.Script, answer any) error {
	return fmt.Errorf("the script %s answered %v, which has no meaning", s.Name, answer)
}
