package engine

import (
	"errors"
)

// The conditions that the root re-exports under the same names.
var (
	ErrNotAcquired   = errors.New("not acquired")
	ErrNotHeld       = errors.New("not held")
	ErrLeaseLost     = errors.New("lease lost")
	ErrClosed        = errors.New("client closed")
	ErrReentry       = errors.New("already held by this holder, and the lock is not reentrant")
	ErrUpgrade       = errors.New("the holder has the read lock, and waiting for the write lock would be waiting for itself")
	ErrKeyConflict   = errors.New("the key holds another kind of value")
	ErrNotReplicated = errors.New("not replicated")
	ErrUnsupported   = errors.New("not supported")
)

// errLost is what the methods of a lost Hold return: both at once.
var errLost = both{ErrLeaseLost, ErrNotHeld}

// ErrLost is errLost, for holds that others make.
var ErrLost error = errLost

// both is an error that is two errors, in one short line.
type both struct{ first, second error }

func (b both) Error() string   { return b.first.Error() + ": " + b.second.Error() }
func (b both) Unwrap() []error { return []error{b.first, b.second} }

// conflict marks what Redis says of another kind of value as ErrKeyConflict; other
// errors stay.
func conflict(err error) error {
	if isCode(err, "WRONGTYPE") {
		return both{ErrKeyConflict, err}
	}
	return err
}

// inDoubt marks an error of a call whose effect is unknown: MaybeApplied.
type inDoubt struct{ error }

func (d inDoubt) Unwrap() error { return d.error }
