package multilock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/async"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
)

type lockSeam = engine.LockSeam // see internal/engine/part.go

// A Lock is a lock that consists of other locks, its members. A Lock from New
// is held while all members are held; a Lock from NewRed is held while a
// majority is. A Lock is safe for concurrent use.
type Lock struct {
	name    string
	id      string // equal for Locks with the same members
	members []member
	quorum  int // number of members that make the Lock held
	red     bool
}

var _ latchkey.Locker = (*Lock)(nil)

// New returns the lock of all given locks: whoever holds it holds each of them.
// The locks may be of any kind, belong to several clients and servers, and be
// multi-locks themselves. New does no I/O. It panics if there are no locks or
// one is nil.
//
// The members are taken in an order that follows from their names, not in the
// order given. A lock that is given twice is taken once.
func New(locks ...latchkey.Locker) *Lock {
	members := inOrder(flattened(membersOf("New", locks)))
	return newLock("all", members, len(members))
}

// NewRed returns the lock of a majority of the given locks, which must be on
// independent servers: the Redlock algorithm. Whoever holds it holds more than
// half of the locks, so it can be taken and kept while fewer than half of the
// servers are down. See the package comment for what that promises and what it
// does not. NewRed does no I/O.
//
// It panics if there are no locks, one is nil, or two are on one client or one
// address, because then one server would count twice.
func NewRed(locks ...latchkey.Locker) *Lock {
	members := membersOf("NewRed", locks)
	apart(members)
	l := newLock("red", members, len(members)/2+1)
	l.red = true
	return l
}

func newLock(kind string, members []member, quorum int) *Lock {
	names, ids := make([]string, len(members)), make([]string, len(members))
	for i, m := range members {
		names[i], ids[i] = m.locker.Name(), m.id
	}
	names = unique(names)
	return &Lock{
		name:    strings.Join(names, "+"),
		id:      fmt.Sprintf("%s%q", kind, ids),
		members: members,
		quorum:  quorum,
	}
}

// unique returns names without duplicates.
func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Name returns the names of the members, each once, joined by "+".
func (l *Lock) Name() string { return l.name }

// Lock takes l, waiting until enough members are free or ctx is done.
//
// If the error is nil, the caller holds l until it unlocks the Hold or the Hold
// is lost. Otherwise this call holds no member: what it had taken is given
// back, in the background if Redis does not answer, or ends with its lease if
// Redis cannot be reached. If ctx ended the wait, the error is ctx's own.
//
// The Hold's Context derives from ctx, so a deadline on ctx bounds the work as
// well as the wait. TryLock with [latchkey.Wait] bounds only the wait.
//
// The options apply to each member. The Lease of a member counts from the
// request to that member; the Hold's Remaining returns how long they last
// together.
//
// If the holder in ctx already holds l (see [latchkey.Hold.Context] and
// [latchkey.WithHolder]), Lock takes each member once more without waiting,
// provided the members are reentrant.
func (l *Lock) Lock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, "lock", false, opts)
}

// TryLock takes l if enough members are free now, or, with the option Wait,
// within that time, which bounds the whole call and not each member. Otherwise
// the error is ErrNotAcquired.
func (l *Lock) TryLock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, "trylock", true, opts)
}

func (l *Lock) acquire(ctx context.Context, op string, try bool, opts []latchkey.LockOption) (*latchkey.Hold, error) {
	t := attempt{lock: l, cfg: *engine.NewLockConfig(opts)}
	err := t.cfg.Check()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, l.wrap(op, err)
	}
	end := t.begin(ctx, try)
	defer end()
	take := t.all
	if l.red {
		take = t.majority
	}
	w, err := take(ctx)
	if err != nil {
		return nil, l.wrap(op, err)
	}
	return bound(w), nil
}

// Unlock releases the latest hold of l by the holder in ctx. It is for code
// that has a holder in its context but no Hold; without a holder it returns
// ErrNotHeld. See [latchkey.Hold.Unlock] for the rest.
func (l *Lock) Unlock(ctx context.Context) error {
	var begun []*whole // other goroutines of the holder are unlocking these; try the holds before them
	for w := l.latest(ctx, nil); w != nil; w = l.latest(ctx, begun) {
		if done, err := w.unlock(ctx, false); done {
			return err
		}
		begun = append(begun, w)
	}
	if len(begun) > 0 {
		return begun[0].Unlock(ctx)
	}
	return l.wrap("unlock", l.notHeld())
}

// latest returns the latest hold of l by the holder in ctx, except those in
// but.
func (l *Lock) latest(ctx context.Context, but []*whole) *whole {
	for m := range l.leaves() {
		if m.engine == nil {
			continue
		}
		var found *whole
		m.engine.HoldIn(ctx, m.spec, func(h *engine.Hold) bool {
			found = wholeOf(h.Whole(), l.id)
			return found != nil && !slices.Contains(but, found)
		})
		if found != nil && !slices.Contains(but, found) {
			return found
		}
	}
	return nil
}

// notHeld returns the error for a lock of which no hold is found.
func (l *Lock) notHeld() error {
	for m := range l.leaves() {
		if m.engine != nil && m.engine.IsClosed() {
			return run.ErrClosed
		}
	}
	return engine.ErrNotHeld
}

// wrap returns err as an *Error, or nil for nil.
func (l *Lock) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return &latchkey.Error{Op: op, Kind: "multilock", Name: l.name, Err: err}
}

// bound returns a Hold for h.
func bound(h engine.Held) *latchkey.Hold {
	out := new(latchkey.Hold)
	engine.Bind(out, h)
	return out
}

var errNoHold = errors.New("the member's Locker returned no Hold and no error")

// LockAsync starts Lock and returns at once. The channel receives exactly one
// value. A Hold that is still in the channel when ctx is done is unlocked, and
// ctx's error replaces it. The channel is closed right after an error, and
// after a Hold when that Hold ends.
func (l *Lock) LockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return l.Lock(ctx, opts...) })
}

// TryLockAsync starts TryLock and returns at once; see LockAsync for the
// channel.
func (l *Lock) TryLockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return l.TryLock(ctx, opts...) })
}

// UnlockAsync starts Unlock and returns at once. The channel receives one value
// and is then closed.
func (l *Lock) UnlockAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.Unlock(ctx) })
}
