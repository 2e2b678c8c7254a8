package fairlock

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/inspect"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/lua"
)

// keepQueue is how long the queue is kept beyond the last deadline in it. The
// queue expires only if nobody touches it for that long.
const keepQueue = 24 * time.Hour

// poll is the back-off of a client that may not subscribe.
var poll = wait.Backoff{Initial: 10 * time.Millisecond, Max: 250 * time.Millisecond, Multiplier: 2}

// scripts runs the scripts of one lock. Only this file knows the order of KEYS
// and ARGV.
type scripts struct {
	key     string
	queue   string
	scores  string
	clients string
	channel string // prefix of a waiter's channel, without ":" and the holder
	client  string // the Redis channel of this client
	timeout time.Duration

	// Arguments that are the same each time.
	keyArg, queueArg, scoresArg, clientsArg, channelArg any
	timeoutArg, clientArg, aliveArg, keepArg, proofArg  any
}

func newScripts(e *engine.Engine, key string, cfg config) *scripts {
	s := &scripts{
		key:     key,
		queue:   names.Prefixed("redisson_lock_queue", key),
		scores:  names.Prefixed("redisson_lock_timeout", key),
		clients: names.Prefixed("latchkey_queue", key),
		channel: names.Prefixed("redisson_lock__channel", key),
		timeout: cfg.timeout,
	}
	s.client = s.channel + ":" + e.ID()
	_, alive := e.Keeping(s.timeout)
	s.keyArg, s.queueArg, s.scoresArg, s.clientsArg, s.channelArg = s.key, s.queue, s.scores, s.clients, s.channel
	s.timeoutArg, s.clientArg = s.timeout.Milliseconds(), e.ID()
	s.aliveArg, s.keepArg, s.proofArg = alive.Milliseconds(), keepQueue.Milliseconds(), e.Proof()
	if names.Twin(key) {
		s.proofArg = "" // "{x}" shares the queue of "x"
	}
	return s
}

func (s *scripts) spec(name string, cfg config) *engine.Spec {
	return &engine.Spec{
		Kind:         "fairlock",
		Name:         name,
		Key:          s.key,
		Scope:        s.key,
		Line:         s.queue,
		Poll:         poll,
		NonReentrant: cfg.nonReentrant,
		Keys:         []string{s.key, s.queue, s.scores, s.clients, names.Label(s.key, ""), s.channel},
		Queue:        s,
		Scripts:      s,
	}
}

// Channels returns the Redis channels that tell a waiter of its turn: that of
// its client, where the scripts of this module publish, and its own, where
// Redisson publishes.
func (s *scripts) Channels(holder string) (client, own string) {
	return s.client, s.channel + ":" + holder
}

// Timeout returns how long a dead waiter may keep its place.
func (s *scripts) Timeout() time.Duration { return s.timeout }

// args returns arguments that begin with the lock and its queue as the first
// keys, with room for n.
func (s *scripts) args(n int) []any {
	args := make([]any, run.Head, run.Head+n)
	return append(args, s.keyArg, s.queueArg, s.scoresArg, s.clientsArg)
}

// Acquire runs fairlock/acquire.
func (s *scripts) Acquire(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Request) (engine.Grant, error) {
	keys, args := 4, s.args(20)
	if r.Label != "" {
		keys, args = keys+1, append(args, names.Label(s.key, r.Holder))
	}
	args = append(args, r.Holder, r.Count, r.Lease.Milliseconds(), r.Deadline.NotAfter, r.Deadline.Ahead,
		r.Wait.Milliseconds(), s.timeoutArg, s.clientArg, s.aliveArg, s.channelArg, e.Verb(), s.keepArg)
	switch {
	case r.Wait > 0:
		args = append(args, r.Label, s.proofArg)
		if r.Ends > 0 {
			args = append(args, r.Ends)
		}
	case r.Label != "":
		args = append(args, r.Label)
	}
	reply, err := e.Eval(ctx, opts, lua.FairLockAcquire, keys, args)
	switch {
	case err != nil:
		return engine.Grant{}, err
	case reply.Ints == nil && reply.Any == nil:
		e.Learn(reply, reply.Int)
		return engine.Grant{Status: engine.Granted, Left: r.Lease}, nil
	}
	ints, text := split(reply)
	switch {
	case len(ints) == 4 && ints[0] == 0:
		e.Learn(reply, ints[2])
		return engine.Grant{Status: engine.Refused, Left: engine.LeaseLeft(ints[1]), Server: ints[2], Ticket: ints[3], Next: text}, nil
	case len(ints) == 3:
		if status, ok := acquireStatuses[ints[0]]; ok {
			e.Learn(reply, ints[2])
			return engine.Grant{Status: status, Left: engine.LeaseLeft(ints[1]), Server: ints[2]}, nil
		}
	}
	return engine.Grant{}, run.Unexpected(lua.FairLockAcquire, reply)
}

var acquireStatuses = map[int64]engine.Status{1: engine.Granted, -1: engine.NotHolder, -2: engine.PastDeadline}

