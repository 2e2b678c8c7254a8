package once

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
)

// scripts runs the scripts of a job. Only this file knows the order of KEYS and ARGV.
type scripts struct {
	engine     *engine.Engine
	key        string // what the keys are made of
	oneAtATime bool
}

// lock returns the key of the lock of a fire.
func (s *scripts) lock(fire string) string {
	if s.oneAtATime {
		return names.Fire(s.key, "")
	}
	return names.Fire(s.key, fire)
}

// keys returns arguments that begin with the keys of a fire, with room for n in all.
func (s *scripts) keys(n int, fire string) []any {
	return append(make([]any, run.Head, run.Head+n), s.lock(fire), names.Run(s.key, fire), names.Runs(s.key))
}

// What a run is in Redis.
const (
	stateRunning = "running"
	stateDone    = "done"
	stateFailed  = "failed"
)

// A status is what became of a request to begin.
type status int64

const (
	begun     status = 1
	over      status = 0
	notHolder status = -1
	late      status = -2
	reentry   status = -3
)

type beginning struct {
	status  status
	attempt int
}

// newCall returns a name for an attempt. Its holder may be that of the attempt before.
func newCall() string { return rand.Text() }

// begin runs once/begin. call is a name that no other attempt has.
func (f *fire) begin(ctx context.Context, h *latchkey.Hold, call string) (b beginning, err error) {
	e := f.engine
	bound := int64(0)
	if f.cfg.notLater > 0 {
		bound = f.at.Add(f.cfg.notLater).UnixMilli()
	}
	err = e.Ask(ctx, "do", f.spec, true, func(ctx context.Context, opts run.Options) error {
		reply, err := e.Eval(ctx, opts, lua.OnceBegin, 3, append(f.scripts.keys(10, f.text),
			h.HolderID(), f.text, f.cfg.attempts, f.cfg.keep.Milliseconds(), bound, e.Who(f.cfg.label), call))
		if err != nil {
			return err
		}
		n := reply.Ints
		if len(n) != 3 {
			return run.Unexpected(lua.OnceBegin, n)
		}
		e.Learn(reply, n[2])
		b = beginning{status: status(n[0]), attempt: int(n[1])}
		return nil
	})
	return b, err
}

// finish runs once/finish. failed is the error of the run, or empty.
func (f *fire) finish(ctx context.Context, h *latchkey.Hold, call, failed string) error {
	e, state := f.engine, stateDone
	if failed != "" {
		state = stateFailed
	}
	lost := false // Redis has answered: that is no reason to ask again
	err := e.Ask(ctx, "do", f.spec, true, func(ctx context.Context, opts run.Options) error {
		reply, err := e.Eval(ctx, opts, lua.OnceFinish, 3, append(f.scripts.keys(9, f.text),
			h.HolderID(), f.text, state, failed, f.cfg.keep.Milliseconds(), call))
		if err != nil {
			return err
		}
		if len(reply.Ints) != 2 {
			return run.Unexpected(lua.OnceFinish, reply.Ints)
		}
		e.Learn(reply, reply.Ints[1])
		lost = reply.Ints[0] == 0
		return nil
	})
	if err == nil && lost {
		err = e.Wrap("do", f.spec, engine.ErrLeaseLost)
	}
	return err
}

// A record is a run as Redis has it.
type record struct {
	state          string
	attempt        int
	started, ended time.Time
	who            engine.Who
	err            string
	has            bool // the holder has a lock of the run
}

// read reads the run of f.
func (f *fire) read(ctx context.Context) (record, error) {
	got, err := f.scripts.read(ctx, f.spec, "do", []string{f.text})
	if err != nil {
		return record{}, err
	}
	return got[0], nil
}

// mostAtOnce is how many runs one request reads.
const mostAtOnce = 100

// read runs once/read for some fires.
func (s *scripts) read(ctx context.Context, spec *engine.Spec, op string, fires []string) (all []record, err error) {
	e := s.engine
	err = e.Ask(ctx, op, spec, true, func(ctx context.Context, opts run.Options) error {
		args := append(make([]any, run.Head, run.Head+1+2*len(fires)), names.Fire(s.key, ""))
		for _, f := range fires {
			args = append(args, names.Fire(s.key, f), names.Run(s.key, f))
		}
		reply, err := e.Eval(ctx, opts, lua.OnceRead, len(args)-run.Head, args)
		if err != nil {
			return err
		}
		all = make([]record, len(fires))
		if len(reply.Any) != len(fires)+1 {
			return run.Unexpected(lua.OnceRead, reply.Any)
		}
		for i := range all {
			if !all[i].parse(reply.Any[i+1]) {
				return run.Unexpected(lua.OnceRead, reply.Any)
			}
		}
		return nil
	})
	return all, err
}

// list runs once/list: the fires that were written last, the last one first.
func (s *scripts) list(ctx context.Context, spec *engine.Spec, op string, n int) (fires []string, err error) {
	e := s.engine
	err = e.Ask(ctx, op, spec, true, func(ctx context.Context, opts run.Options) error {
		reply, err := e.Eval(ctx, opts, lua.OnceList, 1, append(make([]any, run.Head, run.Head+2), names.Runs(s.key), n))
		if err != nil {
			return err
		}
		fires = fires[:0]
		for i := len(reply.Any) - 1; i >= 0; i-- {
			text, ok := reply.Any[i].(string)
			if !ok {
				return run.Unexpected(lua.OnceList, reply.Any)
			}
			fires = append(fires, text)
		}
		return nil
	})
	return fires, err
}
