package countdownlatch

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/lua"
)

// scripts runs the scripts of one latch. Only this file knows the order of KEYS
// and ARGV.
type scripts struct {
	key     string
	channel string
	ended   string
}

func newScripts(e *engine.Engine, key string) *scripts {
	return &scripts{key: key, channel: e.LatchChannel(key), ended: names.Ours("latchkey_ended", key)}
}

// spec returns the spec of a wait in one of the latch's lines.
func (s *scripts) spec(name, line string) *engine.Spec {
	return &engine.Spec{
		Kind:     "countdownlatch",
		Name:     name,
		Key:      s.key,
		Line:     line + s.key,
		Channel:  s.channel,
		Shared:   true,
		Together: true,
		Poll:     wait.Backoff{Initial: 10 * time.Millisecond, Max: 250 * time.Millisecond, Multiplier: 2},
		Keys:     []string{s.key, s.ended, names.Ours("latchkey_claim", s.key), s.channel},
	}
}

// keep is how long the scripts remember requests and ends, as an argument.
var keep any = engine.Remembered.Milliseconds()

// args returns arguments that begin with the latch as the first key, with room
// for n.
func (s *scripts) args(n int) []any {
	return append(make([]any, run.Head, run.Head+n), s.key)
}

// set runs countdownlatch/set.
func (s *scripts) set(ctx context.Context, e *engine.Engine, opts run.Options, r *request, n int64) (engine.Status, error) {
	return s.run(ctx, e, opts, lua.LatchSet, 2, append(s.args(9), r.claim, n, r.ticket.Number, keep,
		r.deadline.NotAfter, r.deadline.Ahead, s.channel, e.Verb()))
}

// countDown runs countdownlatch/countdown.
func (s *scripts) countDown(ctx context.Context, e *engine.Engine, opts run.Options, r *request) (engine.Status, error) {
	return s.run(ctx, e, opts, lua.LatchCountDown, 3, append(s.args(9), r.claim, s.ended, r.ticket.Number, keep,
		r.deadline.NotAfter, r.deadline.Ahead, s.channel, e.Verb()))
}

// run runs a script that replies with a status and the server's time.
func (s *scripts) run(ctx context.Context, e *engine.Engine, opts run.Options, script *lua.Script, keys int, args []any) (engine.Status, error) {
	reply, err := e.Eval(ctx, opts, script, keys, args)
	if err != nil {
		return 0, err
	}
	if len(reply.Ints) != 2 {
		return 0, run.Unexpected(script, reply.Ints)
	}
	e.Learn(reply, reply.Ints[1])
	switch reply.Ints[0] {
	case 1:
		return engine.Granted, nil
	case 0:
		return engine.Refused, nil
	}
	return engine.PastDeadline, nil
}

// delete runs countdownlatch/delete.
func (s *scripts) delete(ctx context.Context, e *engine.Engine, opts run.Options) (bool, error) {
	reply, err := e.Eval(ctx, opts, lua.LatchDelete, 2, append(s.args(5), s.ended, keep, s.channel, e.Verb()))
	return reply.Int == 1, err
}

// A state is the reply of countdownlatch/state.
type state struct {
	left    int64
	running bool
	ended   int64 // when a count last ended, in µs since the epoch by the server's clock; 0 if not within the last minute
}

// state runs countdownlatch/state.
func (s *scripts) state(ctx context.Context, e *engine.Engine, opts run.Options) (state, error) {
	reply, err := e.Eval(ctx, opts, lua.LatchState, 2, append(s.args(2), s.ended))
	if err != nil {
		return state{}, err
	}
	n := reply.Ints
	if len(n) != 4 {
		return state{}, run.Unexpected(lua.LatchState, n)
	}
	return state{left: n[0], running: n[1] == 1, ended: n[2]}, nil
}
