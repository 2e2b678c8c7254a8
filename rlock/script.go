package rlock

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/lua"
)

// scripts runs the scripts of one lock. Only this file knows the order of KEYS
// and ARGV.
type scripts struct {
	key     string
	channel string
	token   string // empty when the lock is not fenced
	quiet   bool   // publishes nothing

	keyArg, channelArg any // the same, ready to be sent
}

func newScripts(key string, cfg config) *scripts {
	s := &scripts{key: key, channel: engine.Prefixed("redisson_lock__channel", key), quiet: cfg.spin}
	if cfg.fenced {
		s.token = engine.TokenKey(key)
	}
	s.keyArg, s.channelArg = s.key, s.channel
	return s
}

func (s *scripts) spec(name string, cfg config) *engine.Spec {
	spec := &engine.Spec{
		Kind:         "rlock",
		Name:         name,
		Key:          s.key,
		Scope:        s.key,
		Line:         s.channel,
		Channel:      s.channel,
		Poll:         cfg.poll(),
		NonReentrant: cfg.nonReentrant,
		HandsOn:      !cfg.spin,
		Fenced:       cfg.fenced,
		Keys:         []string{s.key, engine.LabelKey(s.key, ""), s.channel},
		Scripts:      s,
	}
	if s.token != "" {
		spec.Keys = append(spec.Keys, s.token)
	}
	if cfg.spin {
		spec.Line, spec.Channel = "spin "+s.key, ""
	}
	return spec
}

func (s *scripts) verb(e *engine.Engine) string {
	if s.quiet {
		return "NONE"
	}
	return e.Verb()
}

// args returns room for keys and arguments, n of them, with the lock as the
// first key.
func (s *scripts) args(n int) []any {
	return append(make([]any, engine.Head, engine.Head+n), s.keyArg)
}

// Acquire runs rlock/acquire.
func (s *scripts) Acquire(ctx context.Context, e *engine.Engine, r *engine.Request) (engine.Grant, error) {
	keys, args := 1, s.args(10)
	fenced := s.token != ""
	if fenced {
		keys, args = keys+1, append(args, s.token)
	}
	if r.Label != "" {
		keys, args = keys+1, append(args, engine.LabelKey(s.key, r.Holder))
	}
	args = append(args, r.Holder, r.Count, r.Lease.Milliseconds(), r.Deadline.NotAfter, r.Deadline.Ahead)
	switch {
	case fenced:
		args = append(args, 1, r.Label)
	case r.Label != "":
		args = append(args, 0, r.Label)
	}
	reply, err := e.Eval(ctx, lua.RLockAcquire, keys, args)
	switch {
	case err != nil:
		return engine.Grant{}, err
	case reply.Ints == nil:
		e.Learn(reply, reply.Int)
		return engine.Grant{Verdict: engine.Granted, Left: r.Lease}, nil
	}
	if len(reply.Ints) == 4 {
		if verdict, ok := acquireVerdicts[reply.Ints[0]]; ok {
			e.Learn(reply, reply.Ints[2])
			left := reply.Ints[1]
			if left == 0 && verdict == engine.Refused {
				left = 1 // its last millisecond, which is not unknown
			}
			return engine.Grant{Verdict: verdict, Left: millis(max(left, 0)), Token: reply.Ints[3]}, nil
		}
	}
	return engine.Grant{}, engine.Unexpected(lua.RLockAcquire, reply.Ints)
}

var acquireVerdicts = map[int64]engine.Verdict{
	1: engine.Granted, 0: engine.Refused, -1: engine.Gone, -2: engine.Late,
}

// Release runs rlock/release, or rlock/pass when there is an heir.
func (s *scripts) Release(ctx context.Context, e *engine.Engine, r *engine.Return) (engine.Verdict, error) {
	if r.Heir != nil {
		return s.pass(ctx, e, r)
	}
	keys, args := 1, s.args(9)
	if r.Label != "" {
		keys, args = keys+1, append(args, engine.LabelKey(s.key, r.Holder))
	}
	args = append(args, r.Holder, r.Count, r.Deadline.NotAfter, r.Deadline.Ahead, s.channelArg, s.verb(e))
	if r.Linger > 0 {
		args = append(args, r.Linger.Milliseconds(), r.LingerAs)
	}
	reply, err := e.Eval(ctx, lua.RLockRelease, keys, args)
	switch {
	case err != nil:
		return 0, err
	case reply.Ints == nil && reply.Int >= 1:
		r.Heard = int(reply.Int) - 1
		return engine.Granted, nil
	}
	if len(reply.Ints) == 3 {
		if verdict, ok := releaseVerdicts[reply.Ints[0]]; ok {
			if r.Deadline.NotAfter > 0 {
				e.Learn(reply, reply.Ints[2])
			}
			return verdict, nil
		}
	}
	return 0, engine.Unexpected(lua.RLockRelease, reply.Ints)
}

var releaseVerdicts = map[int64]engine.Verdict{
	1: engine.Granted, 2: engine.Already, -1: engine.Gone, -2: engine.Late,
}

// pass runs rlock/pass.
func (s *scripts) pass(ctx context.Context, e *engine.Engine, r *engine.Return) (engine.Verdict, error) {
	keys, args := 1, s.args(9)
	if s.token != "" {
		keys, args = keys+1, append(args, s.token)
	}
	args = append(args, r.Holder, r.Heir.Holder, r.Heir.Count, r.Heir.Lease.Milliseconds(), r.Deadline.NotAfter, r.Deadline.Ahead)
	if s.token != "" {
		args = append(args, 1)
	}
	reply, err := e.Eval(ctx, lua.RLockPass, keys, args)
	if err != nil {
		return 0, err
	}
	if len(reply.Ints) == 3 {
		if verdict, ok := releaseVerdicts[reply.Ints[0]]; ok {
			e.Learn(reply, reply.Ints[1])
			r.Given, r.Token = verdict == engine.Granted, reply.Ints[2]
			return verdict, nil
		}
	}
	return 0, engine.Unexpected(lua.RLockPass, reply.Ints)
}

// RenewKind names rlock/renew.
func (*scripts) RenewKind() string { return "rlock" }

// Renew runs rlock/renew for locks of any name.
func (*scripts) Renew(ctx context.Context, e *engine.Engine, batch []engine.Renewal, d engine.Deadline) ([]watchdog.Result, error) {
	return e.RenewLocks(ctx, batch, d)
}

// force runs rlock/force.
func (s *scripts) force(ctx context.Context, e *engine.Engine) (bool, error) {
	reply, err := e.Eval(ctx, lua.RLockForce, 1, append(s.args(3), s.channelArg, s.verb(e)))
	return reply.Int == 1, err
}

// A state is what rlock/state tells.
type state struct {
	all, mine int
	left      time.Duration
	token     int64
}

// state runs rlock/state.
func (s *scripts) state(ctx context.Context, e *engine.Engine, holder string) (state, error) {
	keys, args := 1, s.args(3)
	if s.token != "" {
		keys, args = keys+1, append(args, s.token)
	}
	reply, err := e.Eval(ctx, lua.RLockState, keys, append(args, holder))
	if err != nil {
		return state{}, err
	}
	if len(reply.Ints) != 4 {
		return state{}, engine.Unexpected(lua.RLockState, reply.Ints)
	}
	st := state{all: int(reply.Ints[0]), mine: int(reply.Ints[1]), token: reply.Ints[3]}
	switch left := reply.Ints[2]; {
	case left >= 0:
		st.left = millis(left)
	case left == -1:
		st.left = -1
	}
	return st, nil
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
