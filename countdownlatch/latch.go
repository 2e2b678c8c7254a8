package countdownlatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
)

// A Latch is a count-down latch on a client. It is safe for concurrent use.
type Latch struct {
	engine  *engine.Engine
	spec    *engine.Spec // its line holds the callers that wait for the end of a count
	setSpec *engine.Spec // its line holds the callers that wait for a count to begin
	scripts *scripts
}

// New returns the latch with the given name. It does no I/O. It panics if c is
// nil or the name is empty.
func New(c *latchkey.Client, name string) *Latch {
	if c == nil {
		panic("countdownlatch: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("countdownlatch: New: %v", err))
	}
	e := engine.Of(c)
	s := newScripts(e, engine.Mapped(c, name))
	return &Latch{
		engine:  e,
		spec:    e.Prepare(s.spec(name, "countdownlatch ")),
		setSpec: e.Prepare(s.spec(name, "countdownlatch set ")),
		scripts: s,
	}
}

// Name returns the name of the latch.
func (l *Latch) Name() string { return l.spec.Name }

// TrySetCount begins a count of n and reports whether it did. It does nothing
// while a count is running. n is at least 1. (Redisson also accepts 0, which
// makes a latch that is open and cannot be set again.)
func (l *Latch) TrySetCount(ctx context.Context, n int64) (set bool, err error) {
	const op = "set-count"
	switch {
	case n < 1:
		return false, l.engine.Wrap(op, l.spec, fmt.Errorf("a count of %d: the least is 1", n))
	case n > engine.MaxCount:
		return false, l.engine.Wrap(op, l.spec, fmt.Errorf("a count of %d: the most is %d", n, int64(engine.MaxCount)))
	}
	r := l.request()
	err = l.engine.Change(ctx, op, l.spec, func(ctx context.Context, opts run.Options, d run.Deadline) (v engine.Status, err error) {
		r.deadline = d
		v, err = l.scripts.set(ctx, l.engine, opts, r, n)
		set = v == engine.Granted
		return v, err
	})
	r.done(err)
	return set, err
}

// CountDown decrements the count. At 0 the count ends and its waiters are
// released. If no count is running, CountDown does nothing.
//
// CountDown ignores the cancellation of ctx, so that a deferred CountDown
// works; it stops after the unlock timeout (WithUnlockTimeout).
func (l *Latch) CountDown(ctx context.Context) error {
	r := l.request()
	err := l.engine.Return(ctx, "count-down", l.spec, func(ctx context.Context, opts run.Options, d run.Deadline) (engine.Status, error) {
		r.deadline = d
		return l.scripts.countDown(ctx, l.engine, opts, r)
	})
	r.done(err)
	return err
}

// Count returns the remaining count, or 0 if none is running.
func (l *Latch) Count(ctx context.Context) (n int64, err error) {
	err = l.engine.Ask(ctx, "count", l.spec, true, func(ctx context.Context, opts run.Options) error {
		st, err := l.scripts.state(ctx, l.engine, opts)
		n = st.left
		return err
	})
	return n, err
}

// Await waits until the count has ended or ctx is done. If ctx ended the wait,
// the error is ctx's own. If no count is running, Await returns at once, even
// if none has ever begun: see AwaitSet.
func (l *Latch) Await(ctx context.Context) error {
	return l.await(ctx, "await", l.spec, &look{latch: l})
}

// AwaitSet is Await, except that it first waits for a count to begin if none is
// running. It is for callers that may come before the count is set. A count
// that ended before the call does not release them.
func (l *Latch) AwaitSet(ctx context.Context) error {
	const op = "await-set"
	begin := &look{latch: l, begin: true}
	if err := l.await(ctx, op, l.setSpec, begin); err != nil || begin.over {
		return err
	}
	return l.await(ctx, op, l.spec, &look{latch: l, looked: true, ended: begin.ended})
}

func (l *Latch) await(ctx context.Context, op string, s *engine.Spec, w *look) error {
	return l.engine.Until(ctx, op, s, &engine.LockConfig{}, false, w)
}

// Delete ends the count, whatever remains of it, and reports whether one was
// running. Waiters are released, in Java too. (Redisson's own delete does not
// wake its waiters.)
func (l *Latch) Delete(ctx context.Context) (deleted bool, err error) {
	err = l.engine.Ask(ctx, "delete", l.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		deleted, err = l.scripts.delete(ctx, l.engine, opts)
		return err
	})
	return deleted, err
}

// A look is one caller's wait for a state of the latch. The head of the line
// asks for all.
type look struct {
	latch  *Latch
	begin  bool // it waits for a count to begin, not for its end
	looked bool
	ended  int64 // when a count had last ended, in the last reply
	over   bool  // a count has ended since then
}

// Ask reads the state of the latch. If a count has ended since the last reply,
// the waiters of that time are released, even if another count is running. The
// times are compared only for equality, because the server's clock may have
// been set between them.
func (w *look) Ask(ctx context.Context, opts run.Options, _ run.Deadline) (engine.Answer, error) {
	st, err := w.latch.scripts.state(ctx, w.latch.engine, opts)
	if err != nil {
		return engine.Answer{}, err
	}
	w.over = w.looked && st.ended != 0 && st.ended != w.ended
	w.looked, w.ended = true, st.ended
	if !w.begin && st.left <= 0 || w.begin && st.running && !w.over {
		return engine.Answer{Status: engine.Granted}, nil
	}
	if w.over {
		return engine.Answer{Status: engine.Granted, Earlier: true}, nil
	}
	return engine.Answer{Status: engine.Refused}, nil
}

// Succeeds takes over the last reply of the previous head of the line.
func (w *look) Succeeds(before engine.Want) {
	b := before.(*look)
	w.looked, w.ended = b.looked, b.ended
}

// Admitted copies what ended the wait of by, which also ends that of w.
func (w *look) Admitted(by engine.Want) {
	b := by.(*look)
	w.over, w.ended = b.over, b.ended
}

// Got does nothing: a latch is reached, not held.
func (*look) Got() error { return nil }

// Undo is never called.
func (*look) Undo(context.Context, run.Options) (engine.Status, error) {
	return engine.Unchanged, nil
}

// Kept returns 0: a look changes nothing.
func (*look) Kept() time.Duration { return 0 }

// A request may be repeated: the script remembers its claim and number.
type request struct {
	engine   *engine.Engine
	ticket   *engine.Ticket
	claim    string // key of the claim
	deadline run.Deadline
}

func (l *Latch) request() *request {
	t := l.engine.Ticket()
	return &request{engine: l.engine, ticket: t, claim: names.Claim(l.spec.Key, t.ID)}
}

// done returns the ticket for reuse, unless the request may still be on its
// way.
func (r *request) done(err error) {
	var e *latchkey.Error
	if errors.As(err, &e) && e.MaybeApplied() {
		return
	}
	r.engine.PutTicket(r.ticket)
}
