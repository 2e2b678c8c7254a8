package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/text"
)

// report says what err is, and returns the exit code.
func report(w io.Writer, err error) int {
	code := exit.Code(err)
	if err != nil {
		text := err.Error()
		if e, ok := errors.AsType[*exit.Error](err); ok {
			text = e.Text // without what is around it
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

// warn says something that ends nothing.
func warn(format string, args ...any) { say(os.Stderr, fmt.Sprintf(format, args...)) }

// say writes a message, line by line. It may have what a server has said, or the
// caller, or somebody who has chosen a name: none of it reaches a terminal but
// what prints.
func say(w io.Writer, message string) {
	for line := range strings.SplitSeq(message, "\n") {
		fmt.Fprintf(w, "latchkey: %s\n", text.Harmless(line))
	}
}
