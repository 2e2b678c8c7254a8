package text

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

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
)

// A Printer is where a command writes, and how: for people, or as JSON for
// programs.
type Printer struct {
	io.Writer
	JSON   bool // for programs
	Colour bool
	Width  int   // of the terminal, in columns; 0 for any
	Err    error // of the first write that failed
}

// Write is that of the Writer. An error is kept for Show: the printing functions
// are not asked for theirs.
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

// To sets where o writes. Colours are for terminals, and not where NO_COLOR is
// set; only a terminal has a width.
func (o *Printer) To(w io.Writer) {
	o.Writer = w
	if IsTerminal(w) {
		o.Colour = os.Getenv("NO_COLOR") == ""
		o.Width, _, _ = term.GetSize(int(w.(*os.File).Fd()))
	}
}

// IsTerminal reports whether w is a terminal that can more than print lines.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Show writes v as JSON, or what people writes.
func (o *Printer) Show(v any, people func()) error {
	if !o.JSON {
		people()
		return o.Err
	}
	return o.Encode(v, "  ")
}

// Encode writes v as JSON, on one line if indent is empty. What does not print
// is escaped, so that it does no harm on a terminal either.
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

// Printf writes as fmt.Printf does.
func (o *Printer) Printf(format string, args ...any) { fmt.Fprintf(o, format, args...) }

// Paint colours a text: "31" is red, "32" green, "33" yellow, "2" faint.
func (o *Printer) Paint(colour, text string) string {
	if !o.Colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
