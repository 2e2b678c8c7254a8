package multilock

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/lua"
)

// scripts runs the scripts of one set of values. Only this file knows the order
// of KEYS and ARGV.
type scripts struct {
	key     string
	channel string
	suffix  string // appended to the holder; see mark

	keyArg, channelArg any // the same values as arguments
	values             []any
}

// mark separates the holder from the hashed values of a set in the holder name
// that the engine uses. It keeps the sets of one holder apart and tells a
// renewal the values. It is never sent to Redis.
const mark = "|"

func newScripts(key string, values []string) *scripts {
	hashes := make([]string, len(values))
	for i, v := range values {
		hashes[i] = hashValue(v)
	}
	// Order and duplicates make no difference.
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	s := &scripts{
		key:     key,
		channel: names.Prefixed("redisson_lock__channel", key),
		suffix:  mark + strings.Join(hashes, ""),
	}
	for _, h := range hashes {
		s.values = append(s.values, h)
	}
	s.keyArg, s.channelArg = s.key, s.channel
	return s
}

func (s *scripts) spec(name string) *engine.Spec {
	return &engine.Spec{
		Kind:    "multilock",
		Name:    name,
		Key:     s.key,
		Scope:   s.key + s.suffix,
		Line:    s.channel + s.suffix,
		Channel: s.channel,
		Suffix:  s.suffix,
		Shown:   s.shown,
		Poll:    wait.Backoff{Initial: 10 * time.Millisecond, Max: 250 * time.Millisecond, Multiplier: 2},
		Keys:    []string{s.key, claimKey(s.key, s.suffix), names.Label(s.key, ""), s.channel},
		Scripts: s,
	}
}

// claimKey returns the key that counts how often a holder, given as the engine
// names it, has a set. It is latchkey's own.
func claimKey(key, holder string) string {
	who, values := split(holder)
	return names.Ours("latchkey_group", key) + ":" + who + ":" + hashValue(values)
}

// split separates the engine's holder name into the holder and its values.
func split(holder string) (who, values string) {
	i := strings.LastIndex(holder, mark)
	return holder[:i], holder[i+len(mark):]
}

// plain returns a holder as Redis shows it.
func plain(holder string) string {
	who, _ := split(holder)
	return who
}

// shown returns a holder as Redis shows it, and a field that it has while it has
// the set.
func (s *scripts) shown(holder string) (who, field string) {
	who, values := split(holder)
	return who, values[:hashed] + ":" + who + ":expire_time"
}

// args returns arguments that begin with the group as the first key, with room
// for n and the values.
func (s *scripts) args(n int) []any {
	return append(make([]any, run.Head, run.Head+n+len(s.values)), s.keyArg)
}

// Acquire runs multilock/acquire.
func (s *scripts) Acquire(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Request) (engine.Grant, error) {
	who := plain(r.Holder)
	keys, args := 2, append(s.args(9), claimKey(s.key, r.Holder))
	if r.Label != "" {
		keys, args = keys+1, append(args, names.Label(s.key, who))
	}
	args = append(args, who, r.Count, r.Lease.Milliseconds(), r.Deadline.NotAfter, r.Deadline.Ahead, r.Label)
	reply, err := e.Eval(ctx, opts, lua.GroupAcquire, keys, append(args, s.values...))
	if err != nil {
		return engine.Grant{}, err
	}
	if len(reply.Ints) == 3 {
		if status, ok := acquireStatuses[reply.Ints[0]]; ok {
			e.Learn(reply, reply.Ints[2])
			return engine.Grant{Status: status, Left: engine.LeaseLeft(reply.Ints[1])}, nil
		}
	}
	return engine.Grant{}, run.Unexpected(lua.GroupAcquire, reply.Ints)
}

var acquireStatuses = map[int64]engine.Status{
	1: engine.Granted, 0: engine.Refused, -1: engine.NotHolder, -2: engine.PastDeadline,
}

// Release runs multilock/release.
func (s *scripts) Release(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Return) (engine.Status, error) {
	who, heir := plain(r.Holder), ""
	keys, args := 2, append(s.args(11), claimKey(s.key, r.Holder))
	if r.Label != "" {
		keys, args = keys+1, append(args, names.Label(s.key, who))
	}
	if r.Linger > 0 {
		heir = plain(r.LingerAs)
	}
	args = append(args, who, r.Count, r.Deadline.NotAfter, r.Deadline.Ahead, s.channelArg, e.Verb(), r.Linger.Milliseconds(), heir)
	reply, err := e.Eval(ctx, opts, lua.GroupRelease, keys, append(args, s.values...))
	if err != nil {
		return 0, err
	}
	if len(reply.Ints) == 3 {
		if status, ok := releaseStatuses[reply.Ints[0]]; ok {
			e.Learn(reply, reply.Ints[2])
			return status, nil
		}
	}
	return 0, run.Unexpected(lua.GroupRelease, reply.Ints)
}

var releaseStatuses = map[int64]engine.Status{
	1: engine.Granted, 2: engine.Unchanged, -1: engine.NotHolder, -2: engine.PastDeadline,
}

// RenewKind names multilock/renew.
func (*scripts) RenewKind() string { return "multilock" }

// Renew runs multilock/renew for sets of any group.
func (*scripts) Renew(ctx context.Context, e *engine.Engine, opts run.Options, batch []engine.Renewal, d run.Deadline) ([]watchdog.Result, error) {
	args := make([]any, run.Head, run.Head+2+8*len(batch))
	sets := append(make([]any, 0, 2+8*len(batch)), d.NotAfter, d.Ahead)
	for _, r := range batch {
		who, values := split(r.Holder)
		args = append(args, r.Key, claimKey(r.Key, r.Holder))
		labels := 0
		if r.Label != "" {
			args, labels = append(args, names.Label(r.Key, who)), 1
		}
		sets = append(sets, who, r.Lease.Milliseconds(), labels, len(values)/hashed)
		for ; values != ""; values = values[hashed:] {
			sets = append(sets, values[:hashed])
		}
	}
	reply, err := e.Eval(ctx, opts, lua.GroupRenew, len(args)-run.Head, append(args, sets...))
	if err != nil {
		return nil, err
	}
	if n := len(reply.Ints); n != 1 && n != 1+len(batch) {
		return nil, run.Unexpected(lua.GroupRenew, reply.Ints)
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

// force runs multilock/force.
func (s *scripts) force(ctx context.Context, e *engine.Engine, opts run.Options) (bool, error) {
	reply, err := e.Eval(ctx, opts, lua.GroupForce, 1, append(append(s.args(4), s.channelArg, e.Verb(), names.Label(s.key, "")), s.values...))
	return reply.Int == 1, err
}

// A setState is the reply of multilock/state.
type setState struct {
	all, mine int
	left      time.Duration
}

// state runs multilock/state.
func (s *scripts) state(ctx context.Context, e *engine.Engine, opts run.Options, holder string) (setState, error) {
	reply, err := e.Eval(ctx, opts, lua.GroupState, 1, append(append(s.args(2), holder), s.values...))
	if err != nil {
		return setState{}, err
	}
	if len(reply.Ints) != 3 {
		return setState{}, run.Unexpected(lua.GroupState, reply.Ints)
	}
	return setState{all: int(reply.Ints[0]), mine: int(reply.Ints[1]), left: millis(max(reply.Ints[2], 0))}, nil
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
