package permitsemaphore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
)

// A Semaphore is a semaphore on a client whose permits have leases. It is safe
// for concurrent use.
type Semaphore struct {
	engine  *engine.Engine
	spec    *engine.Spec
	scripts *scripts
}

// New returns the semaphore with the given name. It does no I/O. It panics if c
// is nil or the name is empty.
func New(c *latchkey.Client, name string) *Semaphore {
	if c == nil {
		panic("permitsemaphore: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("permitsemaphore: New: %v", err))
	}
	e := engine.Of(c)
	s := newScripts(engine.Mapped(c, name))
	return &Semaphore{engine: e, spec: e.Prepare(s.spec(name)), scripts: s}
}

// Name returns the name of the semaphore.
func (s *Semaphore) Name() string { return s.spec.Name }

// Permanent gives the permit a lease without end, as Redisson does by default.
// Nothing renews the permit, and only a release of its id brings it back.
func Permanent() latchkey.LockOption {
	return engine.LockOptionFunc(func(c *engine.LockConfig) { c.Permanent = true })
}

// Acquire takes one permit, waiting until one is available or ctx is done. It
// accepts the options Label, Lease, MaxHold, Permanent and Wait. With Wait it
// gives up as TryAcquire does.
//
// If the error is nil, the caller has the permit until it releases it or the
// lease is lost; see [Permit]. Otherwise the caller has none: what Redis may
// have granted without a reply is given back in the background, or ends with
// its lease. If ctx ended the wait, the error is ctx's own.
func (s *Semaphore) Acquire(ctx context.Context, opts ...latchkey.LockOption) (*Permit, error) {
	return first(s.acquire(ctx, "acquire", 1, false, opts))
}

// AcquireN is Acquire for n permits, all or none. Each permit has a lease of
// its own and is released by itself. n of 0 succeeds at once; n is at most
// 100,000. The request occupies Redis for about 2 ms for each 1,000 permits.
func (s *Semaphore) AcquireN(ctx context.Context, n int, opts ...latchkey.LockOption) ([]*Permit, error) {
	return s.acquire(ctx, "acquire", n, false, opts)
}

// TryAcquire is Acquire that takes one permit only if one is available now, or,
// with the option Wait, within that time. Otherwise the error is
// ErrNotAcquired.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...latchkey.LockOption) (*Permit, error) {
	return first(s.acquire(ctx, "tryacquire", 1, true, opts))
}

// TryAcquireN is TryAcquire for n permits, all or none.
func (s *Semaphore) TryAcquireN(ctx context.Context, n int, opts ...latchkey.LockOption) ([]*Permit, error) {
	return s.acquire(ctx, "tryacquire", n, true, opts)
}

func first(permits []*Permit, err error) (*Permit, error) {
	if err != nil {
		return nil, err
	}
	return permits[0], nil
}

var errOptions = errors.New("permits take the options Label, Lease, MaxHold, Permanent and Wait only")

// mostAtOnce is the most permits of one request: each has an id, and Redis 6.2
// accepts at most a million arguments.
const mostAtOnce = 100_000

func (s *Semaphore) acquire(ctx context.Context, op string, n int, try bool, opts []latchkey.LockOption) ([]*Permit, error) {
	cfg := engine.NewLockConfig(opts)
	err := engine.CheckCount(int64(n), 0)
	switch {
	case cfg.AtLeast > 0:
		err = errOptions
	case n > mostAtOnce:
		err = fmt.Errorf("%d permits at once: the most is %d", n, mostAtOnce)
	}
	if err != nil || n == 0 {
		return nil, s.engine.Wrap(op, s.spec, err)
	}
	w := newWant(ctx, s, n, cfg)
	if err := s.engine.Until(ctx, op, s.spec, cfg, try, w); err != nil {
		return nil, err
	}
	for _, p := range w.permits {
		p.leash = p.lease.Leash()
	}
	return w.permits, nil
}

// Do takes one permit, calls fn with the Permit's Context, and gives the permit
// back however fn ends, even by a panic, and even if ctx is cancelled by then.
// It accepts the options of Acquire. With Wait it gives up as TryAcquire does.
//
// Do returns fn's error unchanged. If the permit was lost meanwhile, or could
// not be given back, that error is joined to it. If errors.Is finds
// ErrLeaseLost, fn may have run on without the permit.
func (s *Semaphore) Do(ctx context.Context, fn func(context.Context) error, opts ...latchkey.LockOption) error {
	p, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	return engine.During(
		func() error { return fn(p.Context()) },
		func() error { return p.Release(ctx) },
	)
}

