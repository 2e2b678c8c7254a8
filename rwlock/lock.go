package rwlock

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

type lockSeam = engine.LockSeam // see internal/engine/part.go

// An RWLock is a read-write lock on a client: two locks that exclude each
// other, of which the one for reading may have many holders. It is safe for
// concurrent use.
type RWLock struct{ read, write *Lock }

// New returns the lock with the given name. It does no I/O. It panics if c is
// nil, the name is empty, or an option is invalid.
func New(c *latchkey.Client, name string, opts ...Option) *RWLock {
	if c == nil {
		panic("rwlock: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("rwlock: New: %v", err))
	}
	cfg := config{preference: defaultPreference}
	for _, o := range opts {
		o.apply(&cfg)
	}
	e := engine.Of(c)
	r, w := newReadScripts(engine.Mapped(c, name)), newWriteScripts(engine.Mapped(c, name), cfg)
	return &RWLock{
		read:  newLock(e, e.Prepare(r.spec(name)), &r.scripts),
		write: newLock(e, e.Prepare(w.spec(name)), &w.scripts),
	}
}

func newLock(e *engine.Engine, spec *engine.Spec, s *scripts) *Lock {
	l := &Lock{lockSeam: engine.NewLockSeam(e, spec), engine: e, spec: spec, scripts: s}
	l.lock = engine.Op{Name: l.op(engine.Lock.Name)}
	l.try = engine.Op{Name: l.op(engine.TryLock.Name), Try: true}
	return l
}

// Name returns the name of the lock.
func (rw *RWLock) Name() string { return rw.read.Name() }

// ReadLock returns the read half. Many holders may hold it at once while nobody
// holds the write half. The holder of the write half may take it too, and keep
// it when it unlocks the write half.
func (rw *RWLock) ReadLock() *Lock { return rw.read }

// WriteLock returns the write half. One holder may hold it while nobody else
// holds either half. A holder of only the read half is refused with ErrUpgrade.
func (rw *RWLock) WriteLock() *Lock { return rw.write }

// Downgrade exchanges w, a Hold of the write lock taken from this RWLock value,
// for a Hold of the read lock, with no other writer in between. It waits for
// nothing but the replies of Redis. The new Hold has the holder of w and a
// Context derived from ctx, whereas a read lock taken with w's Context would
// end with w.
//
// If the error is nil, the caller holds the read lock and no longer holds w. If
// taking the read lock fails, w is unchanged; ErrNotAcquired then means that
// the lock was taken away and somebody else has it. If the Unlock of w fails,
// the error is that of Unlock, and the caller does not hold the read lock.
func (rw *RWLock) Downgrade(ctx context.Context, w *latchkey.Hold, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	e, s := rw.read.engine, rw.read.spec
	if w == nil {
		return nil, e.Wrap(downgrade.Name, s, engine.ErrNotHeld)
	}
	held := engine.HoldOf(w)
	if held == nil || !held.IsOf(rw.write.spec) {
		return nil, e.Wrap(downgrade.Name, s, errNotWriter)
	}
	if err := held.NotHeld(downgrade.Name); err != nil {
		return nil, err
	}
	r, err := rw.read.acquire(engine.WithHold(ctx, held), downgrade, opts)
	if err != nil {
		return nil, err
	}
	if err := w.Unlock(ctx); err != nil {
		_ = r.Unlock(ctx) // ends with its lease at the latest
		return nil, err
	}
	return r, nil
}

var downgrade = &engine.Op{Name: "downgrade", Try: true}

var errNotWriter = errors.New("the Hold is not one of this lock's write half")

// A Lock is one half of an RWLock: a reentrant lock with holders, hold counts
// and leases of its own. It is safe for concurrent use.
type Lock struct {
	lockSeam
	engine    *engine.Engine
	spec      *engine.Spec
	scripts   *scripts
	lock, try engine.Op
}

var _ latchkey.Locker = (*Lock)(nil)

// Name returns the name of the lock, the same for both halves.
func (l *Lock) Name() string { return l.spec.Name }

// Lock takes l, waiting until the other half and, for writing, l itself is
// free, or until ctx is done.
//
// If the error is nil, the caller holds l until it unlocks the Hold or the
// lease is lost; see [latchkey.Hold]. Otherwise this call holds nothing: what
// it left in Redis is taken back, or ends with its lease if Redis cannot be
// reached. If ctx ended the wait, the error is ctx's own.
//
// The Hold's Context derives from ctx, so a deadline on ctx bounds the work as
// well as the wait. TryLock with [latchkey.Wait] bounds only the wait.
//
// If the holder in ctx already holds l (see [latchkey.Hold.Context] and
// [latchkey.WithHolder]), Lock takes l once more without waiting and never
// shortens the present lease. If the earlier hold was lost, the error is
// ErrLeaseLost. The holder of the write lock takes the read lock without
// waiting. A holder of only the read lock never gets the write lock, because it
// would wait for itself: the error is ErrUpgrade.
func (l *Lock) Lock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, &l.lock, opts)
}

