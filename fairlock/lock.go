package fairlock

import (
	"context"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
)

type lockSeam = engine.LockSeam // see internal/engine/part.go

// A Lock is a fair lock on a client. It is safe for concurrent use.
type Lock struct {
	lockSeam
	engine  *engine.Engine
	spec    *engine.Spec
	scripts *scripts
}

var _ latchkey.Locker = (*Lock)(nil)

// New returns the lock with the given name. It does no I/O. It panics if c is
// nil, the name is empty, or an option is invalid.
func New(c *latchkey.Client, name string, opts ...Option) *Lock {
	if c == nil {
		panic("fairlock: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("fairlock: New: %v", err))
	}
	cfg := config{timeout: defaultTimeout}
	for _, o := range opts {
		o.apply(&cfg)
	}
	e := engine.Of(c)
	s := newScripts(e, engine.Mapped(c, name), cfg)
	spec := e.Prepare(s.spec(name, cfg))
	return &Lock{lockSeam: engine.NewLockSeam(e, spec), engine: e, spec: spec, scripts: s}
}

// Name returns the name of the lock.
func (l *Lock) Name() string { return l.spec.Name }

// Lock takes l when it is the caller's turn. The caller stands at the end of
// the queue until all who came before have had l or have left, or until ctx is
// done.
//
// If the error is nil, the caller holds l until it unlocks the Hold or the
// lease is lost; see [latchkey.Hold]. Otherwise this call holds nothing and has
// no place in the queue: both are taken back, or end by themselves if Redis
// cannot be reached. If ctx ended the wait, the error is ctx's own.
//
// The Hold's Context derives from ctx, so a deadline on ctx bounds the work as
// well as the wait. TryLock with [latchkey.Wait] bounds only the wait.
//
// If the holder in ctx already holds l (see [latchkey.Hold.Context] and
// [latchkey.WithHolder]), Lock takes l once more without waiting and never
// shortens the present lease. If the earlier hold was lost, the error is
// ErrLeaseLost. A caller that locks l again with the context from before its
// first Lock, and without WithHolder, waits for itself.
func (l *Lock) Lock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, engine.Lock, opts)
}

// TryLock takes l if it is free and has no waiters. With the option Wait it
// stands in the queue for that time. If it does not get l, the error is
// ErrNotAcquired. Without Wait an attempt is one command, plus one for each
// reply that is lost.
func (l *Lock) TryLock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, engine.TryLock, opts)
}

func (l *Lock) acquire(ctx context.Context, op *engine.Op, opts []latchkey.LockOption) (*latchkey.Hold, error) {
	got, err := l.spec.Acquire(ctx, op, engine.NewLockConfig(opts))
	if err != nil {
		return nil, err
	}
	h := new(latchkey.Hold)
	engine.Bind(h, got)
	return h, nil
}

// Unlock releases the latest hold of the holder in ctx. It is for code that has
// a holder in its context but no Hold; without a holder it returns ErrNotHeld.
// See [latchkey.Hold.Unlock] for the rest.
func (l *Lock) Unlock(ctx context.Context) error { return l.engine.UnlockHolder(ctx, l.spec) }

// ForceUnlock frees l, whoever holds it, and reports whether anybody did. The
// next waiter in the queue is notified. A holder in a Go client learns of it
// within one renewal: its Lost is closed.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	var freed bool
	err := l.engine.Ask(ctx, "force-unlock", l.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		freed, err = l.scripts.force(ctx, l.engine, opts)
		return err
	})
	if freed {
		l.engine.Forced(l.spec, "")
	}
	return freed, err
}

// ForceUnlockHolder frees l if the given holder has it, whatever its hold
// count, and reports whether it did. It takes nothing from any other holder,
// even if that has just acquired l. The holder is written as
// [latchkey.Hold.HolderID] and [latchkey.Client.Info] return it. A holder in a
// Go client learns of it within one renewal: its Lost is closed. The next
// waiter in the queue is notified.
func (l *Lock) ForceUnlockHolder(ctx context.Context, holder string) (bool, error) {
	return l.engine.ForceHolder(ctx, "force-unlock", l.spec, holder)
}

// ExtendHolder makes the lease of the given holder last until at least lease
// from now if that holder has l, and reports whether it has. It never shortens a
// lease. lease is at least 1 ms. It is for a lock that outlives the process that
// took it with a fixed Lease. The holder is written as
// [latchkey.Hold.HolderID] and [latchkey.Client.Info] return it.
//
// The Hold in that process does not learn of it: one with a fixed Lease ends as
// before, though l stays closed until that process calls Unlock or the longer
// lease ends; one that is renewed is renewed as before.
func (l *Lock) ExtendHolder(ctx context.Context, holder string, lease time.Duration) (bool, error) {
	return l.engine.ExtendHolder(ctx, "extend", l.spec, holder, 1, lease)
}

// IsLocked reports whether anybody holds l.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	st, err := l.state(ctx, "is-locked", "")
	return st.all > 0, err
}

// IsHeldBy reports whether holder h of this client holds l.
func (l *Lock) IsHeldBy(ctx context.Context, h latchkey.Holder) (bool, error) {
	st, err := l.state(ctx, "is-held-by", l.engine.HolderID(engine.NumberOf(h)))
	return st.mine > 0, err
}

// HoldCount returns how many times the holder in ctx holds l. It is 0 if ctx
// has no holder.
func (l *Lock) HoldCount(ctx context.Context) (int, error) {
	holder := l.engine.HeldBy(ctx, l.spec)
	if holder == "" {
		return 0, nil
	}
	st, err := l.state(ctx, "hold-count", holder)
	return st.mine, err
}

// TTL returns how long the present lease lasts if nobody renews it. It is 0 if
// l is free, and -1 if the key has no expiry, which latchkey and Redisson never
// leave.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	st, err := l.state(ctx, "ttl", "")
	return st.left, err
}

// A Waiter is a place in the queue.
type Waiter struct {
	// ID is the holder that the waiter will be, as Redis shows it.
	ID string
	// Deadline is when Redisson takes the waiter for dead, by the server's
	// clock. It is the zero Time if somebody has removed it. A latchkey waiter
	// moves its deadline on while it waits.
	Deadline time.Time
}

// Waiters returns the waiters of l on all clients, the next one first.
func (l *Lock) Waiters(ctx context.Context) (waiters []Waiter, err error) {
	err = l.engine.Ask(ctx, "waiters", l.spec, true, func(ctx context.Context, opts run.Options) (err error) {
		waiters, err = l.scripts.waiters(ctx, l.engine, opts)
		return err
	})
	return waiters, err
}

// Delete removes l and its queue, whoever holds l or waits for it, and reports
// whether there was anything to remove. A holder in a Go client learns of it
// within one renewal. A Go waiter queues again at the end, within the recheck.
// Java waiters, which have no recheck, are notified.
func (l *Lock) Delete(ctx context.Context) (bool, error) {
	var was bool
	err := l.engine.Ask(ctx, "delete", l.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		was, err = l.scripts.remove(ctx, l.engine, opts)
		return err
	})
	return was, err
}

func (l *Lock) state(ctx context.Context, op, holder string) (st state, err error) {
	err = l.engine.Ask(ctx, op, l.spec, true, func(ctx context.Context, opts run.Options) (err error) {
		st, err = l.scripts.state(ctx, l.engine, opts, holder)
		return err
	})
	return st, err
}
