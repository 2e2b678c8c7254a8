package run

import "errors"

// The conditions that the root package exports under the same names.
var (
	ErrClosed        = errors.New("client closed")
	ErrNotReplicated = errors.New("not replicated")
	ErrUnsupported   = errors.New("not supported")
)

// both is two errors as one, on one short line.
type both struct{ first, second error }

func (b both) Error() string   { return b.first.Error() + ": " + b.second.Error() }
func (b both) Unwrap() []error { return []error{b.first, b.second} }

// Both returns two errors as one, on one short line.
func Both(first, second error) error { return both{first, second} }
