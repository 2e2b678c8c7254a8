package rlock

import (
	"context"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/lua"
)

// scripts runs the scripts of one lock. Only this file knows the order of KEYS
// and ARGV.
type scripts struct {
	key     string
	channel string
	list    string // see engine.Spec.List
	token   string // empty when the lock is not fenced
	quiet   bool   // a release publishes nothing

	keyArg, listArg, channelArg any // the same values as arguments
}

func newScripts(key string, cfg config) *scripts {
	s := &scripts{key: key, channel: names.Prefixed("redisson_lock__channel", key), quiet: cfg.spin}
	if cfg.fenced {
		s.token = names.Token(key)
	}
	if !cfg.spin && !strings.HasPrefix(key, "{") { // otherwise "{a}" could have the waitlist of "a"
		s.list = names.Prefixed("latchkey_next", key)
	}
	s.keyArg, s.listArg, s.channelArg = s.key, s.list, s.channel
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
		List:         s.list,
		Keys:         []string{s.key, names.Label(s.key, ""), s.channel},
		Scripts:      s,
	}
	if s.token != "" {
		spec.Keys = append(spec.Keys, s.token)
	}
	if s.list != "" {
		spec.Keys = append(spec.Keys, s.list)
	}
	if cfg.spin {
		spec.Line, spec.Channel = "spin "+s.key, ""
	}
	return spec
}

func (s *scripts) verb(e *engine.Engine) any {
	if s.quiet {
		return "NONE"
	}
	return e.Verb()
}

// args returns arguments that begin with the lock as the first key, with room
// for n.
func (s *scripts) args(n int) []any {
	return append(make([]any, run.Head, run.Head+n), s.keyArg)
}

// Acquire runs rlock/acquire.
func (s *scripts) Acquire(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Request) (engine.Grant, error) {
	fenced, lists := s.token != "", r.Entry != "" || len(r.Unlist) > 0
	room := 6
	if fenced || lists || r.Label != "" {
		room = 13 + len(r.Unlist)
	} else if r.Count == 1 {
		if g, done, err := s.acquireMany(ctx, e, opts, r); done || err != nil {
			return g, err
		}
	}
	keys, args := 1, s.args(room)
	if fenced {
		keys, args = keys+1, append(args, s.token)
	}
	if lists {
		keys, args = keys+1, append(args, s.listArg)
	}
	if r.Label != "" {
		keys, args = keys+1, append(args, names.Label(s.key, r.Holder))
	}
	args = append(args, r.Holder, r.Count, r.Lease.Milliseconds(), r.Deadline.NotAfter, r.Deadline.Ahead)
	switch {
	case fenced:
		args = append(args, 1, r.Label)
	case r.Label != "", lists:
		args = append(args, 0, r.Label)
	}
	if lists {
		args = appendTexts(append(args, r.Entry, engine.ListKept()), r.Unlist)
	}
	reply, err := e.Eval(ctx, opts, lua.RLockAcquire, keys, args)
	switch {
	case err != nil:
		return engine.Grant{}, err
	case reply.Ints == nil:
		e.Learn(reply, reply.Int)
		return engine.Grant{Status: engine.Granted, Left: r.Lease}, nil
	}
	if len(reply.Ints) == 4 {
		if status, ok := acquireStatuses[reply.Ints[0]]; ok {
			e.Learn(reply, reply.Ints[2])
			return engine.Grant{Status: status, Left: engine.LeaseLeft(reply.Ints[1]), Token: reply.Ints[3], Server: reply.Ints[2]}, nil
		}
	}
	return engine.Grant{}, run.Unexpected(lua.RLockAcquire, reply.Ints)
}

// acquireMany runs the request in a batch of rlock/acquire_many. done is false
// if the batch did not settle it.
func (s *scripts) acquireMany(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Request) (g engine.Grant, done bool, err error) {
	if !e.Crowded() {
		return g, false, nil
	}
	part := run.BatchRequest{Script: lua.RLockAcquireMany, Deadline: r.Deadline}
	part.SharedArgs[0] = r.Lease.Milliseconds()
	part.Keys[0], part.Args[0] = s.keyArg, r.Holder
	return e.AcquireMany(ctx, opts, &part, r.Lease)
}

// acquireStatuses are those of rlock/acquire and rlock/pass.
var acquireStatuses = map[int64]engine.Status{
	1: engine.Granted, 0: engine.Refused, -1: engine.NotHolder, -2: engine.PastDeadline,
}

