// Package memo remembers in Redis what came of a call, for packages whose callers share
// the result of one.
//
// A call is made under a key, by one caller at a time: it has the lock of the key. What
// it ends with is kept for a time: a value, or an error. Others read what is kept, and
// what the call under way has said of itself (its mark), or wait for its end.
//
// # Keys and round trips
//
// For the key x and the kind flight, all in the hash slot of x:
//
//	{x}:latchkey_flight        the lock: that of package rlock, without a token
//	{x}:latchkey_flight_call   a hash: the call that runs, and the last one that failed
//	{x}:latchkey_flight_value  a text: the value
//
// Each of them expires. The Redis channel is that of the lock, on which each release is
// told. A call takes four commands: acquire, begin, finish, release. To read a value takes
// one, without a script.
//
// # What is promised
//
// Nothing is kept of a call that has lost the lock, or was forgotten meanwhile. An error
// that is not kept reaches those who waited for that call when it ended, unless another
// call has failed before they looked.
package memo

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/rlock"
)

// A Config says what a Memo is of.
type Config struct {
	Kind   string        // of the caller's package; of the keys, and of errors
	Name   string        // the key, as the user gave it
	AtMost time.Duration // how long a call may run: its lock is lost then; at least 3 ms
}

// ErrForgotten is the error of Keep and Fail if Forget was called while the call ran.
var ErrForgotten = errors.New("the call was forgotten while it ran")

// A Memo is what came of calls under one key. It is safe for concurrent use.
type Memo struct {
	locks  latchkey.Client // its objects are named by their keys
	engine *engine.Engine
	spec   *engine.Spec
	cfg    Config
	keys
}

// New returns what came of calls under cfg.Name. It does no I/O.
func New(c *latchkey.Client, cfg Config) *Memo {
	e := engine.Of(c)
	m := &Memo{engine: e, cfg: cfg}
	engine.Unprefixed(&m.locks, c)
	m.lock, m.note, m.value = names.Memo(cfg.Kind, engine.Mapped(c, cfg.Name))
	m.channel = names.Prefixed("redisson_lock__channel", m.lock)
	m.spec = e.Prepare(&engine.Spec{Kind: cfg.Kind, Name: cfg.Name, Key: m.value, Keys: []string{m.value, m.note, m.lock, m.channel}})
	return m
}

// Wrap returns err as that of a method of the caller's package, or nil for nil. An error
// that says so already is returned as it is.
func (m *Memo) Wrap(op string, err error) error {
	var said *latchkey.Error
	if errors.As(err, &said) && said.Kind == m.cfg.Kind {
		return err
	}
	return m.engine.Wrap(op, m.spec, err)
}

// A State is what came of the calls under a key.
type State int

// The states of a Record.
const (
	None    State = iota // nothing is kept, and nothing runs
	Running              // a call runs, or is about to begin or has just ended
	Done                 // a value is kept
	Failed               // an error is kept, or the caller has waited for the call that failed
)

// A Record is what Redis shows of the calls under a key.
type Record struct {
	State State
	Call  string // the name of the call that runs, or of which this is the result; may be empty
	Mark  string // its mark; empty if Call is
	Value []byte // if it is Done
	Text  string // of the error, if it has Failed
	Fresh bool   // the value is fresh, or the error kept; a value is only kept beyond that to be shown meanwhile
	Made  time.Time
	Since time.Time // when the call that runs began; zero if unknown. Both are by the server's clock
	// Busy is set while somebody has the lock, and Left is what is left of the lease.
	Busy bool
	Left time.Duration
}

// ID returns what two Memos of one client and key have in common, and no others.
func (m *Memo) ID() any { return inside{m.engine, m.lock} }

// Kept returns what is kept, Done or None, with one plain command. If the value is gone,
// or no longer fresh, Begin and Read say more. A client that sends its reads to replicas
// may see what has been forgotten a moment ago.
func (m *Memo) Kept(ctx context.Context, op string) (rec Record, err error) {
	text, err := m.text(ctx, op)
	if err != nil {
		return rec, err
	}
	rec, fresh, err := parseValue(text)
	if err != nil {
		return Record{}, m.Wrap(op, err)
	}
	if rec.State == Done && !fresh.IsZero() {
		if !m.engine.Clock.Known() {
			return m.Read(ctx, op)
		}
		rec.Fresh = m.engine.Clock.At(time.Now()).Before(fresh)
	}
	return rec, nil
}

// Read returns what is known, with one command. A value that is not fresh is Done, also
// while a call runs.
func (m *Memo) Read(ctx context.Context, op string) (Record, error) {
	v, err := m.read(ctx, op, "")
	return v.rec, err
}

