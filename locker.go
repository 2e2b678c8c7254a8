package latchkey

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// A Locker is a lock of any kind.
type Locker interface {
	// Name returns the name of the lock.
	Name() string
	// Lock waits until the lock is held or ctx is done. A deadline on ctx bounds
	// the work as well, since the Hold's Context comes from ctx; TryLock with Wait
	// bounds the wait alone.
	Lock(ctx context.Context, opts ...LockOption) (*Hold, error)
	// TryLock makes one attempt, or waits for as long as the option Wait says;
	// then ErrNotAcquired.
	TryLock(ctx context.Context, opts ...LockOption) (*Hold, error)
}

// A Result is what the channel of an Async method delivers: once, into a buffer,
// so that nobody needs to be there. As everywhere, a nil Err means held.
type Result[T any] struct {
	Value T
	Err   error
}

// A LockOption changes one acquire.
type LockOption interface{ engine.LockOption }

// checked makes a LockOption of what sets a time that Redis keeps; one that makes no
// sense, as err says, fails the acquire before anything is sent.
func checked(err error, set func(*engine.LockConfig)) LockOption {
	return engine.LockOptionFunc(func(c *engine.LockConfig) {
		if err != nil {
			c.Err = errors.Join(c.Err, err)
			return
		}
		set(c)
	})
}

// Lease gives the hold a fixed lease, which is not renewed: it ends after d,
// whatever the work under the lock is doing. Use it where a bound on the hold
// matters more than the end of the work. At least 3 ms, since a hold ends a little
// before its lease (see [Hold.Remaining]); milliseconds count. A hold that is nested
// in one with a longer lease, or a renewed one, lasts as long as that.
func Lease(d time.Duration) LockOption {
	return checked(engine.CheckLease("a lease", d), func(c *engine.LockConfig) { c.Lease = d })
}

// Wait makes an acquire wait for at most d: then ErrNotAcquired. Zero or less
// makes it one attempt. The work may take longer than d. A deadline on ctx would
// bound both, since the Hold's Context comes from ctx.
func Wait(d time.Duration) LockOption {
	return engine.LockOptionFunc(func(c *engine.LockConfig) { c.Waits, c.Wait = true, d })
}

// MaxHold bounds a hold that the watchdog renews: it lasts no longer than d
// after the grant, and is lost then. Extend goes no further either. At least 3 ms,
// as a Lease. With several holds of one holder the longest bound counts, and none
// does when one has no bound; a hold with a fixed Lease lasts as long as that.
func MaxHold(d time.Duration) LockOption {
	return checked(engine.CheckLease("MaxHold", d), func(c *engine.LockConfig) { c.MaxHold = d })
}

// HoldAtLeast keeps the lock closed for at least d after the grant: an earlier
// Unlock returns nil and ends the Hold, but the key lapses only then. That makes
// a job that takes a second run once a minute on machines whose clocks differ.
// At least 1 ms; no longer than a fixed Lease.
func HoldAtLeast(d time.Duration) LockOption {
	return checked(engine.CheckTime("HoldAtLeast", d), func(c *engine.LockConfig) { c.AtLeast = d })
}

// Label says who this is, for people: Info and the command show it, with the name
// of the machine, the process id, and since when. It is never used for ownership,
// and may be read by whoever can read Redis. It costs one more key while the lock
// is held. At most 1024 bytes.
func Label(text string) LockOption {
	return engine.LockOptionFunc(func(c *engine.LockConfig) { c.Label = text })
}

// Do runs fn while l is held, with the Hold's Context, and gives l back however
// fn ends, by a panic too. With the option Wait it gives up as TryLock does.
//
// Inside fn, use the context that fn gets. It carries the holder, so that taking l
// again re-enters l. With the ctx from outside, taking l again waits for oneself,
// until that ctx is done. A deadline on ctx ends fn's context too: say Wait to bound
// the wait alone.
//
// It returns fn's error as it is. If the lease was lost meanwhile, or l could not be
// given back, that is joined to it: then errors.Is finds ErrLeaseLost, and fn
// may have run on without the lock.
//
// DoValue is Do for an fn that returns a value. HoldFrom gives fn the Hold, for its
// token, or to extend it.
func Do(ctx context.Context, l Locker, fn func(context.Context) error, opts ...LockOption) error {
	h, err := l.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	return engine.During(
		func() error { return fn(h.Context()) },
		func() error { return h.Unlock(ctx) },
	)
}

// DoValue is Do for an fn that returns a value. The value is fn's, also beside an
// error: after ErrLeaseLost it may have been made without the lock. It is the zero
// value where fn has not run.
func DoValue[T any](ctx context.Context, l Locker, fn func(context.Context) (T, error), opts ...LockOption) (T, error) {
	var v T
	err := Do(ctx, l, func(ctx context.Context) (err error) {
		v, err = fn(ctx)
		return err
	}, opts...)
	return v, err
}

// badOption panics: constructors do, where an argument makes no sense.
func badOption(format string, args ...any) {
	panic(fmt.Sprintf("latchkey: "+format, args...))
}
