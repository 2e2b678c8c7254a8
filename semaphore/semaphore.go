package semaphore

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

// A Semaphore is a counting semaphore on a client. It is safe for concurrent
// use.
type Semaphore struct {
	engine  *engine.Engine
	spec    *engine.Spec
	scripts *scripts
}

// New returns the semaphore with the given name. It does no I/O. It panics if c
// is nil or the name is empty.
func New(c *latchkey.Client, name string) *Semaphore {
	if c == nil {
		panic("semaphore: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("semaphore: New: %v", err))
	}
	e := engine.Of(c)
	s := newScripts(engine.Mapped(c, name))
	return &Semaphore{engine: e, spec: e.Prepare(s.spec(name)), scripts: s}
}

// Name returns the name of the semaphore.
func (s *Semaphore) Name() string { return s.spec.Name }

// A SetOption configures one TrySetPermits.
type SetOption interface{ apply(*setConfig) }

type setConfig struct {
	ttl time.Duration
	err error
}

type setOptionFunc func(*setConfig)

func (f setOptionFunc) apply(c *setConfig) { f(c) }

// TTL makes the semaphore expire d after it was created, with whatever permits
// it has then. At least 1 ms; d is truncated to milliseconds.
func TTL(d time.Duration) SetOption {
	return setOptionFunc(func(c *setConfig) { c.ttl, c.err = d.Truncate(time.Millisecond), engine.CheckTime("a TTL", d) })
}

// TrySetPermits creates the semaphore with n permits and reports whether it
// did. If the semaphore exists, even without permits, it does nothing. Waiters
// are woken.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int, opts ...SetOption) (set bool, err error) {
	const op = "set-permits"
	var cfg setConfig
	for _, o := range opts {
		o.apply(&cfg)
	}
	if err := errors.Join(engine.CheckCount(int64(n), 0), cfg.err); err != nil {
		return false, s.engine.Wrap(op, s.spec, err)
	}
	err = s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (v engine.Status, err error) {
		v, err = s.scripts.set(ctx, s.engine, opts, r, n, cfg.ttl)
		set = v == engine.Granted
		return v, err
	})
	return set, err
}

// Acquire takes n permits, waiting until n are available at once or ctx is
// done. Earlier callers of this client are served first.
//
// If the error is nil, the permits are taken. Otherwise none is: what Redis may
// have granted without a reply is given back in the background. If ctx ended
// the wait, the error is ctx's own. Acquire of 0 permits succeeds at once; a
// negative n is an error.
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	return s.acquire(ctx, "acquire", n, &engine.LockConfig{}, false)
}

// TryAcquire takes n permits if n are available now, or, with the option Wait,
// within that time. Otherwise the error is ErrNotAcquired. Wait is the only
// option that TryAcquire accepts, because these permits have no lease.
func (s *Semaphore) TryAcquire(ctx context.Context, n int, opts ...latchkey.LockOption) error {
	return s.acquire(ctx, "tryacquire", n, engine.NewLockConfig(opts), true)
}

var errOptions = errors.New("the permits of a plain semaphore have no lease and no holder: Wait is the only option")

func (s *Semaphore) acquire(ctx context.Context, op string, n int, cfg *engine.LockConfig, try bool) error {
	err := engine.CheckCount(int64(n), 0)
	if cfg.Lease > 0 || cfg.MaxHold > 0 || cfg.AtLeast > 0 || cfg.Label != "" || cfg.Permanent {
		err = errOptions
	}
	if err != nil || n == 0 {
		return s.engine.Wrap(op, s.spec, err)
	}
	w := &want{semaphore: s, n: n, request: newRequest(s)}
	err = s.engine.Until(ctx, op, s.spec, cfg, try, w)
	w.request.done(err)
	return err
}

// Do calls fn with n permits taken and gives them back however fn ends, even by
// a panic, and even if ctx is cancelled by then. It waits as Acquire does. With
// the option Wait it waits as TryAcquire does, and may return ErrNotAcquired.
// Wait is the only option that Do accepts.
//
// fn receives ctx itself, because these permits have no lease that could be
// lost. Do returns fn's error unchanged. If the permits could not be given
// back, that error is joined to it.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(context.Context) error, opts ...latchkey.LockOption) error {
	if err := s.acquire(ctx, "acquire", n, engine.NewLockConfig(opts), false); err != nil {
		return err
	}
	return engine.During(
		func() error { return fn(ctx) },
		func() error { return s.Release(ctx, n) },
	)
}

