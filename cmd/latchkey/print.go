package main

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
)

// A printer is where a command writes, and how: for people, or as JSON for
// programs.
type printer struct {
	io.Writer
	json   bool
	colour bool
	err    error // the first of a write that failed
}

// Write is that of the Writer. An error is kept for show: the printing functions
// are not asked for theirs.
func (o *printer) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.err = cmp.Or(o.err, exitf(exitFailed, "what there is to show cannot be written: %v", err))
	}
	return n, err
}

// printVar adds the flag --json.
func printVar(cmd *cobra.Command, o *printer) {
	cmd.Flags().BoolVar(&o.json, "json", false, "write JSON, for programs")
}

// to sets where o writes. Colours are for terminals, and not where NO_COLOR is
// set.
func (o *printer) to(w io.Writer) {
	o.Writer = w
	o.colour = isTerminal(w) && os.Getenv("NO_COLOR") == ""
}

// isTerminal reports whether w is a terminal that can more than print lines.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// show writes v as JSON, or what people writes.
func (o *printer) show(v any, people func()) error {
	if !o.json {
		people()
		return o.err
	}
	return o.encode(v, "  ")
}

// encode writes v as JSON, on one line if indent is empty. What does not print
// is escaped, so that it does no harm on a terminal either.
func (o *printer) encode(v any, indent string) error {
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
	return o.err
}

func (o *printer) printf(format string, args ...any) { fmt.Fprintf(o, format, args...) }

// paint colours a text: "31" is red, "32" green, "33" yellow, "2" faint.
func (o *printer) paint(colour, text string) string {
	if !o.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// A table is lines of cells. A column whose title begins with ">" is flush right.
type table struct {
	titles []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the table. Its columns are as wide as what they show, also where
// that is twice as wide as Latin letters.
func (t *table) write(o *printer) {
	widths := make([]int, len(t.titles))
	titles := make([]string, len(t.titles))
	for i, title := range t.titles {
		titles[i] = strings.TrimPrefix(title, ">")
	}
	for _, row := range append([][]string{titles}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	fmt.Fprintln(o, o.paint("2", t.line(titles, widths)))
	for _, row := range t.rows {
		fmt.Fprintln(o, t.line(row, widths))
	}
}

func (t *table) line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(cell))
		if i > 0 {
			b.WriteString("  ")
		}
		if strings.HasPrefix(t.titles[i], ">") {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}
