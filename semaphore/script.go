package semaphore

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/lua"
)

// scripts runs the scripts of one semaphore. Only this file knows the order of
// KEYS and ARGV.
type scripts struct {
	key     string
	channel string

	keyArg, channelArg any // the same values as arguments
}

func newScripts(key string) *scripts {
	s := &scripts{key: key, channel: names.Prefixed("redisson_sc", key)}
	s.keyArg, s.channelArg = s.key, s.channel
	return s
}

func (s *scripts) spec(name string) *engine.Spec {
	return &engine.Spec{
		Kind:    "semaphore",
		Name:    name,
		Key:     s.key,
		Line:    "semaphore " + s.channel,
		Channel: s.channel,
		Shared:  true,
		Poll:    wait.Backoff{Initial: 10 * time.Millisecond, Max: 250 * time.Millisecond, Multiplier: 2},
		Keys:    []string{s.key, names.Ours("latchkey_claim", s.key), s.channel},
	}
}

// keep is how long the scripts remember requests, as an argument.
var keep any = engine.Remembered.Milliseconds()

// args returns arguments that begin with the semaphore as the first key, with
// room for n.
func (s *scripts) args(n int) []any {
	return append(make([]any, run.Head, run.Head+n), s.keyArg)
}

// acquire runs semaphore/acquire.
func (s *scripts) acquire(ctx context.Context, e *engine.Engine, opts run.Options, w *want) (engine.Answer, error) {
	args := append(s.args(7), w.claim, w.n, w.number, keep, w.deadline.NotAfter, w.deadline.Ahead)
	reply, err := e.Eval(ctx, opts, lua.SemaphoreAcquire, 2, args)
	switch {
	case err != nil:
		return engine.Answer{}, err
	case reply.Ints == nil:
		e.Learn(reply, reply.Int)
		return engine.Answer{Status: engine.Granted}, nil
	}
	got, err := ints(e, lua.SemaphoreAcquire, reply, 3)
	if err != nil {
		return engine.Answer{}, err
	}
	return engine.Answer{Status: status(got[0]), Last: got[1] <= 0}, nil
}

// acquireMany runs semaphore/acquire_many for w and the others after it.
func (s *scripts) acquireMany(ctx context.Context, e *engine.Engine, opts run.Options, w *want, others []engine.Want) (ans engine.Answer, served int, err error) {
	args := append(s.args(7+3*len(others)), w.claim)
	for _, o := range others {
		args = append(args, o.(*want).claim)
	}
	keys := len(args) - run.Head
	args = append(args, keep, w.deadline.NotAfter, w.deadline.Ahead, w.n, w.number)
	for _, o := range others {
		o := o.(*want)
		args = append(args, o.n, o.number)
	}
	reply, err := e.Eval(ctx, opts, lua.SemaphoreAcquireMany, keys, args)
	if err != nil {
		return ans, 0, err
	}
	got, err := ints(e, lua.SemaphoreAcquireMany, reply, 3)
	switch {
	case err != nil:
		return ans, 0, err
	case got[0] <= 0:
		return engine.Answer{Status: status(got[0])}, 0, nil
	}
	return engine.Answer{Status: engine.Granted, Last: got[1] <= 0}, int(got[0]) - 1, nil
}

// release runs semaphore/release.
func (s *scripts) release(ctx context.Context, e *engine.Engine, opts run.Options, r *request, n int, existing bool) (engine.Status, error) {
	args := append(s.args(10), r.claim, n, r.number, keep, r.deadline.NotAfter, r.deadline.Ahead, s.channelArg, e.Verb())
	if existing {
		args = append(args, 1)
	}
	reply, err := e.Eval(ctx, opts, lua.SemaphoreRelease, 2, args)
	switch {
	case err != nil:
		return 0, err
	case reply.Ints == nil:
		e.Learn(reply, reply.Int)
		return engine.Granted, nil
	}
	got, err := ints(e, lua.SemaphoreRelease, reply, 2)
	if err != nil {
		return 0, err
	}
	return status(got[0]), nil
}

// undo runs semaphore/undo.
func (s *scripts) undo(ctx context.Context, e *engine.Engine, opts run.Options, w *want) (engine.Status, error) {
	args := append(s.args(7), w.claim, w.n, w.number, keep, s.channelArg, e.Verb())
	reply, err := e.Eval(ctx, opts, lua.SemaphoreUndo, 2, args)
	switch {
	case err != nil:
		return 0, err
	case reply.Int == 1:
		return engine.Granted, nil
	}
	return engine.Unchanged, nil
}

// set runs semaphore/set.
func (s *scripts) set(ctx context.Context, e *engine.Engine, opts run.Options, r *request, n int, ttl time.Duration) (engine.Status, error) {
	args := append(s.args(10), r.claim, n, r.number, keep, r.deadline.NotAfter, r.deadline.Ahead,
		s.channelArg, e.Verb(), ttl.Milliseconds())
	reply, err := e.Eval(ctx, opts, lua.SemaphoreSet, 2, args)
	if err != nil {
		return 0, err
	}
	got, err := ints(e, lua.SemaphoreSet, reply, 2)
	if err != nil {
		return 0, err
	}
	return status(got[0]), nil
}

// drain runs semaphore/drain.
func (s *scripts) drain(ctx context.Context, e *engine.Engine, opts run.Options, r *request) (int, engine.Status, error) {
	args := append(s.args(6), r.claim, r.number, keep, r.deadline.NotAfter, r.deadline.Ahead)
	reply, err := e.Eval(ctx, opts, lua.SemaphoreDrain, 2, args)
	if err != nil {
		return 0, 0, err
	}
	got, err := ints(e, lua.SemaphoreDrain, reply, 3)
	if err != nil {
		return 0, 0, err
	}
	return int(got[1]), status(got[0]), nil
}

// delete runs semaphore/delete.
func (s *scripts) delete(ctx context.Context, e *engine.Engine, opts run.Options) (bool, error) {
	reply, err := e.Eval(ctx, opts, lua.SemaphoreDelete, 1, s.args(1))
	return reply.Int == 1, err
}

// state runs semaphore/state.
func (s *scripts) state(ctx context.Context, e *engine.Engine, opts run.Options) (int, error) {
	reply, err := e.Eval(ctx, opts, lua.SemaphoreState, 1, s.args(1))
	return int(reply.Int), err
}

// ints returns the n integers of a script's reply. The last of them is the
// server's time.
func ints(e *engine.Engine, script *lua.Script, r run.Reply, n int) ([]int64, error) {
	if len(r.Ints) != n {
		return nil, run.Unexpected(script, r.Ints)
	}
	e.Learn(r, r.Ints[n-1])
	return r.Ints, nil
}

func status(answer int64) engine.Status {
	switch answer {
	case 1:
		return engine.Granted
	case 0:
		return engine.Refused
	}
	return engine.PastDeadline
}
