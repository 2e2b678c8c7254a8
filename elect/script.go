package elect

import (
	"context"
	"strconv"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
)

// scripts runs the scripts of an election. Only this file knows the order of KEYS and
// ARGV.
type scripts struct {
	engine  *engine.Engine
	spec    *engine.Spec
	lock    string
	record  string
	channel string
}

func newScripts(c *latchkey.Client, name string) *scripts {
	e, key := engine.Of(c), engine.Mapped(c, name)
	s := &scripts{engine: e, lock: names.Election(key), record: names.Leader(key)}
	s.channel = names.LeaderChannel(s.record)
	s.spec = e.Prepare(&engine.Spec{Kind: "elect", Name: name, Key: s.record, Keys: []string{s.record, s.lock, s.channel}})
	return s
}

// keys returns arguments that begin with the keys, with room for n in all.
func (s *scripts) keys(n int) []any {
	return append(make([]any, run.Head, run.Head+n), s.lock, s.record)
}

// kept is how long Redis keeps the record of a leader. The leader writes it at intervals
// of again, which restores one that was lost.
const (
	kept  = 24 * time.Hour
	again = time.Minute
)

// A status is the result of a script.
type status int64

const (
	done      status = 1
	refused   status = 0
	notHolder status = -1
	has       status = 2
)

// ask runs a script that replies with a status, and perhaps something else, and the
// server ms. It may be repeated.
func (s *scripts) ask(ctx context.Context, op string, script *lua.Script, args []any) (st status, n int64, err error) {
	err = s.engine.Ask(ctx, op, s.spec, true, func(ctx context.Context, opts run.Options) error {
		reply, err := s.engine.Eval(ctx, opts, script, 2, args)
		if err != nil {
			return err
		}
		got := reply.Ints
		if len(got) != 2 && len(got) != 3 {
			return run.Unexpected(script, got)
		}
		s.engine.Learn(reply, got[len(got)-1])
		st, n = status(got[0]), got[1]
		return nil
	})
	return st, n, err
}

// begin runs elect/begin. before is the zero time when the term begins.
func (s *scripts) begin(ctx context.Context, holder string, term int64, before time.Time, cfg *config) (st status, since time.Time, err error) {
	var ms int64
	if !before.IsZero() {
		ms = before.UnixMilli()
	}
	st, ms, err = s.ask(ctx, "run", lua.ElectBegin, append(s.keys(11), holder, term, cfg.identity, cfg.value,
		s.engine.Who(""), kept.Milliseconds(), s.channel, s.engine.Verb(), ms))
	return st, time.UnixMilli(ms), err
}

// offer runs elect/offer. An empty identity withdraws the offer.
func (s *scripts) offer(ctx context.Context, h *latchkey.Hold, nonce, identity string) (status, error) {
	st, _, err := s.ask(ctx, "transfer", lua.ElectOffer, append(s.keys(8), h.HolderID(), h.Token(), nonce, identity, s.channel, s.engine.Verb()))
	return st, err
}

// accept runs elect/accept.
func (s *scripts) accept(ctx context.Context, holder, nonce string, yes bool) (status, error) {
	bit := 0
	if yes {
		bit = 1
	}
	st, _, err := s.ask(ctx, "run", lua.ElectAccept, append(s.keys(7), holder, nonce, bit, s.channel, s.engine.Verb()))
	return st, err
}

// tell runs elect/tell.
func (s *scripts) tell(ctx context.Context) error {
	return s.engine.Ask(ctx, "run", s.spec, true, func(ctx context.Context, opts run.Options) error {
		_, err := s.engine.Eval(ctx, opts, lua.ElectTell, 1, append(make([]any, run.Head, run.Head+3), s.record, s.channel, s.engine.Verb()))
		return err
	})
}

// A state is what Redis shows of an election.
type state struct {
	leader   Leader // of the last term
	present  bool   // its term has not ended
	holder   string // of its lock
	left     time.Duration
	next     string // to whom the lead is offered
	nonce    string // of the offer
	accepted string // the holder to whom the lock is to be passed
	passed   bool   // it was
}

// seen returns the leader, or the zero Leader if there is none.
func (st *state) seen() Leader {
	if !st.present {
		return Leader{}
	}
	return st.leader
}

// read runs elect/read.
func (s *scripts) read(ctx context.Context, op string) (st state, err error) {
	err = s.engine.Ask(ctx, op, s.spec, true, func(ctx context.Context, opts run.Options) error {
		reply, err := s.engine.Eval(ctx, opts, lua.ElectRead, 2, s.keys(2))
		if err != nil {
			return err
		}
		got := reply.Ints // a record that is empty
		if len(got) == 4 {
			reply.Any = nil
			for _, n := range got {
				reply.Any = append(reply.Any, n)
			}
		}
		var now int64
		var ok bool
		if st, now, ok = parse(reply.Any); !ok {
			return run.Unexpected(lua.ElectRead, reply.Any)
		}
		s.engine.Learn(reply, now)
		return nil
	})
	return st, err
}

// parse takes the reply of elect/read.
func parse(reply []any) (st state, now int64, ok bool) {
	if len(reply) < 4 || len(reply)%2 != 0 {
		return st, 0, false
	}
	var n [4]int64
	for i := range n {
		if n[i], ok = reply[i].(int64); !ok {
			return st, 0, false
		}
	}
	st.left, st.present, st.passed = time.Duration(max(n[1], 0))*time.Millisecond, n[2] == 1, n[3] == 1
	l := &st.leader
	for i := 4; i < len(reply); i += 2 {
		field, ok1 := reply[i].(string)
		value, ok2 := reply[i+1].(string)
		if !ok1 || !ok2 {
			return st, 0, false
		}
		var err error
		switch field {
		case "identity":
			l.Identity = value
		case "value":
			l.Value = value
		case "term":
			l.Term.Number, err = strconv.ParseInt(value, 10, 64)
		case "since":
			var ms int64
			ms, err = strconv.ParseInt(value, 10, 64)
			l.Term.Since = time.UnixMilli(ms)
		case "who":
			who := engine.ParseWho(value)
			l.Host, l.PID = who.Host, who.PID
		case "holder":
			st.holder = value
		case "next":
			st.next = value
		case "nonce":
			st.nonce = value
		case "accepted":
			st.accepted = value
		}
		if err != nil {
			return st, 0, false
		}
	}
	return st, n[0], true
}
