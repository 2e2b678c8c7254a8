// Package exit defines the exit codes of the command and errors that carry
// them.
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

// An Error is an error with an exit code. If its text is empty, nothing is
// printed.
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

// Usagef returns the error for an invalid command line.
func Usagef(format string, args ...any) error { return Errorf(Usage, format, args...) }

// Code returns the exit code of err, or 0 if err is nil. An error without an
// exit code comes from cobra: an unknown flag or command, or a missing
// argument.
func Code(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Usage
}
