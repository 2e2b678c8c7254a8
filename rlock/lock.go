package rlock

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

// A Lock is a reentrant lock on a client. Goroutines may share it.
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
		panic("rlock: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("rlock: New: %v", err))
	}
	var cfg config
	for _, o := range opts {
		o.apply(&cfg)
	}
	e := engine.Of(c)
	s := newScripts(e.Mapped(name), cfg)
	spec := e.Prepare(s.spec(name, cfg))
	return &Lock{lockSeam: engine.NewLockSeam(e, spec), engine: e, spec: spec, scripts: s}
}

// Name returns the name of the lock.
func (l *Lock) Name() string { return l.spec.Name }

// Lock takes l, waiting until it is free or ctx is done.
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
// the lease it has. If what it has was lost, the error is ErrLeaseLost. With the
// context from before its own Lock, it waits for itself.
func (l *Lock) Lock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return hold(l.spec.Acquire(ctx, engine.Lock, engine.NewLockConfig(opts)))
}

// TryLock takes l if it is free now, or, with the option Wait, within that time.
// If it is not, the error is ErrNotAcquired. One attempt is one command, and one
// more for each answer that is lost on the way.
func (l *Lock) TryLock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return hold(l.spec.Acquire(ctx, engine.TryLock, engine.NewLockConfig(opts)))
}

// hold makes what a caller is given of what the engine has acquired.
func hold(got *engine.Hold, err error) (*latchkey.Hold, error) {
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

// ForceUnlock frees l, whoever holds it, and reports whether anybody did. The
// holder, if it is a Go client, learns of it within one renewal: its Lost is
// closed.
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
// one renewal: its Lost is closed.
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

// Token returns the highest fencing token that anybody was given, or may have been
// given, by a client that took some at a time; 0 when nobody was or l is not Fenced.
// It is not the caller's; see [latchkey.Hold.Token].
func (l *Lock) Token(ctx context.Context) (int64, error) {
	st, err := l.state(ctx, "token", "")
	return st.token, err
}

func (l *Lock) state(ctx context.Context, op, holder string) (st state, err error) {
	l.engine.UpToDate(ctx, l.spec.Key)
	err = l.engine.Ask(ctx, op, l.spec, true, func(ctx context.Context, opts run.Options) (err error) {
		st, err = l.scripts.state(ctx, l.engine, opts, holder)
		return err
	})
	return st, err
}
