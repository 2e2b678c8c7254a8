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

// A Lock is a lock that is made of other locks, its members. It is held while
// enough of them are: all, if New made it, or a majority, if NewRed did.
// Goroutines may share it.
type Lock struct {
	name    string
	id      string // the same for Locks of the same members
	members []member
	quorum  int // of members that make it held
	red     bool
}

var _ latchkey.Locker = (*Lock)(nil)

// New returns the lock of all those locks: whoever holds it holds each of them.
// They may be of any kind, of several clients and servers, and be made of locks
// themselves. It does no I/O. It panics when there are none, or one is nil.
//
// The members are taken in an order that follows from their names, whatever the
// order they are given in; one that is given twice is taken once.
func New(locks ...latchkey.Locker) *Lock {
	members := inOrder(flattened(membersOf("New", locks)))
	return newLock("all", members, len(members))
}

// NewRed returns the lock of a majority of those locks, which must be on servers
// that know nothing of each other: the algorithm that is known as Redlock. Whoever
// holds it holds more than half of them, so that it can be taken and kept while
// fewer than half of the servers are down. See the package comment for what that
// promises, and what not. It does no I/O.
//
// It panics when there are none, one is nil, or two are on one client or on one
// address: then the same server would count twice.
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

// unique returns names, each once.
func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Name returns the names of the members, each once, with a "+" in between.
func (l *Lock) Name() string { return l.name }

// Lock takes l, waiting until enough members are free or ctx is done.
//
// If the error is nil, the caller holds l until it unlocks the Hold or it is
// lost. Otherwise no member is held on this call's account: what had been taken
// is given back, in the background if Redis does not answer, or ends with its
// lease if it cannot be reached. The error is ctx's own when ctx ended the wait.
//
// The Hold's Context comes from ctx. A deadline on ctx therefore bounds the work
// as well as the wait; TryLock with [latchkey.Wait] bounds the wait alone.
//
// The options go to the members. A Lease counts for each from its own request,
// and the Hold's Remaining tells how long they last together.
//
// A holder that has l already (see [latchkey.Hold.Context] and
// [latchkey.WithHolder]) takes each member once more without waiting, if the
// members are reentrant.
func (l *Lock) Lock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, "lock", false, opts)
}

// TryLock takes l if enough members are free now, or, with the option Wait,
// within that time, which is for the whole and not for each member. If they are
// not, the error is ErrNotAcquired.
func (l *Lock) TryLock(ctx context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.acquire(ctx, "trylock", true, opts)
}

func (l *Lock) acquire(ctx context.Context, op string, try bool, opts []latchkey.LockOption) (*latchkey.Hold, error) {
	t := taking{lock: l, cfg: *engine.NewLockConfig(opts)}
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

// Unlock gives back the latest hold of l that the holder in ctx has. It is for
// code that has a holder in its context rather than a Hold in its hand; without
// one it returns ErrNotHeld. See [latchkey.Hold.Unlock] for the rest.
func (l *Lock) Unlock(ctx context.Context) error {
	var begun []*whole // by other goroutines of the holder: it is the turn of those before
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

// latest returns the latest hold of l that the holder in ctx has, but for some.
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

// notHeld says why nothing is found held.
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

// bound returns a Hold that stands for h.
func bound(h engine.Held) *latchkey.Hold {
	out := new(latchkey.Hold)
	engine.Bind(out, h)
	return out
}

var errNoHold = errors.New("the member's Locker returned no Hold and no error")

// LockAsync is Lock that does not wait: the channel gets exactly one value. A
// Hold that nobody has received when ctx is done is unlocked, and ctx's error
// takes its place. The channel is closed behind an error at once, behind a Hold
// when the Hold ends.
func (l *Lock) LockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return l.Lock(ctx, opts...) })
}

// TryLockAsync is TryLock that does not wait; see LockAsync for the channel.
func (l *Lock) TryLockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return l.TryLock(ctx, opts...) })
}

// UnlockAsync is Unlock that does not wait. The channel gets one value and is
// closed.
func (l *Lock) UnlockAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.Unlock(ctx) })
}