// Release gives back the permits with the given ids, all or none, whoever
// acquired them. If one of them is not out, because it was released before, its
// lease is over, or it never existed, then none is given back, and the error is
// an ErrNotHeld that names it. A caller that has the Permit should use
// Permit.Release instead.
//
// Release ignores the cancellation of ctx, so that a deferred Release works; it
// stops after the unlock timeout (WithUnlockTimeout).
func (s *Semaphore) Release(ctx context.Context, ids ...string) error {
	unknown, err := s.release(ctx, "release", ids)
	if err == nil && len(unknown) > 0 {
		err = s.engine.Wrap("release", s.spec, unknownError(unknown))
	}
	return err
}

// TryRelease is Release that returns how many permits it gave back: all, or 0
// if one of them is not out, which is not an error here.
func (s *Semaphore) TryRelease(ctx context.Context, ids ...string) (int, error) {
	unknown, err := s.release(ctx, "tryrelease", ids)
	if err != nil || len(unknown) > 0 {
		return 0, err
	}
	return len(ids), nil
}

// unknownError is the error of a release of ids that are not out.
type unknownError []string

func (e unknownError) Error() string { return engine.ErrNotHeld.Error() + ": " + strings.Join(e, ", ") }

// Unwrap returns ErrNotHeld.
func (unknownError) Unwrap() error { return engine.ErrNotHeld }

// release gives ids back, all or none, and returns those that are not out.
func (s *Semaphore) release(ctx context.Context, op string, ids []string) (unknown []string, err error) {
	raw := make([]string, len(ids))
	for i, id := range ids {
		var ok bool
		if raw[i], ok = decodeID(id); !ok {
			unknown = append(unknown, id)
		}
	}
	switch sorted := slices.Sorted(slices.Values(raw)); {
	case len(ids) == 0:
		return nil, s.engine.Wrap(op, s.spec, errors.New("no ids of permits are given"))
	case len(unknown) > 0:
		return unknown, nil
	case len(slices.Compact(sorted)) < len(ids):
		return nil, s.engine.Wrap(op, s.spec, errors.New("the id of a permit is given twice"))
	}
	ended := s.engine.Returning(s.spec, raw)
	maybe := false
	err = s.engine.Return(ctx, op, s.spec, func(ctx context.Context, opts run.Options, _ run.Deadline) (engine.Status, error) {
		out, err := s.scripts.Free(ctx, s.engine, opts, raw, true, true)
		unknown = nil
		for i, there := range out {
			if !there {
				unknown = append(unknown, ids[i])
			}
		}
		if maybe && len(unknown) == len(ids) {
			unknown = nil // an earlier request, whose reply was lost, has given them back
		}
		maybe = maybe || run.Classify(err) == run.Unknown
		return engine.Granted, err
	})
	ended(engine.Done(err) && len(unknown) == 0)
	return unknown, err
}

// TrySetPermits creates the semaphore with n permits and reports whether it
// did. If the semaphore exists, it does nothing. Waiters are woken.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (set bool, err error) {
	const op = "set-permits"
	if err := engine.CheckCount(int64(n), 0); err != nil {
		return false, s.engine.Wrap(op, s.spec, err)
	}
	err = s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (v engine.Status, err error) {
		v, err = s.scripts.set(ctx, s.engine, opts, r, n)
		set = v == engine.Granted
		return v, err
	})
	return set, err
}

// SetPermits sets the number of permits, available and out together, to n. It
// creates the semaphore if there is none. Permits that are out stay out: if
// there are more of them than n, the number available is negative until enough
// of them have come back. Waiters are woken.
func (s *Semaphore) SetPermits(ctx context.Context, n int) error {
	const op = "set-permits"
	if err := engine.CheckCount(int64(n), 0); err != nil {
		return s.engine.Wrap(op, s.spec, err)
	}
	return s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (engine.Status, error) {
		return s.scripts.resize(ctx, s.engine, opts, r, n)
	})
}

// AddPermits changes the number of permits by n. n may be negative and may take
// the number available below 0, until permits that are out have come back.
// AddPermits creates the semaphore if there is none, and leaves the TTL of an
// existing one unchanged. n of 0 does nothing. Waiters are woken.
func (s *Semaphore) AddPermits(ctx context.Context, n int) error {
	const op = "add-permits"
	if err := engine.CheckCount(int64(n), -engine.MaxCount); err != nil || n == 0 {
		return s.engine.Wrap(op, s.spec, err)
	}
	return s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (engine.Status, error) {
		return s.scripts.add(ctx, s.engine, opts, r, n)
	})
}

