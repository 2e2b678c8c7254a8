package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/latchkey-go/latchkey"
)

// The exit codes: those of sysexits.h, of timeout(1) and of the shells.
const (
	exitFailed      = 1
	exitUsage       = 64  // EX_USAGE
	exitUnavailable = 69  // EX_UNAVAILABLE: Redis cannot be reached, or refuses
	exitConflict    = 75  // EX_TEMPFAIL: somebody else has the lock
	exitLost        = 76  // the lock was lost while the child ran
	exitTimeout     = 124 // as timeout(1)
	exitCannotRun   = 126 // as the shells, like the next two
	exitNotFound    = 127
	exitSignal      = 128 // plus the number of the signal
)

// An exit is an error that knows its exit code. Without a text nothing is said.
type exit struct {
	code int
	text string
}

func (e *exit) Error() string { return e.text }

func exitf(code int, format string, args ...any) error {
	return &exit{code, fmt.Sprintf(format, args...)}
}

func usagef(format string, args ...any) error { return exitf(exitUsage, format, args...) }

// report says what err is, and returns the exit code. An error that has none
// comes from cobra: an unknown flag or command, a missing argument.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	var e *exit
	if !errors.As(err, &e) {
		e = &exit{exitUsage, err.Error()}
	}
	if e.text != "" {
		say(w, e.text)
	}
	if e.code == exitUsage {
		fmt.Fprintln(w, "Try 'latchkey help' or 'latchkey COMMAND --help'.")
	}
	return e.code
}

// warn says something that ends nothing.
func warn(format string, args ...any) { say(os.Stderr, fmt.Sprintf(format, args...)) }

// say writes a message, line by line. It may have what a server has said, or the
// caller, or somebody who has chosen a name: none of it reaches a terminal but
// what prints.
func say(w io.Writer, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(w, "latchkey: %s\n", harmless(line))
	}
}

// unavailable is the error of a command that Redis did not let happen.
func unavailable(addr string, err error) error {
	var e *latchkey.Error
	if errors.As(err, &e) {
		err = e.Err // the rest is about Go
	}
	text := strings.TrimPrefix(plainly(err).Error(), latchkey.ErrNotAcquired.Error()+": ") // who knows who has it
	// The second is how Redis answers to a long command from somebody unknown.
	switch {
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "unauthenticated"):
		text = "it wants a password (-a, " + envAuth + " or in the URL)"
	case strings.HasPrefix(text, "MOVED "), strings.HasPrefix(text, "ASK "):
		text = "it is a node of a Redis Cluster (--cluster): " + text
	}
	return exitf(exitUnavailable, "Redis at %s: %s", addr, harmless(text))
}
