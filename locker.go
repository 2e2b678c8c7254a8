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
	// Lock waits until the lock is held or ctx is done. The Hold's Context
	// derives from ctx, so a deadline on ctx bounds the work too; TryLock with
	// Wait bounds only the wait.
	Lock(ctx context.Context, opts ...LockOption) (*Hold, error)
	// TryLock makes one attempt, or waits for as long as the option Wait says.
	// Then it returns ErrNotAcquired.
	TryLock(ctx context.Context, opts ...LockOption) (*Hold, error)
}

// A Result is the value that the channel of an Async method delivers. The
// channel is buffered and delivers once, so nobody needs to receive. A nil Err
// means held.
type Result[T any] struct {
	Value T
	Err   error
}

// A LockOption configures one acquire.
type LockOption interface{ engine.LockOption }

// checked returns the LockOption set, or, if err is not nil, one that fails the
// acquire with err before anything is sent.
func checked(err error, set func(*engine.LockConfig)) LockOption {
	return engine.LockOptionFunc(func(c *engine.LockConfig) {
		if err != nil {
			c.Err = errors.Join(c.Err, err)
			return
		}
		set(c)
	})
}

// Lease gives the hold a fixed lease that is not renewed: it ends after d,
// whatever the work under the lock is doing. Use it where a bound on the hold
// matters more than the end of the work. At least 3 ms, because a hold ends a
// little before its lease (see [Hold.Remaining]). d is truncated to
// milliseconds. A hold that is nested in one with a longer lease, or in a
// renewed one, lasts as long as that.
func Lease(d time.Duration) LockOption {
	return checked(engine.CheckLease("a lease", d), func(c *engine.LockConfig) { c.Lease = d })
}

// Wait makes an acquire wait for at most d; then it returns ErrNotAcquired. If
// d is zero or less, the acquire makes one attempt. Wait does not bound the
// work, whereas a deadline on ctx bounds both, because the Hold's Context
// derives from ctx.
func Wait(d time.Duration) LockOption {
	return engine.LockOptionFunc(func(c *engine.LockConfig) { c.Waits, c.Wait = true, d })
}

// MaxHold bounds a hold that the watchdog renews: the hold is lost d after the
// grant at the latest. Extend does not go further either. At least 3 ms, as for
// Lease. If one holder has several holds, the longest bound counts, and there
// is no bound if one of them has none. A hold with a fixed Lease lasts as long
// as that.
func MaxHold(d time.Duration) LockOption {
	return checked(engine.CheckLease("MaxHold", d), func(c *engine.LockConfig) { c.MaxHold = d })
}

// HoldAtLeast keeps the lock closed for at least d after the grant. An earlier
// Unlock returns nil and ends the Hold, but the key expires only then. A job of
// one second can thus run once a minute on machines whose clocks differ. d is
// at least 1 ms, and no longer than a fixed Lease.
//
// Until then nobody can take the lock, the former holder included. With a Label,
// Info still shows the label, and HolderInfo.Ended when the Hold ended; that costs
// the Unlock one command more.
func HoldAtLeast(d time.Duration) LockOption {
	return checked(engine.CheckTime("HoldAtLeast", d), func(c *engine.LockConfig) { c.AtLeast = d })
}

// Label describes the caller, for people: Info and the command show it with the
// name of the machine, the process id, and the time since when. It never
// decides ownership. Whoever can read Redis can read it. It costs one more key
// while the lock is held. At most 1024 bytes.
func Label(text string) LockOption {
	return engine.LockOptionFunc(func(c *engine.LockConfig) { c.Label = text })
}

// Do calls fn with the Hold's Context while l is held, and releases l however
// fn ends, even by a panic. With the option Wait it gives up as TryLock does.
//
// Inside fn, use the context that fn receives. It carries the holder, so taking
// l again re-enters l. Taking l again with the outer ctx waits for oneself
// until that ctx is done. A deadline on ctx ends fn's context too; use Wait to
// bound only the wait.
//
// Do returns fn's error unchanged. If the lease was lost meanwhile, or l could
// not be released, that error is joined to it. If errors.Is finds ErrLeaseLost,
// fn may have run on without the lock.
//
// DoValue is Do for a function that returns a value. HoldFrom returns the Hold
// inside fn, for its token or to extend it.
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

// DoValue is Do for a function that returns a value. DoValue returns fn's value
// even with an error; after ErrLeaseLost it may have been made without the
// lock. The value is zero if fn has not run.
func DoValue[T any](ctx context.Context, l Locker, fn func(context.Context) (T, error), opts ...LockOption) (T, error) {
	var v T
	err := Do(ctx, l, func(ctx context.Context) (err error) {
		v, err = fn(ctx)
		return err
	}, opts...)
	return v, err
}

// badOption panics, for a constructor whose argument is invalid.
func badOption(format string, args ...any) {
	panic(fmt.Sprintf("latchkey: "+format, args...))
}