// change runs f, which makes one repeatable request.
func (s *Semaphore) change(ctx context.Context, op string, f func(context.Context, run.Options, *request) (engine.Status, error)) error {
	r := s.request()
	err := s.engine.Change(ctx, op, s.spec, func(ctx context.Context, opts run.Options, d run.Deadline) (engine.Status, error) {
		r.deadline = d
		return f(ctx, opts, r)
	})
	r.done(err)
	return err
}

// AvailablePermits returns the number of available permits, including those
// whose lease is over. It is 0 if there is no semaphore.
func (s *Semaphore) AvailablePermits(ctx context.Context) (int, error) {
	st, err := s.state(ctx, "available-permits")
	return st.available, err
}

// AcquiredPermits returns the number of permits that are out.
func (s *Semaphore) AcquiredPermits(ctx context.Context) (int, error) {
	st, err := s.state(ctx, "acquired-permits")
	return st.out, err
}

// Permits returns the number of permits, available and out together. It is 0 if
// there is no semaphore.
func (s *Semaphore) Permits(ctx context.Context) (int, error) {
	st, err := s.state(ctx, "permits")
	return st.available + st.out, err
}

func (s *Semaphore) state(ctx context.Context, op string) (st state, err error) {
	err = s.engine.Ask(ctx, op, s.spec, true, func(ctx context.Context, opts run.Options) (err error) {
		st, err = s.scripts.state(ctx, s.engine, opts)
		return err
	})
	return st, err
}

// UpdateLease sets the lease of the permit with the given id to end at lease
// from now, longer or shorter than before. A negative lease makes the permit
// permanent; otherwise lease is at least 1 ms. UpdateLease reports false if the
// permit is not out or its lease is over. If the Permit belongs to this client,
// the watchdog no longer renews it, it has no MaxHold any more, and it is lost
// at once if the lease is less than 3 ms.
func (s *Semaphore) UpdateLease(ctx context.Context, id string, lease time.Duration) (updated bool, err error) {
	const op = "update-lease"
	if lease >= 0 {
		if err := engine.CheckTime("a lease", lease); err != nil {
			return false, s.engine.Wrap(op, s.spec, err)
		}
	}
	raw, ok := decodeID(id)
	if !ok {
		return false, nil
	}
	lease = max(lease.Truncate(time.Millisecond), 0)
	sent := s.engine.Instant() // the first request may be the one that takes effect
	err = s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (engine.Status, error) {
		v, err := s.scripts.update(ctx, s.engine, opts, r, raw, lease)
		if updated = v == engine.Granted; updated {
			s.engine.Relet(s.spec, raw, sent, lease)
		}
		return v, err
	})
	return updated, err
}

// ExtendLease makes the lease of the permit with the given id last until at least
// lease from now, and reports false if the permit is not out or its lease is over.
// It never shortens a lease. lease is at least 1 ms. It is for a permit that
// outlives the process that took it; the Permit in that process does not learn of
// it. A caller that has the Permit should use Permit.Extend instead.
func (s *Semaphore) ExtendLease(ctx context.Context, id string, lease time.Duration) (extended bool, err error) {
	raw, ok := decodeID(id)
	if !ok {
		return false, nil
	}
	return s.engine.ExtendHolder(ctx, "extend", s.spec, raw, 1, lease)
}

// LeaseTime returns how long the lease of the permit with the given id lasts if
// nobody renews it, or -1 if it is permanent. If the permit is not out or its
// lease is over, the error is ErrNotHeld.
func (s *Semaphore) LeaseTime(ctx context.Context, id string) (left time.Duration, err error) {
	const op = "lease-time"
	raw, ok := decodeID(id)
	if ok {
		err = s.engine.Ask(ctx, op, s.spec, true, func(ctx context.Context, opts run.Options) (err error) {
			left, ok, err = s.scripts.lease(ctx, s.engine, opts, raw)
			return err
		})
	}
	if err == nil && !ok {
		err = s.engine.Wrap(op, s.spec, unknownError{id})
	}
	return left, err
}

// Delete removes the semaphore and all permits that are out, and reports
// whether there was one. A holder whose permit the watchdog renews learns of it
// within one renewal. Waiters continue to wait. The labels of more than 500
// permits last until their leases would have ended.
func (s *Semaphore) Delete(ctx context.Context) (deleted bool, err error) {
	err = s.engine.Ask(ctx, "delete", s.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		deleted, err = s.scripts.delete(ctx, s.engine, opts)
		return err
	})
	return deleted, err
}

// idSize is the number of bytes of a permit's id in Redis. Users see the id in
// hex.
const idSize = 16

// decodeID returns an id as it is in Redis, or false if it cannot be one.
func decodeID(id string) (raw string, ok bool) {
	b, err := hex.DecodeString(id)
	return string(b), err == nil && len(b) == idSize
}
