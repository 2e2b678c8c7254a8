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

// A Semaphore is a counting semaphore on a client. Goroutines may share it.
type Semaphore struct {
	engine  *engine.Engine
	spec    *engine.Spec
	scripts *scripts
}

// New returns the semaphore of that name. It does no I/O. It panics when c is
// nil or the name is empty.
func New(c *latchkey.Client, name string) *Semaphore {
	if c == nil {
		panic("semaphore: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("semaphore: New: %v", err))
	}
	e := engine.Of(c)
	s := newScripts(e.Mapped(name))
	return &Semaphore{engine: e, spec: e.Prepare(s.spec(name)), scripts: s}
}

// Name returns the name of the semaphore.
func (s *Semaphore) Name() string { return s.spec.Name }

// A SetOption changes one TrySetPermits.
type SetOption interface{ apply(*setConfig) }

type setConfig struct {
	ttl time.Duration
	err error
}

type setOptionFunc func(*setConfig)

func (f setOptionFunc) apply(c *setConfig) { f(c) }

// TTL makes the semaphore vanish d after it was set, with whatever permits it
// has then. At least 1 ms; milliseconds count.
func TTL(d time.Duration) SetOption {
	return setOptionFunc(func(c *setConfig) { c.ttl, c.err = d.Truncate(time.Millisecond), engine.CheckTime("a TTL", d) })
}

// TrySetPermits makes the semaphore with n permits, and reports whether it did:
// it does nothing when there is one, be it without permits. Waiters are woken.
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

// Acquire takes n permits, waiting until so many are available at once or ctx is
// done. Those of this client who came earlier are served earlier.
//
// If the error is nil, they are taken. Otherwise none is: what may have been
// taken in Redis without an answer is given back in the background. The error is
// ctx's own when ctx ended the wait. No permits (n of 0) are always there; a
// negative n is an error.
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	return s.acquire(ctx, "acquire", n, &engine.LockConfig{}, false)
}

// TryAcquire takes n permits if so many are available now, or, with the option
// Wait, within that time. If they are not, the error is ErrNotAcquired. Wait is
// the only option that it takes: these permits have no lease.
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

// Do runs fn with n permits, and gives them back however fn ends, by a panic too,
// and although ctx is cancelled by then. It waits as Acquire does, or, with the
// option Wait, as TryAcquire: then ErrNotAcquired. Wait is the only option that it
// takes.
//
// fn gets ctx as it is: these permits have no lease, and nothing is lost that it
// could hear of. Do returns fn's error as it is; if the permits could not be given
// back, that is joined to it.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(context.Context) error, opts ...latchkey.LockOption) error {
	if err := s.acquire(ctx, "acquire", n, engine.NewLockConfig(opts), false); err != nil {
		return err
	}
	return engine.During(
		func() error { return fn(ctx) },
		func() error { return s.Release(ctx, n) },
	)
}

// Release gives n permits back, or adds them: nobody asks where they come from.
// It makes the semaphore when there is none. Waiters are woken.
//
// It does not stop when ctx is cancelled, so that a deferred Release works, but
// after the unlock timeout (WithUnlockTimeout). To release no permits (n of 0)
// does nothing; a negative n is an error.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	_, err := s.release(ctx, "release", n, false)
	return err
}

// ReleaseIfExists is Release, but does nothing, and reports false, when there is
// no semaphore.
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

// AddPermits changes the number of available permits by n, which may be
// negative: then the number may go below 0, and those who hold permits bring it
// back by releasing them. It makes the semaphore when there is none; the TTL of
// one that has one stays. To add 0 does nothing. Waiters are woken.
func (s *Semaphore) AddPermits(ctx context.Context, n int) error {
	const op = "add-permits"
	if err := engine.CheckCount(int64(n), -engine.MaxCount); err != nil || n == 0 {
		return s.engine.Wrap(op, s.spec, err)
	}
	return s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (engine.Status, error) {
		return s.scripts.release(ctx, s.engine, opts, r, n, false)
	})
}

// DrainPermits takes all permits that are available and returns how many these
// were. When there were less than none, it returns that negative number, and
// then there are none. The TTL of a semaphore that has one stays.
func (s *Semaphore) DrainPermits(ctx context.Context) (n int, err error) {
	// What was drained is remembered in a form of its own: nobody else may use
	// the ticket.
	r := newRequest(s)
	err = s.engine.Change(ctx, "drain-permits", s.spec, func(ctx context.Context, opts run.Options, d run.Deadline) (v engine.Status, err error) {
		r.deadline = d
		n, v, err = s.scripts.drain(ctx, s.engine, opts, &r)
		return v, err
	})
	return n, err
}

// AvailablePermits returns how many permits are available; 0 when there is no
// semaphore, and less than 0 after AddPermits took away more than there were.
func (s *Semaphore) AvailablePermits(ctx context.Context) (n int, err error) {
	err = s.engine.Ask(ctx, "available-permits", s.spec, true, func(ctx context.Context, opts run.Options) (err error) {
		n, err = s.scripts.state(ctx, s.engine, opts)
		return err
	})
	return n, err
}

// Delete removes the semaphore and reports whether there was one. Who waits for
// permits goes on waiting.
func (s *Semaphore) Delete(ctx context.Context) (deleted bool, err error) {
	err = s.engine.Ask(ctx, "delete", s.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		deleted, err = s.scripts.delete(ctx, s.engine, opts)
		return err
	})
	return deleted, err
}

// change runs f, which makes one request that may be made again.
func (s *Semaphore) change(ctx context.Context, op string, f func(context.Context, run.Options, *request) (engine.Status, error)) error {
	r := newRequest(s)
	err := s.engine.Change(ctx, op, s.spec, func(ctx context.Context, opts run.Options, d run.Deadline) (engine.Status, error) {
		r.deadline = d
		return f(ctx, opts, &r)
	})
	r.done(err)
	return err
}
