package multilock

import (
	"context"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/async"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
)

// A Group is a lock on some values of a group on one client: on all of them or
// none. Two Groups exclude each other if they share a value. A Group is safe
// for concurrent use.
type Group struct {
	lockSeam
	engine  *engine.Engine
	spec    *engine.Spec
	scripts *scripts
}

var _ latchkey.Locker = (*Group)(nil)

// NewGroup returns the lock on the given values of a group. It is Redisson's
// getMultiLock(group, values), on the same bytes. NewGroup does no I/O. It
// panics if c is nil, the group is empty, or there are no values.
//
// Values are compared as bytes. Redisson uses the bytes that its codec makes of
// a value. With StringCodec they are the bytes of the text; the bytes of
// another codec may be passed here as they are.
func NewGroup(c *latchkey.Client, group string, values ...string) *Group {
	if c == nil {
		panic("multilock: NewGroup: the client is nil")
	}
	if err := names.Check(group); err != nil {
		panic(fmt.Sprintf("multilock: NewGroup: the group: %v", err))
	}
	if len(values) == 0 {
		panic("multilock: NewGroup: there are no values")
	}
	e := engine.Of(c)
	s := newScripts(engine.Mapped(c, group), values)
	spec := e.Prepare(s.spec(group))
	return &Group{lockSeam: engine.NewLockSeam(e, spec), engine: e, spec: spec, scripts: s}
}

// Name returns the name of the group.
func (g *Group) Name() string { return g.spec.Name }

// Lock takes all values of g, waiting until nobody else has any of them or ctx
// is done. It takes none before it can take all.
//
// If the error is nil, the caller holds the values until it unlocks the Hold or
// the lease is lost; see [latchkey.Hold]. Otherwise this call holds nothing:
// what it left in Redis is taken back, or ends with its lease if Redis cannot
// be reached. If ctx ended the wait, the error is ctx's own.
//
// The Hold's Context derives from ctx, so a deadline on ctx bounds the work as
// well as the wait. TryLock with [latchkey.Wait] bounds only the wait.
//
// If the holder in ctx already holds g, Lock takes g once more without waiting
// and never shortens the present lease. A holder from [latchkey.WithHolder] may
// also take other values of the group that overlap with those it has; a Hold's
// Context re-enters only the Hold's own set of values.
func (g *Group) Lock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return g.acquire(ctx, engine.Lock, opts)
}

// TryLock takes all values of g if they are free now, or, with the option Wait,
// if they become free within that time. Otherwise the error is ErrNotAcquired.
// One attempt is one command, plus one for each reply that is lost.
func (g *Group) TryLock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return g.acquire(ctx, engine.TryLock, opts)
}

func (g *Group) acquire(ctx context.Context, op *engine.Op, opts []latchkey.LockOption) (*latchkey.Hold, error) {
	got, err := g.spec.Acquire(ctx, op, engine.NewLockConfig(opts))
	if err != nil {
		return nil, err
	}
	return bound(got), nil
}

// Unlock releases the latest hold of g by the holder in ctx. It is for code
// that has a holder in its context but no Hold; without a holder it returns
// ErrNotHeld. See [latchkey.Hold.Unlock] for the rest.
func (g *Group) Unlock(ctx context.Context) error { return g.engine.UnlockHolder(ctx, g.spec) }

// ForceUnlock frees the values of g, whoever holds them, and reports whether
// anybody did. Other values of the group are unchanged. A holder in a Go client
// learns of it within one renewal: its Lost is closed.
func (g *Group) ForceUnlock(ctx context.Context) (bool, error) {
	var freed bool
	err := g.engine.Ask(ctx, "force-unlock", g.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		freed, err = g.scripts.force(ctx, g.engine, opts)
		return err
	})
	if freed {
		g.engine.Forced(g.spec, "")
	}
	return freed, err
}

// IsLocked reports whether anybody holds any value of g.
func (g *Group) IsLocked(ctx context.Context) (bool, error) {
	st, err := g.state(ctx, "is-locked", "")
	return st.all > 0, err
}

// IsHeldBy reports whether holder h of this client holds all values of g, by
// this set of values or by others.
func (g *Group) IsHeldBy(ctx context.Context, h latchkey.Holder) (bool, error) {
	st, err := g.state(ctx, "is-held-by", g.engine.HolderID(engine.NumberOf(h)))
	return st.mine > 0, err
}

// HoldCount returns the lowest hold count that the holder in ctx has on a value
// of g. It is 0 if ctx has no holder.
func (g *Group) HoldCount(ctx context.Context) (int, error) {
	holder := g.engine.HeldBy(ctx, g.spec)
	if holder == "" {
		return 0, nil
	}
	st, err := g.state(ctx, "hold-count", plain(holder))
	return st.mine, err
}

// TTL returns how long the longest lease of a value of g lasts if nobody renews
// it. It is 0 if all are free.
func (g *Group) TTL(ctx context.Context) (time.Duration, error) {
	st, err := g.state(ctx, "ttl", "")
	return st.left, err
}

func (g *Group) state(ctx context.Context, op, holder string) (st setState, err error) {
	err = g.engine.Ask(ctx, op, g.spec, true, func(ctx context.Context, opts run.Options) (err error) {
		st, err = g.scripts.state(ctx, g.engine, opts, holder)
		return err
	})
	return st, err
}

// LockAsync starts Lock and returns at once. The channel receives exactly one
// value. A Hold that is still in the channel when ctx is done is unlocked, and
// ctx's error replaces it. The channel is closed right after an error, and
// after a Hold when that Hold ends.
func (g *Group) LockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return g.Lock(ctx, opts...) })
}

// TryLockAsync starts TryLock and returns at once; see LockAsync for the
// channel.
func (g *Group) TryLockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return g.TryLock(ctx, opts...) })
}

// UnlockAsync starts Unlock and returns at once. The channel receives one value
// and is then closed.
func (g *Group) UnlockAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return g.Unlock(ctx) })
}
