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
	// ErrNotAcquired is returned by TryLock and TryAcquire when somebody else
	// has it, and still had it when the Wait was over.
	ErrNotAcquired = engine.ErrNotAcquired
	// ErrNotHeld is returned by Unlock, Release and Extend when this holder does
	// not have it: it never did, it gave it back, or, together with
	// ErrLeaseLost, it lost it.
	ErrNotHeld = engine.ErrNotHeld
	// ErrLeaseLost says that it was held and was lost: the lease ran out, or
	// somebody took it away. It is also the cause with which a Hold's Context
	// ends then.
	ErrLeaseLost = engine.ErrLeaseLost
	// ErrClosed is returned by everything, waiting calls included, once the
	// client is closed. It is also the cause with which the Context of a Hold
	// ends that Close has given back.
	ErrClosed = run.ErrClosed
	// ErrReentry is returned when the present holder acquires a lock that is not
	// reentrant.
	ErrReentry = engine.ErrReentry
	// ErrUpgrade is returned when a holder of a read lock acquires the write lock:
	// it would wait for itself. Give the read lock back first.
	ErrUpgrade = engine.ErrUpgrade
	// ErrKeyConflict says that the key holds another kind of value: somebody
	// uses the name for something else.
	ErrKeyConflict = engine.ErrKeyConflict
	// ErrNotReplicated is returned when fewer replicas have confirmed a change than
	// WithReplicaAck asks for. What was acquired has been given back; what was
	// released (AckReleases) stays released.
	ErrNotReplicated = run.ErrNotReplicated
	// ErrUnsupported is returned where Redis is reached by a redis.Ring, and with
	// WithReplicaAck by any type but go-redis's own.
	ErrUnsupported = run.ErrUnsupported
	// ErrChannelDenied says that Redis refused a subscription, so that waiters
	// poll. No call fails with it; an Observer hears of it.
	ErrChannelDenied = pubsub.ErrDenied
)

// An Error is what the methods of this module return: what was done to what,
// and why it failed. Err is one of the conditions above, an error of go-redis,
// or the context's own; errors.Is and errors.As find it.
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

// maxQuoted is how much of a name an error shows.
const maxQuoted = 128

// quoted returns name in quotes, with what does not print escaped, cut where it
// is long.
func quoted(name string) string {
	if len(name) > maxQuoted {
		return strconv.Quote(name[:maxQuoted]) + "…"
	}
	return strconv.Quote(name)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// MaybeApplied reports whether a command was sent whose answer never came, so
// that it may have taken effect. After an acquire, whatever it left is undone in
// the background, or ends with its lease. After an unlock, nothing renews the
// lock any more; Unlock may be called again, and the lease ends it at the
// latest. Of an error that joins others it says whether that holds for any of
// them.
func (e *Error) MaybeApplied() bool { return e.maybe || anyMaybe(e.Err) }

// anyMaybe looks for an *Error that says so in err and in all that it joins.
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