// Release runs fairlock/release.
func (s *scripts) Release(ctx context.Context, e *engine.Engine, opts run.Options, r *engine.Return) (engine.Status, error) {
	keys, args := 4, s.args(16)
	if r.Label != "" {
		keys, args = keys+1, append(args, names.Label(s.key, r.Holder))
	}
	args = append(args, r.Holder, r.Count, r.Deadline.NotAfter, r.Deadline.Ahead,
		s.timeoutArg, s.clientArg, s.channelArg, e.Verb())
	switch {
	case r.Linger > 0:
		args = append(args, r.Linger.Milliseconds(), r.LingerAs)
	case r.Heir != nil:
		args = append(args, 0, r.Heir.Holder, r.Heir.Lease.Milliseconds())
	}
	reply, err := e.Eval(ctx, opts, lua.FairLockRelease, keys, args)
	switch {
	case err != nil:
		return 0, err
	case reply.Ints == nil && reply.Any == nil && reply.Int == 1:
		return engine.Granted, nil
	}
	ints, text := split(reply)
	if len(ints) == 3 {
		if status, ok := releaseStatuses[ints[0]]; ok {
			r.Given = ints[0] == 3
			if ints[2] > 0 {
				e.Learn(reply, ints[2])
			}
			r.Next = text
			return status, nil
		}
	}
	return 0, run.Unexpected(lua.FairLockRelease, reply)
}

var releaseStatuses = map[int64]engine.Status{
	1: engine.Granted, 3: engine.Granted, 2: engine.Unchanged, -1: engine.NotHolder, -2: engine.PastDeadline,
}

// split returns the integers of an array, and the text after them if there is
// one.
func split(reply run.Reply) (ints []int64, text string) {
	if reply.Any == nil {
		return reply.Ints, ""
	}
	for _, x := range reply.Any {
		switch x := x.(type) {
		case int64:
			ints = append(ints, x)
		case string:
			text = x
		}
	}
	return ints, text
}

// RenewKind names rlock/renew, which also serves this lock.
func (*scripts) RenewKind() string { return "rlock" }

// Renew runs rlock/renew.
func (*scripts) Renew(ctx context.Context, e *engine.Engine, opts run.Options, batch []engine.Renewal, d run.Deadline) ([]watchdog.Result, error) {
	return e.RenewLocks(ctx, opts, batch, d)
}

// Leave runs fairlock/leave.
func (s *scripts) Leave(ctx context.Context, e *engine.Engine, opts run.Options, l *engine.Leaving) (engine.Status, error) {
	args := append(s.args(12), l.Holder, l.Wait.Milliseconds(), s.timeoutArg, s.clientArg,
		l.Deadline.NotAfter, l.Deadline.Ahead, s.channelArg, e.Verb())
	reply, err := e.Eval(ctx, opts, lua.FairLockLeave, 4, args)
	if err != nil {
		return 0, err
	}
	ints, text := split(reply)
	if len(ints) == 2 {
		if status, ok := leaveStatuses[ints[0]]; ok {
			e.Learn(reply, ints[1])
			l.Next = text
			return status, nil
		}
	}
	return 0, run.Unexpected(lua.FairLockLeave, reply)
}

var leaveStatuses = map[int64]engine.Status{1: engine.Granted, 0: engine.Unchanged, -2: engine.PastDeadline}

// Keep runs fairlock/keep.
func (s *scripts) Keep(ctx context.Context, e *engine.Engine, opts run.Options, holders []string) (has []bool, at int64, err error) {
	args := make([]any, run.Head, run.Head+8+len(holders))
	args = append(args, s.queueArg, s.scoresArg, s.clientsArg, s.clientArg, s.aliveArg, s.timeoutArg, s.keepArg, s.proofArg)
	for _, h := range holders {
		args = append(args, h)
	}
	reply, err := e.Eval(ctx, opts, lua.FairLockKeep, 3, args)
	if err != nil {
		return nil, 0, err
	}
	if len(reply.Ints) != 1+len(holders) {
		return nil, 0, run.Unexpected(lua.FairLockKeep, reply)
	}
	at = reply.Ints[0]
	e.Learn(reply, at)
	has = make([]bool, len(holders))
	for i := range has {
		has[i] = reply.Ints[i+1] == 1
	}
	return has, at, nil
}

// force runs fairlock/force.
func (s *scripts) force(ctx context.Context, e *engine.Engine, opts run.Options) (bool, error) {
	reply, err := e.Eval(ctx, opts, lua.FairLockForce, 4, append(s.args(8), s.timeoutArg, s.channelArg, e.Verb(), names.Label(s.key, "")))
	return reply.Int == 1, err
}

// remove runs fairlock/delete.
func (s *scripts) remove(ctx context.Context, e *engine.Engine, opts run.Options) (bool, error) {
	reply, err := e.Eval(ctx, opts, lua.FairLockDelete, 4, append(s.args(7), s.channelArg, e.Verb(), names.Label(s.key, "")))
	return reply.Int == 1, err
}

// waiters runs fairlock/waiters, once for each piece of the queue.
func (s *scripts) waiters(ctx context.Context, e *engine.Engine, opts run.Options) ([]Waiter, error) {
	var waiters []Waiter
	err := inspect.Queue(ctx, e, opts, s.queueArg, s.scoresArg, 0, func(id string, deadline time.Time) {
		waiters = append(waiters, Waiter{ID: id, Deadline: deadline})
	})
	return waiters, err
}

// A state is the reply of rlock/state.
type state struct {
	all, mine int
	left      time.Duration
}

// state runs rlock/state, which also serves this lock.
func (s *scripts) state(ctx context.Context, e *engine.Engine, opts run.Options, holder string) (state, error) {
	args := append(make([]any, run.Head, run.Head+2), s.keyArg)
	reply, err := e.Eval(ctx, opts, lua.RLockState, 1, append(args, holder))
	if err != nil {
		return state{}, err
	}
	if len(reply.Ints) != 4 {
		return state{}, run.Unexpected(lua.RLockState, reply)
	}
	st := state{all: int(reply.Ints[0]), mine: int(reply.Ints[1])}
	switch left := reply.Ints[2]; {
	case left >= 0:
		st.left = millis(left)
	case left == -1:
		st.left = -1
	}
	return st, nil
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
