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

// A Lock is a fair lock on a client. Goroutines may share it.
type Lock struct {
	lockSeam
	engine  *engine.Engine
	spec    *engine.Spec
	scripts *scripts
}

var _ latchkey.Locker = (*Lock)(nil)

// New returns the lock of that name. It does no I/O. It panics when c is nil,
// the name is empty, or an option makes no sense.
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
	s := newScripts(e, e.Mapped(name), cfg)
	spec := e.Prepare(s.spec(name, cfg))
	return &Lock{lockSeam: engine.NewLockSeam(e, spec), engine: e, spec: spec, scripts: s}
}

// Name returns the name of the lock.
func (l *Lock) Name() string { return l.spec.Name }

// Lock takes l when it is the caller's turn: it stands in the queue, at the end,
// until all who came before have had l or have left, or ctx is done.
//
// If the error is nil, the caller holds l until it unlocks the Hold or the lease
// is lost; see [latchkey.Hold]. Otherwise l is not held on this call's account,
// and it has no place in the queue: both are withdrawn, or end by themselves if
// Redis cannot be reached. The error is ctx's own when ctx ended the wait.
//
// The Hold's Context comes from ctx. A deadline on ctx therefore bounds the work
// as well as the wait; TryLock with [latchkey.Wait] bounds the wait alone.
//
// A holder that has l already (see [latchkey.Hold.Context] and
// [latchkey.WithHolder]) takes it once more without waiting. That never shortens
// the lease it has. If what it has was lost, the error is ErrLeaseLost. With the
// context from before its own Lock, it waits for itself.
func (l *Lock) Lock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, engine.Lock, opts)
}

// TryLock takes l if it is free and nobody waits for it; with the option Wait it
// stands in the queue for that time. If it does not get l, the error is
// ErrNotAcquired. Without Wait one attempt is one command, and one more for each
// answer that is lost on the way.
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

// Unlock gives back the latest hold that the holder in ctx has. It is for code
// that has a holder in its context rather than a Hold in its hand; without one
// it returns ErrNotHeld. See [latchkey.Hold.Unlock] for the rest.
func (l *Lock) Unlock(ctx context.Context) error { return l.engine.UnlockHolder(ctx, l.spec) }

// ForceUnlock frees l, whoever holds it, and reports whether anybody did. The next
// one in the queue is told. The holder, if it is a Go client, learns of it within
// one renewal: its Lost is closed.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	var freed bool
	err := l.engine.Ask(ctx, "force-unlock", l.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		freed, err = l.scripts.force(ctx, l.engine, opts)
		return err
	})
	return freed, err
}

// ForceUnlockHolder frees l if that holder has it, however often, and reports
// whether it did: nobody else loses anything, not even one who has just come
// after it. The holder is given as [latchkey.Hold.HolderID] and
// [latchkey.Client.Info] show it. If it is a Go client, it learns of it within
// one renewal: its Lost is closed. The next one in the queue is told.
func (l *Lock) ForceUnlockHolder(ctx context.Context, holder string) (bool, error) {
	return l.engine.ForceHolder(ctx, "force-unlock", l.spec, holder)
}

// IsLocked reports whether anybody holds l.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	st, err := l.state(ctx, "is-locked", "")
	return st.all > 0, err
}

// IsHeldBy reports whether that holder of this client holds l.
func (l *Lock) IsHeldBy(ctx context.Context, h latchkey.Holder) (bool, error) {
	st, err := l.state(ctx, "is-held-by", l.engine.HolderID(engine.NumberOf(h)))
	return st.mine > 0, err
}

// HoldCount returns how many times the holder in ctx holds l; 0 without one.
func (l *Lock) HoldCount(ctx context.Context) (int, error) {
	holder := l.engine.HeldBy(ctx, l.spec)
	if holder == "" {
		return 0, nil
	}
	st, err := l.state(ctx, "hold-count", holder)
	return st.mine, err
}

// TTL returns how long the present lease lasts if nobody renews it; 0 when l is
// free, -1 when the key has no expiry, which latchkey and Redisson never leave.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	st, err := l.state(ctx, "ttl", "")
	return st.left, err
}

// A Waiter is one who stands in the queue.
type Waiter struct {
	// ID is the holder that it will be, as Redis shows it.
	ID string
	// Deadline is when Redisson takes the waiter for dead, by the server's clock;
	// the zero Time where somebody has removed it. A waiter of latchkey moves its
	// own on while it waits.
	Deadline time.Time
}

// Waiters returns those who wait for l, on all clients, the next one first.
func (l *Lock) Waiters(ctx context.Context) (waiters []Waiter, err error) {
	err = l.engine.Ask(ctx, "waiters", l.spec, true, func(ctx context.Context, opts run.Options) (err error) {
		waiters, err = l.scripts.waiters(ctx, l.engine, opts)
		return err
	})
	return waiters, err
}

// Delete removes l and its queue, whoever holds it and whoever waits, and reports
// whether there was anything. A Go client that holds l learns of it within one
// renewal; one that waits queues again within the recheck, at the end; Java's waiters, who
// have no recheck, are told.
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
