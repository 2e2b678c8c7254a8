// Package terminal prints for people and for programs: tables, colours, JSON. It
// also parses the durations of flags.
package terminal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
)

// A Printer is the output of a command: text for people, or JSON for programs.
type Printer struct {
	io.Writer
	JSON   bool // print JSON
	Colour bool
	Width  int   // columns of the terminal; 0 for unlimited
	Err    error // error of the first write that failed
}

// Write implements io.Writer. It keeps an error for Show, so callers of the
// printing functions need not check.
func (o *Printer) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.Err = cmp.Or(o.Err, exit.Errorf(exit.Failed, "what there is to show cannot be written: %v", err))
	}
	return n, err
}

// JSONVar adds the flag --json.
func JSONVar(cmd *cobra.Command, o *Printer) {
	cmd.Flags().BoolVar(&o.JSON, "json", false, "write JSON, for programs")
}

// To sets where o writes. It uses colours only on a terminal, and not if
// NO_COLOR is set. Only a terminal has a width.
func (o *Printer) To(w io.Writer) {
	o.Writer = w
	if IsTerminal(w) {
		o.Colour = os.Getenv("NO_COLOR") == ""
		o.Width, _, _ = term.GetSize(int(w.(*os.File).Fd()))
	}
}

// IsTerminal reports whether w is a terminal that can do more than print lines.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Fit cuts a line to the width of the terminal w, so that it can be written over.
func Fit(w io.Writer, line string) string {
	o := new(Printer)
	if o.To(w); o.Width > 1 {
		return ansi.Truncate(line, o.Width-1, "…")
	}
	return line
}

// Show prints v as JSON, or calls people to print text.
func (o *Printer) Show(v any, people func()) error {
	if !o.JSON {
		people()
		return o.Err
	}
	return o.Encode(v, "  ")
}

// Encode prints v as JSON, on one line if indent is empty. It escapes
// unprintable characters, which could do harm on a terminal.
func (o *Printer) Encode(v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	var out strings.Builder
	for _, r := range b.String() {
		if r == '\n' || unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, u)
		}
	}
	_, _ = io.WriteString(o, out.String())
	return o.Err
}

// Printf prints as fmt.Printf does.
func (o *Printer) Printf(format string, args ...any) { fmt.Fprintf(o, format, args...) }

// Paint colours a text: "31" is red, "32" green, "33" yellow, "2" faint.
func (o *Printer) Paint(colour, text string) string {
	if !o.Colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
