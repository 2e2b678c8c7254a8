package memo

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
)

// keys are those of a Memo. Only this file knows the order of KEYS and ARGV.
type keys struct{ lock, note, value, channel string }

// args returns arguments that begin with the keys, with room for n in all.
func (k *keys) args(n int) []any {
	return append(make([]any, run.Head, run.Head+n), k.lock, k.note, k.value)
}

// noted is for how much longer than the call the note of a call is kept.
const noted = 10 * time.Second

// begin runs memo/begin.
func (m *Memo) begin(ctx context.Context, op string, c *Call, mark string) (begun bool, rec Record, err error) {
	e := m.engine
	var lost error
	args := append(m.args(8), c.hold.HolderID(), c.name, mark, e.Who(""), (m.cfg.AtMost + noted).Milliseconds())
	err = e.Ask(ctx, op, m.spec, true, func(ctx context.Context, opts run.Options) error {
		reply, err := e.Eval(ctx, opts, lua.MemoBegin, 3, args)
		if err != nil {
			return err
		}
		if got := reply.Ints; len(got) == 2 && got[0] != 0 {
			e.Learn(reply, got[1])
			if begun = got[0] == 1; !begun {
				lost = engine.ErrLeaseLost
			}
			return nil
		}
		if len(reply.Any) != 6 {
			return run.Unexpected(lua.MemoBegin, reply.Any)
		}
		now, ok := reply.Any[1].(int64)
		text, ok2 := texts[[4]string](reply.Any[2:])
		if !ok || !ok2 {
			return run.Unexpected(lua.MemoBegin, reply.Any)
		}
		e.Learn(reply, now)
		if text[0] == "" {
			rec = Record{State: Failed, Call: text[1], Mark: text[2], Text: text[3], Fresh: true}
			return nil
		}
		rec, _, lost = parseValue(text[0])
		rec.Fresh = true
		return nil
	})
	if err == nil {
		err = m.Wrap(op, lost)
	}
	return begun, rec, err
}

// texts returns the elements of a reply, which must all be texts.
func texts[A interface{ [4]string | [8]string }](reply []any) (all A, ok bool) {
	if len(reply) != len(all) {
		return all, false
	}
	for i, x := range reply {
		if all[i], ok = x.(string); !ok {
			return all, false
		}
	}
	return all, true
}

// finish runs memo/finish.
func (m *Memo) finish(ctx context.Context, op string, c *Call, state string, what []byte, keep, other time.Duration) error {
	e := m.engine
	args := append(m.args(9), c.hold.HolderID(), c.name, state, what, keep.Milliseconds(), other.Milliseconds())
	var maybe bool
	var lost error
	err := e.Ask(ctx, op, m.spec, true, func(ctx context.Context, opts run.Options) error {
		reply, err := e.Eval(ctx, opts, lua.MemoFinish, 3, args)
		if err != nil {
			if maybe = maybe || run.Classify(err) == run.Unknown; maybe {
				return engine.InDoubt(err)
			}
			return err
		}
		got := reply.Ints
		if len(got) != 2 {
			return run.Unexpected(lua.MemoFinish, got)
		}
		e.Learn(reply, got[1])
		switch got[0] {
		case 0:
			lost = engine.ErrLeaseLost
		case -1:
			lost = ErrForgotten
		}
		return nil
	})
	if err == nil {
		err = m.Wrap(op, lost)
	}
	return err
}

// A view is what memo/read shows.
type view struct {
	rec    Record
	runs   string // the call that runs
	failed Record // the last call that has failed
}

// read runs memo/read. While the call with the given name runs, it does not read the
// value.
func (m *Memo) read(ctx context.Context, op, call string) (v view, err error) {
	e := m.engine
	args := append(m.args(4), call)
	err = e.Ask(ctx, op, m.spec, true, func(ctx context.Context, opts run.Options) error {
		reply, err := e.Eval(ctx, opts, lua.MemoRead, 3, args)
		if err != nil {
			return err
		}
		if len(reply.Any) != 10 {
			return run.Unexpected(lua.MemoRead, reply.Any)
		}
		now, ok := reply.Any[0].(int64)
		left, ok2 := reply.Any[1].(int64)
		text, ok3 := texts[[8]string](reply.Any[2:])
		if !ok || !ok2 || !ok3 || !v.parse(now, left, &text) {
			return run.Unexpected(lua.MemoRead, reply.Any)
		}
		e.Learn(reply, now)
		return nil
	})
	return v, err
}

// parse takes the reply of memo/read.
func (v *view) parse(now, left int64, text *[8]string) bool {
	rec, fresh, err := parseValue(text[7])
	v.runs = text[0]
	v.failed = Record{State: Failed, Call: text[3], Mark: text[4], Text: text[5], Fresh: text[6] == "1"}
	busy := left != -2
	switch {
	case rec.State == Done:
		rec.Fresh = fresh.IsZero() || time.UnixMilli(now).Before(fresh)
	case v.failed.Fresh:
		rec = v.failed
	case busy:
		rec = Record{State: Running, Call: text[0], Mark: text[1]}
		if text[2] != "" {
			var ms int64
			ms, err = strconv.ParseInt(text[2], 10, 64)
			rec.Since = time.UnixMilli(ms)
		}
	}
	v.rec, v.rec.Busy, v.rec.Left = rec, busy, engine.LeaseLeft(left)
	return err == nil
}

// errForeign is the error for a text that no call has kept.
var errForeign = run.Both(engine.ErrKeyConflict, errors.New("the text there is none that latchkey has kept"))

// parseValue takes a value: see memo/note. fresh is until when it is fresh, zero for as
// long as it is there.
func parseValue(text string) (rec Record, fresh time.Time, err error) {
	if text == "" {
		return rec, fresh, nil
	}
	head, rest, _ := strings.Cut(text, "\n")
	part := strings.Split(head, " ")
	if len(part) != 4 {
		return rec, fresh, errForeign
	}
	until, err1 := strconv.ParseInt(part[0], 10, 64)
	made, err2 := strconv.ParseInt(part[1], 10, 64)
	mark, err3 := strconv.Atoi(part[3])
	if errors.Join(err1, err2, err3) != nil || mark < 0 || mark > len(rest) {
		return rec, fresh, errForeign
	}
	rec = Record{State: Done, Call: part[2], Mark: rest[:mark], Value: []byte(rest[mark:]), Made: time.UnixMilli(made), Fresh: until == 0}
	if until > 0 {
		fresh = time.UnixMilli(until)
	}
	return rec, fresh, nil
}

// text reads the value by a plain command.
func (m *Memo) text(ctx context.Context, op string) (text string, err error) {
	err = m.engine.Ask(ctx, op, m.spec, true, func(ctx context.Context, opts run.Options) error {
		text, err = m.engine.Text(ctx, opts, m.value)
		return err
	})
	return text, err
}

// forget runs memo/forget.
func (m *Memo) forget(ctx context.Context, op string) error {
	return m.engine.Ask(ctx, op, m.spec, true, func(ctx context.Context, opts run.Options) error {
		_, err := m.engine.Eval(ctx, opts, lua.MemoForget, 2, append(make([]any, run.Head, run.Head+2), m.note, m.value))
		return err
	})
}
