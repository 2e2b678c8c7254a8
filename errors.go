package latchkey

import (
	"slices"
	"strconv"
	"strings"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/pubsub"
)

// The conditions that the methods of this module report. Compare with
// errors.Is: they arrive inside an *Error.
var (
	// ErrNotAcquired is returned by TryLock and TryAcquire if somebody else
	// holds the object, and still holds it when the Wait is over.
	ErrNotAcquired = engine.ErrNotAcquired
	// ErrNotHeld is returned by Unlock, Release and Extend if this holder does
	// not hold the object: it never did, it gave it back, or, together with
	// ErrLeaseLost, it lost it.
	ErrNotHeld = engine.ErrNotHeld
	// ErrLeaseLost says that a hold or permit was lost: its lease ended, or
	// somebody took it away. It is also the cause with which the Context of a
	// lost Hold ends.
	ErrLeaseLost = engine.ErrLeaseLost
	// ErrClosed is returned by all calls, waiting calls included, once the
	// client is closed. It is also the cause with which the Context of a Hold
	// ends that Close has given back.
	ErrClosed = run.ErrClosed
	// ErrReentry is returned if the present holder acquires a lock that is not
	// reentrant.
	ErrReentry = engine.ErrReentry
	// ErrUpgrade is returned if the holder of a read lock acquires the write
	// lock: it would wait for itself. Give the read lock back first.
	ErrUpgrade = engine.ErrUpgrade
	// ErrKeyConflict says that the key holds a value of another type: the name
	// is in use for something else.
	ErrKeyConflict = engine.ErrKeyConflict
	// ErrNotReplicated is returned if fewer replicas have confirmed a change
	// than WithReplicaAck requires. What was acquired has been given back. What
	// was released (AckReleases) stays released.
	ErrNotReplicated = run.ErrNotReplicated
	// ErrUnsupported is returned if the client uses a redis.Ring, and with
	// WithReplicaAck if it uses any type that is not go-redis's own.
	ErrUnsupported = run.ErrUnsupported
	// ErrChannelDenied says that Redis refused a subscription, so waiters poll.
	// No call fails with it; an Observer receives it.
	ErrChannelDenied = pubsub.ErrDenied
)

// An Error is the error that the methods of this module return: the operation,
// the object, and the reason. Err is one of the conditions above, an error of
// go-redis, or the error of the context. errors.Is and errors.As find it.
type Error struct {
	Op   string // "lock", "unlock", …
	Kind string // the package: "rlock", …
	Name string // the object, as the user named it
	Err  error

	maybe bool
}

// Error returns one line that names the object: `rlock: lock "orders:42": …`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Kind)
	b.WriteString(": ")
	b.WriteString(e.Op)
	if e.Name != "" {
		b.WriteByte(' ')
		b.WriteString(quoted(e.Name))
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// maxQuoted is how many bytes of a name an error shows.
const maxQuoted = 128

// quoted returns name in quotes, with unprintable characters escaped, cut after
// maxQuoted bytes.
func quoted(name string) string {
	if len(name) > maxQuoted {
		return strconv.Quote(name[:maxQuoted]) + "…"
	}
	return strconv.Quote(name)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// MaybeApplied reports whether a command was sent whose reply never came, so
// that it may have taken effect. After an acquire, whatever it left is undone
// in the background, or ends with its lease. After an unlock, the lock is no
// longer renewed; Unlock may be called again, and the lease ends it at the
// latest. For an error that joins others, MaybeApplied reports whether any of
// them may have been applied.
func (e *Error) MaybeApplied() bool { return e.maybe || anyMaybe(e.Err) }

// anyMaybe reports whether err, or any error that it wraps or joins, is an
// *Error that may have been applied.
func anyMaybe(err error) bool {
	switch x := err.(type) { //nolint:errorlint // it is the unwrapping
	case *Error:
		return x.MaybeApplied()
	case interface{ Unwrap() error }:
		return anyMaybe(x.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(x.Unwrap(), anyMaybe)
	}
	return false
}

func newError(op, kind, name string, maybe bool, err error) error {
	return &Error{Op: op, Kind: kind, Name: name, Err: err, maybe: maybe}
}
