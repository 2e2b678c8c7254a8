package rwlock

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/lua"
)

// writes follows the holder in the field of a writer.
const writes = ":write"

// scripts runs the scripts that both halves of a lock share. Only this file
// knows the order of KEYS and ARGV.
type scripts struct {
	half    string // "read" or "write"
	key     string
	channel string
	prefix  string // prefix of the keys of the timeouts
	sign    string // key of the sign of a waiting writer

	keyArg, channelArg, prefixArg, signArg any // the same values as arguments
}

func newScripts(half, key string) scripts {
	s := scripts{
		half:    half,
		key:     key,
		channel: names.Prefixed("redisson_rwlock", key),
		prefix:  names.Suffixed(key, ""),
		sign:    names.Ours("latchkey_writer", key),
	}
	s.keyArg, s.channelArg, s.prefixArg, s.signArg = s.key, s.channel, s.prefix, s.sign
	return s
}

// spec returns what the specs of both halves share.
func (s *scripts) spec(name string) *engine.Spec {
	return &engine.Spec{
		Kind:    "rwlock",
		Name:    name,
		Key:     s.key,
		Scope:   s.key,
		Line:    s.half + " " + s.channel,
		Channel: s.channel,
		Half:    true,
		Poll:    wait.Backoff{Initial: 10 * time.Millisecond, Max: 250 * time.Millisecond, Multiplier: 2},
		Keys:    []string{s.key, s.sign, names.Label(s.key, ""), timeout(s.key, "", 1), s.channel},
	}
}

// timeout returns the key that keeps a reader's n-th hold alive.
func timeout(key, holder string, n int) string {
	return names.Suffixed(key, holder) + ":rwlock_timeout:" + strconv.Itoa(n)
}

// args returns arguments that begin with the lock as the first key, with room
// for n.
func (s *scripts) args(n int) []any {
	return append(make([]any, run.Head, run.Head+n), s.keyArg)
}

// RenewKind names rwlock/renew, which renews both halves.
func (*scripts) RenewKind() string { return "rwlock" }