// Release runs rlock/release, or rlock/pass if an heir gets the lock before all
// waiters.
func (s *scripts) Release(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Return) (engine.Status, error) {
	if r.Heir != nil && r.Heir.Entry == "" {
		return s.pass(ctx, e, opts, r)
	}
	gives := r.Count == 0 && !r.Alone && e.Gives(s.list) && (r.Linger == 0 || len(r.Unlist) > 0)
	more := r.Linger > 0 || r.Label != "" || s.token != "" || gives && (r.Heir != nil || len(r.Unlist) > 0 || r.Listens)
	room := 8
	if more {
		room = 16 + len(r.Unlist)
	} else if r.Count == 0 {
		if done, err := s.releaseMany(ctx, e, opts, r, gives); done || err != nil {
			return engine.Granted, err
		}
	}
	keys, args := 1, s.args(room)
	if gives {
		keys, args = keys+1, append(args, s.listArg)
		if s.token != "" {
			keys, args = keys+1, append(args, s.token)
		}
	}
	if r.Label != "" {
		keys, args = keys+1, append(args, names.Label(s.key, r.Holder))
	}
	args = append(args, r.Holder, r.Count, r.Deadline.NotAfter, r.Deadline.Ahead, s.channelArg, s.verb(e))
	switch {
	case r.Linger > 0:
		args = append(args, r.Linger.Milliseconds(), r.LingerAs, 0, bit(r.Label != ""))
		if gives {
			args = appendTexts(append(args, 0, 0), r.Unlist)
		}
	case gives && (r.Heir != nil || len(r.Unlist) > 0 || r.Listens):
		entry := ""
		if r.Heir != nil {
			entry = r.Heir.Entry
		}
		args = append(args, 0, entry, bit(s.token != ""), bit(r.Label != ""), bit(r.Listens), engine.ListKept())
		args = appendTexts(args, r.Unlist)
	case r.Label != "" || gives && s.token != "":
		args = append(args, 0, "", bit(gives && s.token != ""), bit(r.Label != ""))
	}
	reply, err := e.Eval(ctx, opts, lua.RLockRelease, keys, args)
	switch {
	case err != nil:
		return 0, err
	case reply.Ints == nil && reply.Int >= 1:
		r.Heard = int(reply.Int) - 1
		return engine.Granted, nil
	}
	if len(reply.Ints) == 3 {
		if status, ok := releaseStatuses[reply.Ints[0]]; ok {
			if reply.Ints[2] > 0 {
				e.Learn(reply, reply.Ints[2])
			}
			switch reply.Ints[0] {
			case 3:
				r.Given, r.Token = true, reply.Ints[1]
			case 4:
				r.Listed = reply.Ints[2]
			case 5:
				r.Listed, r.Heard = reply.Ints[2], int(reply.Ints[1])
			}
			return status, nil
		}
	}
	return 0, run.Unexpected(lua.RLockRelease, reply.Ints)
}

// releaseMany runs the request in a batch of rlock/release_many. done is false
// if the batch did not settle it.
func (s *scripts) releaseMany(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Return, gives bool) (done bool, err error) {
	if !e.Crowded() {
		return false, nil
	}
	verb := s.verb(e)
	if verb != "PUBLISH" && verb != "NONE" {
		return false, nil
	}
	part := run.BatchRequest{Script: lua.RLockReleaseMany, Deadline: r.Deadline}
	part.SharedArgs[0] = verb
	part.Keys[0], part.Args[0], part.Args[1] = s.keyArg, r.Holder, s.channelArg
	if gives {
		part.Keys[1] = s.listArg
	}
	n, err := e.EvalMany(ctx, opts, &part)
	if err != nil || n < 1 {
		return false, err
	}
	r.Heard = int(n) - 1
	return true, nil
}

var releaseStatuses = map[int64]engine.Status{
	1: engine.Granted, 3: engine.Granted, 4: engine.Granted, 5: engine.Granted, 2: engine.Unchanged, -1: engine.NotHolder, -2: engine.PastDeadline,
}

// appendTexts appends texts as arguments.
func appendTexts(args []any, texts []string) []any {
	for _, x := range texts {
		args = append(args, x)
	}
	return args
}

// bit returns yes as an argument of the scripts.
func bit(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// pass runs rlock/pass.
func (s *scripts) pass(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Return) (engine.Status, error) {
	keys, args := 1, s.args(14+len(r.Unlist))
	if r.Heir.Tokens > 0 {
		keys, args = keys+1, append(args, s.token)
	}
	channel := ""
	if claim := r.Claim; claim != nil {
		channel = claim.Channel
		keys, args = keys+1, append(args, claim.Key)
	}
	if len(r.Unlist) > 0 {
		keys, args = keys+1, append(args, s.listArg)
	}
	args = append(args, r.Holder, r.Heir.Holder, r.Heir.Lease.Milliseconds(), r.Deadline.NotAfter, r.Deadline.Ahead)
	var tokens any = ""
	if r.Heir.Tokens > 0 {
		tokens = r.Heir.Tokens
	}
	args = appendTexts(append(args, tokens, s.channelArg, s.verb(e), channel), r.Unlist)
	reply, err := e.Eval(ctx, opts, lua.RLockPass, keys, args)
	if err != nil {
		return 0, err
	}
	if len(reply.Ints) == 4 {
		if status, ok := acquireStatuses[reply.Ints[0]]; ok {
			e.Learn(reply, reply.Ints[1])
			r.Given, r.Token, r.More = status == engine.Granted, reply.Ints[2], reply.Ints[3]
			return status, nil
		}
	}
	return 0, run.Unexpected(lua.RLockPass, reply.Ints)
}

// RenewKind names rlock/renew.
func (*scripts) RenewKind() string { return "rlock" }

// Renew runs rlock/renew for locks of any name.
func (*scripts) Renew(ctx context.Context, e *engine.Engine, opts run.Options, batch []engine.Renewal, d run.Deadline) ([]watchdog.Result, error) {
	return e.RenewLocks(ctx, opts, batch, d)
}

// force runs rlock/force.
func (s *scripts) force(ctx context.Context, e *engine.Engine, opts run.Options) (bool, error) {
	reply, err := e.Eval(ctx, opts, lua.RLockForce, 1, append(s.args(4), s.channelArg, s.verb(e), names.Label(s.key, "")))
	return reply.Int == 1, err
}

// A state is the reply of rlock/state.
type state struct {
	all, mine int
	left      time.Duration
	token     int64
}

// state runs rlock/state.
func (s *scripts) state(ctx context.Context, e *engine.Engine, opts run.Options, holder string) (state, error) {
	keys, args := 1, s.args(3)
	if s.token != "" {
		keys, args = keys+1, append(args, s.token)
	}
	reply, err := e.Eval(ctx, opts, lua.RLockState, keys, append(args, holder))
	if err != nil {
		return state{}, err
	}
	if len(reply.Ints) != 4 {
		return state{}, run.Unexpected(lua.RLockState, reply.Ints)
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
