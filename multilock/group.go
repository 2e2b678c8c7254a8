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

// A Group is a lock of some values of a group on one client: all of them or
// none. Two Groups exclude each other where their values meet. Goroutines may
// share it.
type Group struct {
	lockSeam
	engine  *engine.Engine
	spec    *engine.Spec
	scripts *scripts
}

var _ latchkey.Locker = (*Group)(nil)

// NewGroup returns the lock of those values of a group: what Redisson's
// getMultiLock(group, values) is, on the same bytes. It does no I/O. It panics
// when c is nil, the group is empty, or there are no values.
//
// A value is told from others by its bytes. Redisson takes those that its codec
// makes of a value: with StringCodec they are the text's own; those of another
// codec may be given here as they are.
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
	s := newScripts(e.Mapped(group), values)
	spec := e.Prepare(s.spec(group))
	return &Group{lockSeam: engine.NewLockSeam(e, spec), engine: e, spec: spec, scripts: s}
}

// Name returns the name of the group.
func (g *Group) Name() string { return g.spec.Name }

// Lock takes all values of g, waiting until nobody else has any of them, or ctx
// is done. It takes none before it can take all.
//
// If the error is nil, the caller holds them until it unlocks the Hold or the
// lease is lost; see [latchkey.Hold]. Otherwise none is held on this call's
// account: a claim left in Redis is withdrawn, or ends with its lease if Redis
// cannot be reached. The error is ctx's own when ctx ended the wait.
//
// The Hold's Context comes from ctx. A deadline on ctx therefore bounds the work
// as well as the wait; TryLock with [latchkey.Wait] bounds the wait alone.
//
// A holder that has g already takes it once more without waiting. That never
// shortens the lease it has. A holder from [latchkey.WithHolder] may also take
// other values of the group that meet those it has; a Hold's Context speaks for
// its own values only.
func (g *Group) Lock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return g.acquire(ctx, engine.Lock, opts)
}

// TryLock takes all values of g if they are free now, or, with the option Wait,
// within that time. If they are not, the error is ErrNotAcquired. One attempt is
// one command, and one more for each answer that is lost on the way.
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

// Unlock gives back the latest hold of g that the holder in ctx has. It is for
// code that has a holder in its context rather than a Hold in its hand; without
// one it returns ErrNotHeld. See [latchkey.Hold.Unlock] for the rest.
func (g *Group) Unlock(ctx context.Context) error { return g.engine.UnlockHolder(ctx, g.spec) }

// ForceUnlock frees the values of g, whoever holds them, and reports whether
// anybody did. Other values of the group are left alone. A holder, if it is a Go
// client, learns of it within one renewal: its Lost is closed.
func (g *Group) ForceUnlock(ctx context.Context) (bool, error) {
	var freed bool
	err := g.engine.Ask(ctx, "force-unlock", g.spec, false, func(ctx context.Context, opts run.Options) (err error) {
		freed, err = g.scripts.force(ctx, g.engine, opts)
		return err
	})
	return freed, err
}

// IsLocked reports whether anybody holds any value of g.
func (g *Group) IsLocked(ctx context.Context) (bool, error) {
	st, err := g.state(ctx, "is-locked", "")
	return st.all > 0, err
}

// IsHeldBy reports whether that holder of this client holds all values of g, by
// this set of values or by others.
func (g *Group) IsHeldBy(ctx context.Context, h latchkey.Holder) (bool, error) {
	st, err := g.state(ctx, "is-held-by", g.engine.HolderID(engine.NumberOf(h)))
	return st.mine > 0, err
}

// HoldCount returns how many times the holder in ctx holds the value of g that it
// holds the fewest times; 0 without one.
func (g *Group) HoldCount(ctx context.Context) (int, error) {
	holder := g.engine.HeldBy(ctx, g.spec)
	if holder == "" {
		return 0, nil
	}
	st, err := g.state(ctx, "hold-count", plain(holder))
	return st.mine, err
}

// TTL returns how long the longest present lease of a value of g lasts if nobody
// renews it; 0 when all are free.
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

// LockAsync is Lock that does not wait: the channel gets exactly one value. A
// Hold that nobody has received when ctx is done is unlocked, and ctx's error
// takes its place. The channel is closed behind an error at once, behind a Hold
// when the Hold ends.
func (g *Group) LockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return g.Lock(ctx, opts...) })
}

// TryLockAsync is TryLock that does not wait; see LockAsync for the channel.
func (g *Group) TryLockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return g.TryLock(ctx, opts...) })
}

// UnlockAsync is Unlock that does not wait. The channel gets one value and is
// closed.
func (g *Group) UnlockAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return g.Unlock(ctx) })
}
