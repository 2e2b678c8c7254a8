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
// other, of which the one for reading may have many holders. Goroutines may
// share it.
type RWLock struct{ read, write *Lock }

// New returns the read-write lock of that name. It does no I/O. It panics when c
// is nil, the name is empty, or an option makes no sense.
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
	r, w := newReadScripts(e.Mapped(name)), newWriteScripts(e.Mapped(name), cfg)
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

// ReadLock returns the half that many may hold at once, while nobody holds the
// other; but the holder of the write lock may take it too, and keep it when it
// unlocks the write lock.
func (rw *RWLock) ReadLock() *Lock { return rw.read }

// WriteLock returns the half that one may hold, while nobody holds either. To a
// holder of the read lock alone it is refused with ErrUpgrade.
func (rw *RWLock) WriteLock() *Lock { return rw.write }

// Downgrade changes a Hold of the write lock, taken from this RWLock value, into
// one of the read lock, with no other writer in between. It does not wait, but
// for Redis. The new Hold has the holder of w, and a Context derived from ctx;
// that of a read lock taken with w's Context would end with w.
//
// If the error is nil, the caller holds the read lock, and no longer w. If it is
// one of taking the read lock, w is as it was: with ErrNotAcquired it has been taken
// away, and somebody else has the lock. If it is one of w's Unlock, see there; the
// read lock is not held then.
func (rw *RWLock) Downgrade(ctx context.Context, w *latchkey.Hold, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	e, s := rw.read.engine, rw.read.spec
	if w == nil {
		return nil, e.Wrap(downgrade.Name, s, engine.ErrNotHeld)
	}
	held, ok := engine.HeldOf(w).(*engine.Hold)
	if !ok || !held.IsOf(rw.write.spec) {
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

// A Lock is one half of an RWLock: a reentrant lock, with holders, hold counts
// and leases of its own. Goroutines may share it.
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

// Lock takes l, waiting until the other half and, for writing, l itself is free,
// or ctx is done.
//
// If the error is nil, the caller holds l until it unlocks the Hold or the lease
// is lost; see [latchkey.Hold]. Otherwise l is not held on this call's account:
// a claim left in Redis is withdrawn, or ends with its lease if Redis cannot be
// reached. The error is ctx's own when ctx ended the wait.
//
// The Hold's Context comes from ctx. A deadline on ctx therefore bounds the work
// as well as the wait; TryLock with [latchkey.Wait] bounds the wait alone.
//
// A holder that has l already (see [latchkey.Hold.Context] and
// [latchkey.WithHolder]) takes it once more without waiting. That never shortens
// the lease it has. If what it has was lost, the error is ErrLeaseLost. A holder
// of the write lock takes the read lock without waiting. A holder of the read
// lock that does not have the write lock never gets it, because it would wait
// for itself: the error is ErrUpgrade.
func (l *Lock) Lock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, &l.lock, opts)
}

// TryLock takes l if it can be had now, or, with the option Wait, within that
// time. If it cannot, the error is ErrNotAcquired. One attempt is one command,
// and one more for each answer that is lost on the way. A reader is also refused
// while it has to stand back for a writer; see [WriterPreference].
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

// op says in an error which half it was.
func (l *Lock) op(what string) string { return l.scripts.half + "-" + what }

// Unlock gives back the latest hold of l that the holder in ctx has. It is for
// code that has a holder in its context rather than a Hold in its hand; without
// one it returns ErrNotHeld. See [latchkey.Hold.Unlock] for the rest.
func (l *Lock) Unlock(ctx context.Context) error { return l.engine.UnlockHolder(ctx, l.spec) }

// ForceUnlock frees l, whoever holds it, and reports whether anybody did. The
// other half stays as it is: a writer keeps its lock when the read holds it has
// as well are taken, and its read holds when the write lock is. The holder, if it
// is a Go client, learns of it within one renewal: its Lost is closed.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	var freed bool
	err := l.engine.Ask(ctx, l.op("force-unlock"), l.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		freed, err = l.scripts.force(ctx, l.engine, opts)
		return err
	})
	return freed, err
}

// ForceUnlockHolder frees l if that holder has it, however often, and reports
// whether it did: nobody else loses anything, not even one who has just come
// after it. The holder is given as [latchkey.Hold.HolderID] and
// [latchkey.Client.Info] show it. If it is a Go client, it learns of it within
// one renewal: its Lost is closed.
func (l *Lock) ForceUnlockHolder(ctx context.Context, holder string) (bool, error) {
	return l.engine.ForceHolder(ctx, l.op("force-unlock"), l.spec, holder)
}

// IsLocked reports whether anybody holds l. A reader that has died does so until
// its lease ends.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	st, err := l.state(ctx, "is-locked", "")
	return st.count > 0, err
}

// IsHeldBy reports whether that holder of this client holds l.
func (l *Lock) IsHeldBy(ctx context.Context, h latchkey.Holder) (bool, error) {
	st, err := l.state(ctx, "is-held-by", l.engine.HolderID(engine.NumberOf(h))+l.spec.Suffix)
	return st.count > 0, err
}

// HoldCount returns how many times the holder in ctx holds l; 0 without one.
func (l *Lock) HoldCount(ctx context.Context) (int, error) {
	holder := l.engine.HeldBy(ctx, l.spec)
	if holder == "" {
		return 0, nil
	}
	st, err := l.state(ctx, "hold-count", holder)
	return st.count, err
}

// TTL returns how long l stays held if nobody renews it: for reading, the
// longest lease of all readers. It is 0 when l is free, and -1 when the key has
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