// TryLock takes l if it can have it now, or, with the option Wait, within that
// time. Otherwise the error is ErrNotAcquired. One attempt is one command, plus
// one for each reply that is lost. A reader is also refused while it has to
// stand back for a writer; see [WriterPreference].
func (l *Lock) TryLock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, &l.try, opts)
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

// op returns the name of an operation with that of its half, for errors.
func (l *Lock) op(what string) string { return l.scripts.half + "-" + what }

// Unlock releases the latest hold of l by the holder in ctx. It is for code
// that has a holder in its context but no Hold; without a holder it returns
// ErrNotHeld. See [latchkey.Hold.Unlock] for the rest.
func (l *Lock) Unlock(ctx context.Context) error { return l.engine.UnlockHolder(ctx, l.spec) }

// ForceUnlock frees l, whoever holds it, and reports whether anybody did. The
// other half is unchanged: a writer keeps the write lock when its read holds
// are taken away, and its read holds when the write lock is. A holder in a Go
// client learns of it within one renewal: its Lost is closed.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	var freed bool
	err := l.engine.Ask(ctx, l.op("force-unlock"), l.spec, false, func(ctx context.Context, opts run.Options) (err error) {
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
// Go client learns of it within one renewal: its Lost is closed.
func (l *Lock) ForceUnlockHolder(ctx context.Context, holder string) (bool, error) {
	return l.engine.ForceHolder(ctx, l.op("force-unlock"), l.spec, holder)
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
	count := 1
	if l.spec.Shared && holder != "" { // each hold of a reader has a lease
		st, err := l.state(ctx, "extend", l.spec.Field(holder))
		if err != nil {
			return false, err
		}
		count = max(st.count, 1) // without a lease it is not held
	}
	return l.engine.ExtendHolder(ctx, l.op("extend"), l.spec, holder, count, lease)
}

// IsLocked reports whether anybody holds l. A dead reader counts until its
// lease ends.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	st, err := l.state(ctx, "is-locked", "")
	return st.count > 0, err
}

// IsHeldBy reports whether holder h of this client holds l.
func (l *Lock) IsHeldBy(ctx context.Context, h latchkey.Holder) (bool, error) {
	st, err := l.state(ctx, "is-held-by", l.engine.HolderID(engine.NumberOf(h))+l.spec.Suffix)
	return st.count > 0, err
}

// HoldCount returns how many times the holder in ctx holds l. It is 0 if ctx
// has no holder.
func (l *Lock) HoldCount(ctx context.Context) (int, error) {
	holder := l.engine.HeldBy(ctx, l.spec)
	if holder == "" {
		return 0, nil
	}
	st, err := l.state(ctx, "hold-count", holder)
	return st.count, err
}

// TTL returns how long l stays held if nobody renews it; for reading, that is
// the longest lease of all readers. It is 0 if l is free, and -1 if the key has
// no expiry, which latchkey and Redisson never leave.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	st, err := l.state(ctx, "ttl", "")
	return st.left, err
}

func (l *Lock) state(ctx context.Context, op, holder string) (st state, err error) {
	err = l.engine.Ask(ctx, l.op(op), l.spec, true, func(ctx context.Context, opts run.Options) (err error) {
		st, err = l.scripts.state(ctx, l.engine, opts, holder)
		return err
	})
	return st, err
}
