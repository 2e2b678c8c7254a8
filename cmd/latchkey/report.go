package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/text"
)

// report prints err and returns the exit code.
func report(w io.Writer, err error) int {
	code := exit.Code(err)
	if err != nil {
		text := err.Error()
		if e, ok := errors.AsType[*exit.Error](err); ok {
			text = e.Text // without the context that wraps it
		}
		if text != "" {
			say(w, text)
		}
	}
	if code == exit.Usage {
		fmt.Fprintln(w, "Try 'latchkey help' or 'latchkey COMMAND --help'.")
	}
	return code
}

// warn prints a message that ends nothing.
func warn(format string, args ...any) { say(os.Stderr, fmt.Sprintf(format, args...)) }

// say prints a message line by line. The message may contain text of a server,
// of the caller, or of whoever chose a name. Only printable characters of it
// reach a terminal.
func say(w io.Writer, message string) {
	for line := range strings.SplitSeq(message, "\n") {
		fmt.Fprintf(w, "latchkey: %s\n", text.Harmless(line))
	}
}
