package rlock

import (
	"context"
	"fmt"
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
}

func newScripts(key string, cfg config) scripts {
	s := scripts{key: key, channel: engine.Prefixed("redisson_lock__channel", key), quiet: cfg.spin}
	if cfg.fenced {
		s.token = engine.Prefixed("redisson_lock_token", key)
	}
	return s
}

func (s scripts) spec(name string, cfg config) *engine.Spec {
	spec := &engine.Spec{
		Kind:         "rlock",
		Name:         name,
		Key:          s.key,
		Scope:        s.key,
		Line:         s.channel,
		Channel:      s.channel,
		Poll:         cfg.poll(),
		NonReentrant: cfg.nonReentrant,
		Keys:         []string{s.key, labelKey(s.key, ""), s.channel},
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

// labelKey returns the key of a holder's label.
func labelKey(key, holder string) string {
	return engine.Prefixed("latchkey_label", key) + ":" + holder
}

func (s scripts) verb(e *engine.Engine) string {
	if s.quiet {
		return "NONE"
	}
	return e.Verb()
}

// Acquire runs rlock/acquire.
func (s scripts) Acquire(ctx context.Context, e *engine.Engine, r *engine.Request) (engine.Grant, error) {
	keys := append(make([]string, 0, 3), s.key)
	args := append(make([]any, 0, 7), r.Holder, r.Count, r.Lease.Milliseconds(), r.Deadline.NotAfter, r.Deadline.Ahead)
	fenced := 0
	if s.token != "" {
		keys, fenced = append(keys, s.token), 1
	}
	if fenced == 1 || r.Label != "" {
		args = append(args, fenced)
	}
	if r.Label != "" {
		keys = append(keys, labelKey(s.key, r.Holder))
		args = append(args, r.Label)
	}
	reply, err := e.Eval(ctx, lua.RLockAcquire, keys, args...)
	if err != nil {
		return engine.Grant{}, err
	}
	if len(reply.Ints) != 4 {
		return engine.Grant{}, unexpected("rlock/acquire", reply.Ints)
	}
	status, left, token := reply.Ints[0], reply.Ints[1], reply.Ints[3]
	e.Learn(reply, reply.Ints[2])
	verdict, ok := acquireVerdicts[status]
	if !ok {
		return engine.Grant{}, unexpected("rlock/acquire", reply.Ints)
	}
	return engine.Grant{Verdict: verdict, Left: millis(max(left, 0)), Token: token}, nil
}

var acquireVerdicts = map[int64]engine.Verdict{
	1: engine.Granted, 0: engine.Refused, -1: engine.Gone, -2: engine.Late,
}

// Release runs rlock/release.
func (s scripts) Release(ctx context.Context, e *engine.Engine, r *engine.Return) (engine.Verdict, error) {
	keys := append(make([]string, 0, 2), s.key)
	if r.Label != "" {
		keys = append(keys, labelKey(s.key, r.Holder))
	}
	args := append(make([]any, 0, 8), r.Holder, r.Count, r.Deadline.NotAfter, r.Deadline.Ahead, s.channel, s.verb(e))
	if r.Linger > 0 {
		args = append(args, r.Linger.Milliseconds(), r.LingerAs)
	}
	reply, err := e.Eval(ctx, lua.RLockRelease, keys, args...)
	if err != nil {
		return 0, err
	}
	if len(reply.Ints) != 3 {
		return 0, unexpected("rlock/release", reply.Ints)
	}
	e.Learn(reply, reply.Ints[2])
	verdict, ok := releaseVerdicts[reply.Ints[0]]
	if !ok {
		return 0, unexpected("rlock/release", reply.Ints)
	}
	return verdict, nil
}

var releaseVerdicts = map[int64]engine.Verdict{
	1: engine.Granted, 2: engine.Already, -1: engine.Gone, -2: engine.Late,
}

// RenewKind names rlock/renew.
func (scripts) RenewKind() string { return "rlock" }

// Renew runs rlock/renew for locks of any name.
func (scripts) Renew(ctx context.Context, e *engine.Engine, batch []engine.Renewal, d engine.Deadline) ([]watchdog.Result, error) {
	keys := make([]string, 0, len(batch))
	args := append(make([]any, 0, 2+2*len(batch)), d.NotAfter, d.Ahead)
	for _, r := range batch {
		keys = append(keys, r.Key)
		args = append(args, r.Holder, r.Lease.Milliseconds())
		if r.Label != "" {
			keys = append(keys, labelKey(r.Key, r.Holder))
			args = append(args, "", r.Lease.Milliseconds())
		}
	}
	reply, err := e.Eval(ctx, lua.RLockRenew, keys, args...)
	if err != nil {
		return nil, err
	}
	if n := len(reply.Ints); n != 1 && n != 1+len(keys) {
		return nil, unexpected("rlock/renew", reply.Ints)
	}
	e.Learn(reply, reply.Ints[0])
	if len(reply.Ints) == 1 {
		return nil, nil
	}
	results := make([]watchdog.Result, len(batch))
	next := 1
	for i, r := range batch {
		results[i] = renewResult(reply.Ints[next])
		next++
		if r.Label != "" {
			next++
		}
	}
	return results, nil
}

func renewResult(answer int64) watchdog.Result {
	switch answer {
	case 1:
		return watchdog.Extended
	case 0:
		return watchdog.NotOurs
	}
	return watchdog.Failed
}

// force runs rlock/force.
func (s scripts) force(ctx context.Context, e *engine.Engine) (bool, error) {
	reply, err := e.Eval(ctx, lua.RLockForce, []string{s.key}, s.channel, s.verb(e))
	if err != nil {
		return false, err
	}
	if len(reply.Ints) != 1 {
		return false, unexpected("rlock/force", reply.Ints)
	}
	return reply.Ints[0] == 1, nil
}

// A state is what rlock/state tells.
type state struct {
	all, mine int
	left      time.Duration
	token     int64
}

// state runs rlock/state.
func (s scripts) state(ctx context.Context, e *engine.Engine, holder string) (state, error) {
	keys := append(make([]string, 0, 2), s.key)
	if s.token != "" {
		keys = append(keys, s.token)
	}
	reply, err := e.Eval(ctx, lua.RLockState, keys, holder)
	if err != nil {
		return state{}, err
	}
	if len(reply.Ints) != 4 {
		return state{}, unexpected("rlock/state", reply.Ints)
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

func unexpected(script string, ints []int64) error {
	return fmt.Errorf("the script %s answered %v, which has no meaning", script, ints)
}
