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

// A Semaphore is a semaphore of permits with leases, on a client. Goroutines may
// share it.
type Semaphore struct {
	engine  *engine.Engine
	spec    *engine.Spec
	scripts *scripts
}

// New returns the semaphore of that name. It does no I/O. It panics when c is
// nil or the name is empty.
func New(c *latchkey.Client, name string) *Semaphore {
	if c == nil {
		panic("permitsemaphore: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("permitsemaphore: New: %v", err))
	}
	e := engine.Of(c)
	s := newScripts(e.Mapped(name))
	return &Semaphore{engine: e, spec: e.Prepare(s.spec(name)), scripts: s}
}

// Name returns the name of the semaphore.
func (s *Semaphore) Name() string { return s.spec.Name }

// Permanent gives the permit a lease without end, as Redisson does by default:
// nothing renews it, and nothing but a release of its id brings it back.
func Permanent() latchkey.LockOption {
	return engine.LockOptionFunc(func(c *engine.LockConfig) { c.Permanent = true })
}

// Acquire takes one permit, waiting until one is available or ctx is done. It
// takes the options Label, Lease, MaxHold, Permanent and Wait; with Wait it gives up as
// TryAcquire does.
//
// If the error is nil, the caller has the permit until it releases it or the
// lease is lost; see [Permit]. Otherwise it has none: what may have been taken in
// Redis without an answer is given back in the background, or ends with its
// lease. The error is ctx's own when ctx ended the wait.
func (s *Semaphore) Acquire(ctx context.Context, opts ...latchkey.LockOption) (*Permit, error) {
	return first(s.acquire(ctx, "acquire", 1, false, opts))
}

// AcquireN is Acquire for n permits, all or none. Each has a lease of its own
// and is released by itself. No permits (n of 0) are always there; n is at most
// 100,000. Redis is busy with nothing else meanwhile, for about 2 ms for each 1,000.
func (s *Semaphore) AcquireN(ctx context.Context, n int, opts ...latchkey.LockOption) ([]*Permit, error) {
	return s.acquire(ctx, "acquire", n, false, opts)
}

// TryAcquire takes one permit if one is available now, or, with the option Wait,
// within that time. If not, the error is ErrNotAcquired. Otherwise it is as
// Acquire.
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

// mostAtOnce is how many permits one request may be for: each has an id, and Redis
// 6.2 takes a million arguments at most.
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
	return w.permits, nil
}

// Do runs fn with one permit, with the Permit's Context, and gives it back however
// fn ends, by a panic too, and although ctx is cancelled by then. It takes the
// options of Acquire; with Wait it gives up as TryAcquire does.
//
// It returns fn's error as it is. If the permit was lost meanwhile, or could not be
// given back, that is joined to it: then errors.Is finds ErrLeaseLost, and fn may
// have run on without the permit.
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

// Release gives back the permits of those ids, all or none, wherever they were
// taken. If one of them is not out, because it was released before, or its lease
// is over, or it never was, then none is given back, and the error is ErrNotHeld
// and names it. Where the Permit is at hand, use its own Release.
//
// It does not stop when ctx is cancelled, so that a deferred Release works, but
// after the unlock timeout (WithUnlockTimeout).
func (s *Semaphore) Release(ctx context.Context, ids ...string) error {
	unknown, err := s.release(ctx, "release", ids)
	if err == nil && len(unknown) > 0 {
		err = s.engine.Wrap("release", s.spec, unknownError(unknown))
	}
	return err
}

// TryRelease is Release that returns how many permits it gave back, all or 0,
// and for which it is no error that one of them is not out.
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

// Unwrap makes it an ErrNotHeld.
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
	ended := s.engine.Returning(ctx, s.spec, raw)
	maybe := false
	err = s.engine.Return(ctx, op, s.spec, func(ctx context.Context, opts run.Options, _ run.Deadline) (engine.Status, error) {
		out, err := s.scripts.Free(ctx, s.engine, opts, raw, true)
		unknown = nil
		for i, there := range out {
			if !there {
				unknown = append(unknown, ids[i])
			}
		}
		if maybe && len(unknown) == len(ids) {
			unknown = nil // an earlier request has given them back, without an answer
		}
		maybe = maybe || run.Classify(err) == run.Unknown
		return engine.Granted, err
	})
	ended(engine.Done(err) && len(unknown) == 0)
	return unknown, err
}