// Renew runs rwlock/renew for locks of any name, read and write.
func (*scripts) Renew(ctx context.Context, e *engine.Engine, opts run.Options, batch []engine.Renewal, d run.Deadline) ([]watchdog.Result, error) {
	args := make([]any, run.Head, run.Head+2+7*len(batch))
	holders := make([]any, 0, 2+4*len(batch))
	holders = append(holders, d.NotAfter, d.Ahead)
	for _, r := range batch {
		args = append(args, r.Key)
		timeouts, labels := r.Count, 0
		if strings.HasSuffix(r.Holder, writes) {
			timeouts = 0
		}
		for n := range timeouts {
			args = append(args, timeout(r.Key, r.Holder, n+1))
		}
		if r.Label != "" {
			args, labels = append(args, names.Label(r.Key, r.Holder)), 1
		}
		holders = append(holders, r.Holder, r.Lease.Milliseconds(), timeouts, labels)
	}
	keys := len(args) - run.Head
	reply, err := e.Eval(ctx, opts, lua.RWLockRenew, keys, append(args, holders...))
	if err != nil {
		return nil, err
	}
	if n := len(reply.Ints); n != 1 && n != 1+len(batch) {
		return nil, run.Unexpected(lua.RWLockRenew, reply.Ints)
	}
	e.Learn(reply, reply.Ints[0])
	if len(reply.Ints) == 1 {
		return nil, nil
	}
	results := make([]watchdog.Result, len(batch))
	for i, answer := range reply.Ints[1:] {
		results[i] = renewResult(answer)
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

// acquired decodes the reply of an acquire script.
func acquired(e *engine.Engine, script *lua.Script, reply run.Reply) (engine.Grant, error) {
	if len(reply.Ints) == 3 {
		if status, ok := acquireStatuses[reply.Ints[0]]; ok {
			e.Learn(reply, reply.Ints[2])
			return engine.Grant{Status: status, Left: engine.LeaseLeft(reply.Ints[1]), Server: reply.Ints[2]}, nil
		}
	}
	return engine.Grant{}, run.Unexpected(script, reply.Ints)
}

var acquireStatuses = map[int64]engine.Status{
	1: engine.Granted, 0: engine.Refused, -1: engine.NotHolder, -2: engine.PastDeadline,
}

// release runs one of the release scripts, which have the same arguments.
func (s *scripts) release(ctx context.Context, e *engine.Engine, opts run.Options, script *lua.Script, r *engine.Return) (engine.Status, error) {
	keys, args := 1, s.args(11)
	if r.Label != "" {
		keys, args = keys+1, append(args, names.Label(s.key, r.Holder))
	}
	args = append(args, r.Holder, r.Count, r.Deadline.NotAfter, r.Deadline.Ahead, s.prefixArg, s.channelArg, e.Verb())
	if r.Linger > 0 {
		args = append(args, r.Linger.Milliseconds(), r.LingerAs)
	}
	reply, err := e.Eval(ctx, opts, script, keys, args)
	if err != nil {
		return 0, err
	}
	if reply.Ints == nil && reply.Int == 1 {
		return engine.Granted, nil
	}
	if len(reply.Ints) == 3 {
		if status, ok := releaseStatuses[reply.Ints[0]]; ok {
			if r.Deadline.NotAfter > 0 {
				e.Learn(reply, reply.Ints[2])
			}
			return status, nil
		}
	}
	return 0, run.Unexpected(script, reply.Ints)
}

var releaseStatuses = map[int64]engine.Status{
	1: engine.Granted, 2: engine.Unchanged, -1: engine.NotHolder, -2: engine.PastDeadline,
}

// force runs rwlock/force.
func (s *scripts) force(ctx context.Context, e *engine.Engine, opts run.Options) (bool, error) {
	reply, err := e.Eval(ctx, opts, lua.RWLockForce, 1, append(s.args(6), s.half, s.prefixArg, s.channelArg, e.Verb(), names.Label(s.key, "")))
	return reply.Int == 1, err
}

// A state is the reply of rwlock/state for one half, or for one holder of it.
type state struct {
	count int
	left  time.Duration
}

// state runs rwlock/state, once for each piece of the lock; for one holder
// there is one piece.
func (s *scripts) state(ctx context.Context, e *engine.Engine, opts run.Options, holder string) (state, error) {
	st, left, from := state{}, int64(-2), int64(0)
	for {
		reply, err := e.Eval(ctx, opts, lua.RWLockState, 1, append(s.args(5), s.half, s.prefixArg, holder, from))
		if err != nil {
			return state{}, err
		}
		if len(reply.Ints) != 3 {
			return state{}, run.Unexpected(lua.RWLockState, reply.Ints)
		}
		st.count += int(reply.Ints[0])
		left = max(left, reply.Ints[1])
		if from = reply.Ints[2]; from == 0 {
			break
		}
	}
	switch {
	case left >= 0:
		st.left = millis(left)
	case left == -1:
		st.left = -1
	}
	return st, nil
}

// readScripts are the scripts of the read half.
type readScripts struct{ scripts }

func newReadScripts(key string) *readScripts { return &readScripts{newScripts("read", key)} }

func (s *readScripts) spec(name string) *engine.Spec {
	spec := s.scripts.spec(name)
	spec.Other = writes
	spec.Shared = true
	spec.Scripts = s
	return spec
}

// Acquire runs rwlock/acquire_read, or takes part in a batch of
// rwlock/acquire_read_many.
func (s *readScripts) Acquire(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Request) (engine.Grant, error) {
	if r.Count == 1 && r.Label == "" && e.Crowded() {
		part := run.BatchRequest{Script: lua.RWLockAcquireReadMany, Deadline: r.Deadline}
		part.SharedKeys = [...]any{s.keyArg, s.signArg}
		part.SharedArgs[0] = r.Lease.Milliseconds()
		part.Keys[0], part.Args[0] = timeout(s.key, r.Holder, 1), r.Holder
		if g, done, err := e.AcquireMany(ctx, opts, &part, r.Lease); done || err != nil {
			return g, err
		}
	}
	keys, args := 2+r.Count, append(s.args(10+r.Count), s.signArg)
	for n := range r.Count {
		args = append(args, timeout(s.key, r.Holder, n+1))
	}
	if r.Label != "" {
		keys, args = keys+1, append(args, names.Label(s.key, r.Holder))
	}
	args = append(args, r.Holder, r.Holder+writes, r.Count, r.Lease.Milliseconds(), r.Deadline.NotAfter, r.Deadline.Ahead)
	if r.Label != "" {
		args = append(args, r.Label)
	}
	reply, err := e.Eval(ctx, opts, lua.RWLockAcquireRead, keys, args)
	if err != nil {
		return engine.Grant{}, err
	}
	if reply.Ints == nil && reply.Int > 0 {
		e.Learn(reply, reply.Int)
		return engine.Grant{Status: engine.Granted, Left: r.Lease}, nil
	}
	return acquired(e, lua.RWLockAcquireRead, reply)
}

// Release runs rwlock/release_read, or takes part in a batch of
// rwlock/release_read_many.
func (s *readScripts) Release(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Return) (engine.Status, error) {
	if verb := e.Verb(); r.Count == 0 && r.Linger == 0 && r.Label == "" && verb == "PUBLISH" && e.Crowded() {
		part := run.BatchRequest{Script: lua.RWLockReleaseReadMany, Deadline: r.Deadline}
		part.SharedKeys[0] = s.keyArg
		part.SharedArgs = [...]any{verb, s.channelArg, s.prefixArg}
		part.Keys[0], part.Args[0] = timeout(s.key, r.Holder, 1), r.Holder
		if n, err := e.EvalMany(ctx, opts, &part); err != nil || n > 0 {
			return engine.Granted, err
		}
	}
	return s.release(ctx, e, opts, lua.RWLockReleaseRead, r)
}

// writeScripts are the scripts of the write half.
type writeScripts struct {
	scripts
	preference time.Duration
}

func newWriteScripts(key string, cfg config) *writeScripts {
	return &writeScripts{newScripts("write", key), cfg.preference}
}

func (s *writeScripts) spec(name string) *engine.Spec {
	spec := s.scripts.spec(name)
	spec.Suffix = writes
	spec.NoUpgrade = true
	spec.Scripts = s
	return spec
}

// Acquire runs rwlock/acquire_write.
func (s *writeScripts) Acquire(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Request) (engine.Grant, error) {
	keys, args := 2, append(s.args(11), s.signArg)
	if r.Label != "" {
		keys, args = keys+1, append(args, names.Label(s.key, r.Holder))
	}
	back := int64(0)
	if r.Waits {
		d := s.preference
		if at, ok := ctx.Deadline(); ok {
			d = min(d, max(time.Until(at), time.Millisecond)) // no longer than the caller waits
		}
		back = d.Milliseconds()
	}
	args = append(args, r.Holder, r.Count, r.Lease.Milliseconds(), r.Deadline.NotAfter, r.Deadline.Ahead, s.prefixArg, back)
	if r.Label != "" {
		args = append(args, r.Label)
	}
	for began := time.Now(); ; {
		reply, err := e.Eval(ctx, opts, lua.RWLockAcquireWrite, keys, args)
		if err != nil {
			return engine.Grant{}, err
		}
		if len(reply.Ints) != 3 || reply.Ints[0] != 3 {
			return acquired(e, lua.RWLockAcquireWrite, reply)
		}
		// The script has removed one piece of the dead readers.
		e.Learn(reply, reply.Ints[2])
		if time.Since(began) >= run.Pieces {
			return engine.Grant{Status: engine.Refused, Left: engine.LeaseLeft(0), Server: reply.Ints[2]}, nil
		}
		args = slices.Clone(args) // go-redis may still read the first
	}
}

// Release runs rwlock/release_write.
func (s *writeScripts) Release(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Return) (engine.Status, error) {
	return s.release(ctx, e, opts, lua.RWLockReleaseWrite, r)
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
