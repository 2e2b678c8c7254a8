package permitsemaphore

import (
	"context"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/lua"
)

// scripts runs the scripts of one semaphore. Only this file knows the order of
// KEYS and ARGV.
type scripts struct {
	key     string
	out     string // key of the permits that are out
	channel string

	keyArg, outArg, channelArg any // the same values as arguments
	labelArg                   any // what the labels' keys begin with
}

var _ engine.Leaser = (*scripts)(nil)

// outKey returns the key of the permits that are out.
func outKey(key string) string { return names.Suffixed(key, "timeout") }

func newScripts(key string) *scripts {
	s := &scripts{key: key, out: outKey(key), channel: names.Prefixed("redisson_sc", key)}
	s.keyArg, s.outArg, s.channelArg = s.key, s.out, s.channel
	s.labelArg = names.Label(key, "")
	return s
}

func (s *scripts) spec(name string) *engine.Spec {
	return &engine.Spec{
		Kind:    "permitsemaphore",
		Name:    name,
		Key:     s.key,
		Line:    "permitsemaphore " + s.channel,
		Channel: s.channel,
		Shared:  true,
		Poll:    wait.Backoff{Initial: 10 * time.Millisecond, Max: 250 * time.Millisecond, Multiplier: 2},
		Keys:    []string{s.key, s.out, names.Ours("latchkey_claim", s.key), s.channel},
		Renewer: s,
	}
}

// none is an argument that stands for nothing.
var none any = ""

// keep is how long the scripts remember requests, as an argument.
var keep any = engine.Remembered.Milliseconds()

// args returns arguments that begin with the semaphore as the first key, with
// room for n.
func (s *scripts) args(n int) []any {
	return append(make([]any, run.Head, run.Head+n), s.keyArg)
}

// acquire runs permitsemaphore/acquire for the first of wants and the others
// after it.
func (s *scripts) acquire(ctx context.Context, e *engine.Engine, opts run.Options, wants []*want, d run.Deadline) (ans engine.Answer, served int, err error) {
	args := append(s.args(6+3*len(wants)), s.outArg, d.NotAfter, d.Ahead, s.channelArg, e.Verb())
	for _, w := range wants {
		args = append(args, len(w.ids), w.lease.Milliseconds())
		for _, id := range w.ids {
			args = append(args, id)
		}
	}
	for began := time.Now(); ; {
		reply, err := e.Eval(ctx, opts, lua.PermitAcquire, 2, args)
		if err != nil {
			return ans, 0, err
		}
		got := reply.Ints
		if len(got) != 4 {
			return ans, 0, run.Unexpected(lua.PermitAcquire, got)
		}
		e.Learn(reply, got[3])
		more := got[2] == 0 // permits to reclaim
		switch {
		case got[0] < 0:
			return engine.Answer{Status: engine.PastDeadline}, 0, nil
		case got[0] == 0 && more && time.Since(began) < run.Pieces:
			args = slices.Clone(args) // go-redis may still read the first
			continue
		case got[0] == 0:
			return engine.Answer{Status: engine.Refused, After: engine.LeaseLeft(got[2])}, 0, nil
		}
		return engine.Answer{Status: engine.Granted, Last: got[1] <= 0 && !more, After: engine.LeaseLeft(got[2])}, int(got[0]) - 1, nil
	}
}

// Free runs permitsemaphore/release.
func (s *scripts) Free(ctx context.Context, e *engine.Engine, opts run.Options, ids []string, all, labelled bool) ([]bool, error) {
	mode := "ANY"
	if all {
		mode = "ALL"
	}
	label := s.labelArg
	if !labelled {
		label = none
	}
	args := append(s.args(6+len(ids)), s.outArg, mode, s.channelArg, e.Verb(), label)
	for _, id := range ids {
		args = append(args, id)
	}
	reply, err := e.Eval(ctx, opts, lua.PermitRelease, 2, args)
	if err != nil {
		return nil, err
	}
	if len(reply.Ints) != 1+len(ids) {
		return nil, run.Unexpected(lua.PermitRelease, reply.Ints)
	}
	out := make([]bool, len(ids))
	for i := range out {
		out[i] = reply.Ints[1+i] == 1
	}
	return out, nil
}

// RenewKind names permitsemaphore/renew.
func (*scripts) RenewKind() string { return "permitsemaphore" }

