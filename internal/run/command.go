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

// A scriptCmd is an EVALSHA or EVAL, or a GETRANGE, that go-redis sends only once: go-redis,
// the ClusterClient too, asks a command for NoRetry before it sends the command
// again. The caller decides about retries, because only it knows what a second
// run would do.
type scriptCmd struct{ *redis.Cmd }

// NoRetry tells go-redis not to repeat the command.
func (scriptCmd) NoRetry() bool { return true }

// A Reply is the reply of a script: an integer (Int), an array of integers
// (Ints), or another array (Any).
type Reply struct {
	Int  int64
	Ints []int64
	Any  []any
	got  time.Time
}

// Learn updates the clock with the server time in ms from a script's reply.
func (rn *Runner) Learn(r Reply, serverMs int64) {
	if !r.got.IsZero() {
		rn.Clock.learn(r.got, serverMs)
	}
}

// Head is how many elements Eval needs at the beginning of its arguments.
const Head = 3

// Eval runs a script once. If the server does not know the script, Eval sends
// it a second time with its text. args are Head empty elements, the keys, and
// the arguments of the script. The script must reply with an integer or an
// array. The keys must be in one slot.
//
// A user with read-only rights can run scripts that only read, by EVALSHA_RO
// but not by EVALSHA, which Redis treats as a write to all keys.
//
// Eval returns when ctx ends, or when opts say so, whatever go-redis does. The
// error is then that of ctx, if ctx ended, and the script may have run or may
// still run.
func (rn *Runner) Eval(ctx context.Context, opts Options, s *lua.Script, keys int, args []any) (Reply, error) {
	if rn.ring {
		return Reply{}, both{ErrUnsupported, errRing}
	}
	args[2] = keys
	if s.Reads && rn.readsOnly.Load() {
		return rn.run(ctx, opts, s, args, "evalsha_ro", "eval_ro")
	}
	r, err := rn.run(ctx, opts, s, args, "evalsha", "eval")
	if s.Reads && IsCode(err, "NOPERM") {
		looked, refused := rn.run(ctx, opts, s, slices.Clone(args), "evalsha_ro", "eval_ro")
		if refused == nil {
			rn.readsOnly.Store(true)
			return looked, nil
		}
	}
	return r, err
}

// Text reads the text under a key by a plain command, which for a client that sends its
// reads to replicas may be answered by one. It returns "" if there is no such key.
// Otherwise it behaves as Eval does.
func (rn *Runner) Text(ctx context.Context, opts Options, key string) (string, error) {
	if rn.ring {
		return "", both{ErrUnsupported, errRing}
	}
	cmd := scriptCmd{redis.NewCmd(ctx, "getrange", key, 0, -1)} // GET says that there is none by an error
	if err := rn.send(ctx, opts, cmd); err != nil {
		rn.failed(ctx, err)
		return "", err
	}
	text, ok := cmd.Val().(string)
	if !ok {
		return "", fmt.Errorf("GETRANGE answered %v, which has no meaning", cmd.Val())
	}
	return text, nil
}

// run runs a script by the command bySHA, or, if the server does not know the
// script, by the command byText, which takes the text.
func (rn *Runner) run(ctx context.Context, opts Options, s *lua.Script, args []any, bySHA, byText any) (Reply, error) {
	args[0], args[1] = bySHA, s.Arg()
	r, err := rn.eval(ctx, opts, s, args)
	if err != nil && IsCode(err, "NOSCRIPT") {
		// This is common: a restart, a failover, SCRIPT FLUSH or a new node.
		if rn.known[s.Index].Load() {
			rn.cfg.Suspect()
		}
		again := slices.Clone(args) // go-redis may still read the first
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
		rn.failed(ctx, err)
		return r, err
	}
	if k := &rn.known[s.Index]; !k.Load() {
		k.Store(true)
		rn.answered.Store(true)
	}
	if opts.Replicas == nil { // otherwise the reply came before the replicas had confirmed
		r.got = time.Now()
	}
	return r, r.take(s, cmd.Val())
}

// failed draws the conclusions from the error of a command.
func (rn *Runner) failed(ctx context.Context, err error) {
	rn.noteReply(err)
	rn.reload(ctx, err)
	rn.suspect(err)
}

// noteReply notes that the server has answered, if err is a reply.
func (rn *Runner) noteReply(err error) {
	var reply redis.Error
	if !rn.answered.Load() && errors.As(err, &reply) {
		rn.answered.Store(true)
	}
}

// take decodes the reply of a script.
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

// reload makes a ClusterClient read the state of its cluster again, after an
// error that may mean that a node is gone or is no longer a master. By itself
// it would use that node for up to a minute, which is longer than a lease. The
// error of a replica that may not write, which runs a script for a client with
// ReadOnly, need not start with READONLY.
func (rn *Runner) reload(ctx context.Context, err error) {
	rdb, ok := rn.rdb.(*redis.ClusterClient)
	if !ok {
		return
	}
	var reply redis.Error
	if errors.As(err, &reply) && Classify(err) == Permanent {
		return // any other node would reply the same
	}
	rdb.ReloadState(context.WithoutCancel(ctx)) // in the background, at a limited rate
}

// Unexpected returns the error for a reply that a script never gives.
func Unexpected(s *lua.Script, answer any) error {
	return fmt.Errorf("the script %s answered %v, which has no meaning", s.Name, answer)
}