// Forget forgets what is kept, and lets nothing be kept of the call that runs. Those who
// wait for that call make another one after it.
func (m *Memo) Forget(ctx context.Context, op string) error { return m.forget(ctx, op) }

// A Call is a call under way. Its caller has to end it: by Keep, Fail or Drop.
type Call struct {
	memo *Memo
	hold *latchkey.Hold
	name string
	ctx  context.Context
}

// inside is the key of a context for a call of a Memo.
type inside struct {
	engine *engine.Engine
	lock   string
}

// Inside reports whether ctx is that of a call under the key, which may not wait for
// another one: it would wait for itself.
func (m *Memo) Inside(ctx context.Context) bool { return ctx.Value(inside{m.engine, m.lock}) != nil }

// Begin begins a call, unless one runs or something is kept that is fresh: then call is
// nil, and the Record says what there is. It does not wait. Others can read mark while the
// call runs and as long as its result is kept. ErrReentry means that ctx is that of a call
// under the key.
func (m *Memo) Begin(ctx context.Context, op, mark string) (call *Call, rec Record, err error) {
	if m.Inside(ctx) {
		return nil, rec, m.Wrap(op, engine.ErrReentry)
	}
	lock := m.newLock()
	for {
		h, err := lock.TryLock(engine.WithoutHolder(ctx), latchkey.MaxHold(m.cfg.AtMost))
		var taken *latchkey.TakenError
		switch {
		case errors.As(err, &taken):
			// It may have been free again meanwhile.
			if rec, err = m.Read(ctx, op); err != nil || rec.State != None {
				return nil, rec, err
			}
			continue
		case err != nil:
			return nil, rec, m.Wrap(op, unnamed(err))
		}
		call := &Call{memo: m, hold: h, name: rand.Text()}
		begun, rec, err := m.begin(ctx, op, call, mark)
		if err != nil || !begun {
			_ = h.Unlock(ctx) // it ends with its lease at the latest
			return nil, rec, err
		}
		call.ctx = context.WithValue(engine.ContextFor(ctx, engine.HeldOf(h)), inside{m.engine, m.lock}, true)
		return call, rec, nil
	}
}

func (m *Memo) newLock() *rlock.Lock { return rlock.New(&m.locks, m.lock) }

// unnamed returns the error of the lock without what names the lock.
func unnamed(err error) error {
	var said *latchkey.Error
	if !errors.As(err, &said) {
		return err
	}
	if said.MaybeApplied() {
		return engine.InDoubt(said.Err)
	}
	return said.Err
}

// Context returns a context for the call. It is derived from that of Begin, and is done
// when the lock is lost, when AtMost is over and when the call has ended.
func (c *Call) Context() context.Context { return c.ctx }

// Keep ends the call: value is kept for ttl. It is fresh for that time, or for fresh if
// that is not 0.
//
// ErrLeaseLost means that nothing was kept, since the lock was lost, and ErrForgotten that
// Forget was called meanwhile. If Redis has refused the value, those who wait get that
// error. After any other error the value may have been kept; see MaybeApplied.
//
// Keep, Fail and Drop ignore the cancellation of ctx. The lock is released in any case,
// or ends with its lease.
func (c *Call) Keep(ctx context.Context, op string, value []byte, ttl, fresh time.Duration) error {
	ctx = context.WithoutCancel(ctx)
	err := c.memo.finish(ctx, op, c, "done", value, ttl, fresh)
	if run.Classify(err) == run.Permanent {
		_ = c.memo.finish(ctx, op, c, "failed", []byte(unnamed(err).Error()), 0, c.memo.lingers())
	}
	c.release(ctx)
	return err
}

// Fail ends the call with an error: those who wait for the call get its text. It is kept
// for ttl, also for those who come later; 0 is not at all. The errors are those of Keep.
func (c *Call) Fail(ctx context.Context, op, text string, ttl time.Duration) error {
	ctx = context.WithoutCancel(ctx)
	err := c.memo.finish(ctx, op, c, "failed", []byte(text), ttl, c.memo.lingers())
	c.release(ctx)
	return err
}

// Drop ends the call without a result: one of those who wait makes another one.
func (c *Call) Drop(ctx context.Context, op string) error {
	ctx = context.WithoutCancel(ctx)
	err := c.memo.finish(ctx, op, c, "dropped", nil, 0, 0)
	c.release(ctx)
	return err
}

// release releases the lock, and so tells those who wait.
func (c *Call) release(ctx context.Context) {
	_ = c.hold.Unlock(ctx) // it ends with its lease at the latest
}

// lingers returns for how long an error is found by those who have waited: some rechecks.
func (m *Memo) lingers() time.Duration { return max(10*time.Second, 2*m.engine.Recheck()) }
