// Package exit has the exit codes of the command, and errors that carry them.
package exit

import (
	"errors"
	"fmt"
)

// The exit codes: those of sysexits.h, of timeout(1) and of the shells.
const (
	Failed      = 1
	Usage       = 64  // EX_USAGE
	Unavailable = 69  // EX_UNAVAILABLE: Redis cannot be reached, or refuses
	Conflict    = 75  // EX_TEMPFAIL: somebody else has the lock
	Lost        = 76  // the lock was lost while the child ran
	Timeout     = 124 // as timeout(1)
	CannotRun   = 126 // as the shells, like the next two
	NotFound    = 127
	Signal      = 128 // plus the number of the signal
)

// An Error is an error that knows its exit code. Without a text nothing is said.
type Error struct {
	Code int
	Text string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Errorf returns an error with an exit code.
func Errorf(code int, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Usagef returns the error of a command line that makes no sense.
func Usagef(format string, args ...any) error { return Errorf(Usage, format, args...) }

// Code returns the exit code of err, 0 if that is nil. An error that has none
// comes from cobra: an unknown flag or command, a missing argument.
func Code(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Usage
}