// Release gives n permits back, or adds them: their origin does not matter. It
// creates the semaphore if there is none. Waiters are woken.
//
// Release ignores the cancellation of ctx, so that a deferred Release works; it
// stops after the unlock timeout (WithUnlockTimeout). Release of 0 permits does
// nothing; a negative n is an error.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	_, err := s.release(ctx, "release", n, false)
	return err
}

// ReleaseIfExists is Release, except that it does nothing and reports false if
// there is no semaphore.
func (s *Semaphore) ReleaseIfExists(ctx context.Context, n int) (released bool, err error) {
	return s.release(ctx, "release-if-exists", n, true)
}

func (s *Semaphore) release(ctx context.Context, op string, n int, existing bool) (released bool, err error) {
	if err := engine.CheckCount(int64(n), 0); err != nil || n == 0 {
		return false, s.engine.Wrap(op, s.spec, err)
	}
	all := n
	if !existing {
		if n = s.engine.HandOn(s.spec, n); n == 0 {
			return true, nil
		}
	}
	r := newRequest(s)
	err = s.engine.Return(ctx, op, s.spec, func(ctx context.Context, opts run.Options, d run.Deadline) (v engine.Status, err error) {
		r.deadline = d
		v, err = s.scripts.release(ctx, s.engine, opts, &r, n, existing)
		released = v == engine.Granted
		return v, err
	})
	r.done(err)
	return released && engine.Done(err), s.engine.Partly(op, s.spec, all-n, all, err)
}

// AddPermits changes the number of available permits by n. n may be negative
// and may take the number below 0; holders bring it back by releasing their
// permits. AddPermits creates the semaphore if there is none, and leaves the
// TTL of an existing one unchanged. n of 0 does nothing. Waiters are woken.
func (s *Semaphore) AddPermits(ctx context.Context, n int) error {
	const op = "add-permits"
	if err := engine.CheckCount(int64(n), -engine.MaxCount); err != nil || n == 0 {
		return s.engine.Wrap(op, s.spec, err)
	}
	return s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (engine.Status, error) {
		return s.scripts.release(ctx, s.engine, opts, r, n, false)
	})
}

// DrainPermits takes all available permits and returns their number. If the
// number was negative, it returns that negative number and sets the number to
// 0. The TTL of the semaphore is unchanged.
func (s *Semaphore) DrainPermits(ctx context.Context) (n int, err error) {
	// A drain is remembered in a form of its own, so no other request may use
	// its ticket.
	r := newRequest(s)
	err = s.engine.Change(ctx, "drain-permits", s.spec, func(ctx context.Context, opts run.Options, d run.Deadline) (v engine.Status, err error) {
		r.deadline = d
		n, v, err = s.scripts.drain(ctx, s.engine, opts, &r)
		return v, err
	})
	return n, err
}

// AvailablePermits returns the number of available permits. It is 0 if there is
// no semaphore, and negative after AddPermits took away more than there were.
func (s *Semaphore) AvailablePermits(ctx context.Context) (n int, err error) {
	err = s.engine.Ask(ctx, "available-permits", s.spec, true, func(ctx context.Context, opts run.Options) (err error) {
		n, err = s.scripts.state(ctx, s.engine, opts)
		return err
	})
	return n, err
}

// Delete removes the semaphore and reports whether there was one. Waiters
// continue to wait.
func (s *Semaphore) Delete(ctx context.Context) (deleted bool, err error) {
	err = s.engine.Ask(ctx, "delete", s.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		deleted, err = s.scripts.delete(ctx, s.engine, opts)
		return err
	})
	return deleted, err
}

// change runs f, which makes one repeatable request.
func (s *Semaphore) change(ctx context.Context, op string, f func(context.Context, run.Options, *request) (engine.Status, error)) error {
	r := newRequest(s)
	err := s.engine.Change(ctx, op, s.spec, func(ctx context.Context, opts run.Options, d run.Deadline) (engine.Status, error) {
		r.deadline = d
		return f(ctx, opts, &r)
	})
	r.done(err)
	return err
}