// Renew runs permitsemaphore/renew for permits of any semaphore.
func (*scripts) Renew(ctx context.Context, e *engine.Engine, opts run.Options, batch []engine.Renewal, d run.Deadline) ([]watchdog.Result, error) {
	args := make([]any, run.Head, run.Head+2+3*len(batch))
	for _, r := range batch {
		args = append(args, outKey(r.Key))
	}
	args = append(args, d.NotAfter, d.Ahead)
	for _, r := range batch {
		args = append(args, r.Holder, r.Lease.Milliseconds())
	}
	reply, err := e.Eval(ctx, opts, lua.PermitRenew, len(batch), args)
	if err != nil {
		return nil, err
	}
	if n := len(reply.Ints); n != 1 && n != 1+len(batch) {
		return nil, run.Unexpected(lua.PermitRenew, reply.Ints)
	}
	e.Learn(reply, reply.Ints[0])
	if len(reply.Ints) == 1 {
		return nil, nil
	}
	results := make([]watchdog.Result, len(batch))
	for i, answer := range reply.Ints[1:] {
		switch answer {
		case 1:
			results[i] = watchdog.Extended
		case 0:
			results[i] = watchdog.NotOurs
		}
	}
	e.KeepLabels(ctx, opts, batch)
	return results, nil
}

// set runs permitsemaphore/set.
func (s *scripts) set(ctx context.Context, e *engine.Engine, opts run.Options, r *request, n int) (engine.Status, error) {
	return s.run(ctx, e, opts, lua.PermitSet, append(s.args(9), r.claim, n, r.ticket.Number, keep,
		r.deadline.NotAfter, r.deadline.Ahead, s.channelArg, e.Verb()))
}

// add runs permitsemaphore/add.
func (s *scripts) add(ctx context.Context, e *engine.Engine, opts run.Options, r *request, n int) (engine.Status, error) {
	return s.run(ctx, e, opts, lua.PermitAdd, append(s.args(9), r.claim, n, r.ticket.Number, keep,
		r.deadline.NotAfter, r.deadline.Ahead, s.channelArg, e.Verb()))
}

// resize runs permitsemaphore/resize.
func (s *scripts) resize(ctx context.Context, e *engine.Engine, opts run.Options, r *request, n int) (engine.Status, error) {
	return s.runOn(ctx, e, opts, lua.PermitResize, 3, append(s.args(10), s.outArg, r.claim, n, r.ticket.Number, keep,
		r.deadline.NotAfter, r.deadline.Ahead, s.channelArg, e.Verb()))
}

// update runs permitsemaphore/update.
func (s *scripts) update(ctx context.Context, e *engine.Engine, opts run.Options, r *request, id string, lease time.Duration) (engine.Status, error) {
	args := append(make([]any, run.Head, run.Head+11), s.outArg, r.claim, id, lease.Milliseconds(),
		r.ticket.Number, keep, r.deadline.NotAfter, r.deadline.Ahead, s.channelArg, e.Verb(), names.PermitLabel(s.key, id))
	return s.runOn(ctx, e, opts, lua.PermitUpdate, 2, args)
}

// run runs a script that has two keys and replies with a status and the
// server's time.
func (s *scripts) run(ctx context.Context, e *engine.Engine, opts run.Options, script *lua.Script, args []any) (engine.Status, error) {
	return s.runOn(ctx, e, opts, script, 2, args)
}

func (*scripts) runOn(ctx context.Context, e *engine.Engine, opts run.Options, script *lua.Script, keys int, args []any) (engine.Status, error) {
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

// A state is the reply of permitsemaphore/state.
type state struct{ available, out int }

// state runs permitsemaphore/state until all permits whose lease is over are
// reclaimed.
func (s *scripts) state(ctx context.Context, e *engine.Engine, opts run.Options) (state, error) {
	for {
		reply, err := e.Eval(ctx, opts, lua.PermitState, 2, append(s.args(4), s.outArg, s.channelArg, e.Verb()))
		if err != nil {
			return state{}, err
		}
		if len(reply.Ints) != 3 {
			return state{}, run.Unexpected(lua.PermitState, reply.Ints)
		}
		if reply.Ints[0] != 2 {
			return state{available: int(reply.Ints[1]), out: int(reply.Ints[2])}, nil
		}
	}
}

// lease runs permitsemaphore/lease. It returns false if the permit is not out.
func (s *scripts) lease(ctx context.Context, e *engine.Engine, opts run.Options, id string) (time.Duration, bool, error) {
	args := append(make([]any, run.Head, run.Head+2), s.outArg, id)
	reply, err := e.Eval(ctx, opts, lua.PermitLease, 1, args)
	switch {
	case err != nil || reply.Int == -2:
		return 0, false, err
	case reply.Int == -1:
		return -1, true, nil
	}
	return millis(reply.Int), true, nil
}

// delete runs permitsemaphore/delete.
func (s *scripts) delete(ctx context.Context, e *engine.Engine, opts run.Options) (bool, error) {
	reply, err := e.Eval(ctx, opts, lua.PermitDelete, 2, append(s.args(3), s.outArg, s.labelArg))
	return reply.Int == 1, err
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