// TrySetPermits makes the semaphore with n permits, and reports whether it did:
// it does nothing when there is one. Waiters are woken.
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

// SetPermits brings the number of permits, available and out together, to n,
// whether there is a semaphore or not. Permits that are out stay out: when there
// are more of them than n, the number available is below 0 until enough of them
// have come back. Waiters are woken.
func (s *Semaphore) SetPermits(ctx context.Context, n int) error {
	const op = "set-permits"
	if err := engine.CheckCount(int64(n), 0); err != nil {
		return s.engine.Wrap(op, s.spec, err)
	}
	return s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (engine.Status, error) {
		return s.scripts.resize(ctx, s.engine, opts, r, n)
	})
}

// AddPermits changes the number of permits by n, which may be negative: then the
// number available may go below 0, until permits that are out have come back. It
// makes the semaphore when there is none; the TTL of one that has one stays. To
// add 0 does nothing. Waiters are woken.
func (s *Semaphore) AddPermits(ctx context.Context, n int) error {
	const op = "add-permits"
	if err := engine.CheckCount(int64(n), -engine.MaxCount); err != nil || n == 0 {
		return s.engine.Wrap(op, s.spec, err)
	}
	return s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (engine.Status, error) {
		return s.scripts.add(ctx, s.engine, opts, r, n)
	})
}

// change runs f, which makes one request that may be made again.
func (s *Semaphore) change(ctx context.Context, op string, f func(context.Context, run.Options, *request) (engine.Status, error)) error {
	r := s.request()
	err := s.engine.Change(ctx, op, s.spec, func(ctx context.Context, opts run.Options, d run.Deadline) (engine.Status, error) {
		r.deadline = d
		return f(ctx, opts, r)
	})
	r.done(err)
	return err
}

// AvailablePermits returns how many permits are available, those included whose
// lease is over; 0 when there is no semaphore.
func (s *Semaphore) AvailablePermits(ctx context.Context) (int, error) {
	st, err := s.state(ctx, "available-permits")
	return st.available, err
}

// AcquiredPermits returns how many permits are out.
func (s *Semaphore) AcquiredPermits(ctx context.Context) (int, error) {
	st, err := s.state(ctx, "acquired-permits")
	return st.out, err
}

// Permits returns how many permits there are, available and out together; 0 when
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

// UpdateLease gives the permit of that id another lease from now, longer or
// shorter; a negative one is permanent. It reports false when the permit is not
// out or its lease is over. A Permit of this client is not renewed any more by
// the watchdog then, has no MaxHold any more, and is lost at once where the lease is
// of less than 3 ms. At least 1 ms.
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
	sent := s.engine.Instant() // the first request may be the one that counts
	err = s.change(ctx, op, func(ctx context.Context, opts run.Options, r *request) (engine.Status, error) {
		v, err := s.scripts.update(ctx, s.engine, opts, r, raw, lease)
		if updated = v == engine.Granted; updated {
			s.engine.Relet(ctx, s.spec, raw, sent, lease)
		}
		return v, err
	})
	return updated, err
}

// LeaseTime returns how long the lease of the permit of that id lasts yet, if
// nobody renews it; -1 when it is permanent. If it is not out or its lease is
// over, the error is ErrNotHeld.
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

// Delete removes the semaphore, and with it all permits that are out, and
// reports whether there was one. Whoever holds a permit that the watchdog renews
// hears of it within one renewal. Who waits for permits goes on waiting.
func (s *Semaphore) Delete(ctx context.Context) (deleted bool, err error) {
	err = s.engine.Ask(ctx, "delete", s.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		deleted, err = s.scripts.delete(ctx, s.engine, opts)
		return err
	})
	return deleted, err
}

// idSize is the size of a permit's id in Redis; users see it in hex.
const idSize = 16

// decodeID returns an id as it is in Redis; false when it cannot be one.
func decodeID(id string) (raw string, ok bool) {
	b, err := hex.DecodeString(id)
	return string(b), err == nil && len(b) == idSize
}
