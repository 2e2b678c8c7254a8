package engine

import (
	"errors"
	"strings"

	"github.com/latchkey-go/latchkey/internal/run"
)

// The conditions that the root package exports under the same names.
var (
	ErrNotAcquired = errors.New("not acquired")
	ErrNotHeld     = errors.New("not held")
	ErrLeaseLost   = errors.New("lease lost")
	ErrReentry     = errors.New("already held by this holder, and the lock is not reentrant")
	ErrUpgrade     = errors.New("the holder has the read lock, and waiting for the write lock would be waiting for itself")
	ErrKeyConflict = errors.New("the key holds another kind of value")
)

// errLost is the error of the methods of a lost Hold: both conditions at once.
var errLost = run.Both(ErrLeaseLost, ErrNotHeld)

// ErrLost is errLost, for other implementations of Held.
var ErrLost error = errLost

// conflict marks Redis's error about a value of another type as ErrKeyConflict.
// It returns other errors unchanged.
func conflict(err error) error {
	if run.IsCode(err, "WRONGTYPE") {
		return run.Both(ErrKeyConflict, err)
	}
	return err
}

// inDoubt marks the error of a call whose effect is unknown: MaybeApplied.
type inDoubt struct{ error }

func (d inDoubt) Unwrap() error { return d.error }

// InDoubt marks err, for Wrap, as that of a call whose effect is unknown.
func InDoubt(err error) error { return inDoubt{err} }

var errNotUndone = errors.New("an acquire without an answer could not be undone, and may keep what it took")

// maxText is the most bytes of an error that are kept.
const maxText = 1000

// ErrorText returns what is kept in Redis of an error, for people; it is not empty.
func ErrorText(err error) string {
	s := strings.ToValidUTF8(err.Error(), "�")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	if s == "" {
		return "an error without a text"
	}
	return s
}
