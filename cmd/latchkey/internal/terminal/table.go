package terminal

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A Table is lines of cells. The first characters of a title, in this order,
// say how its column is printed. "-" leaves the column out if the terminal is
// too narrow for all columns, beginning with those on the right. "<" cuts its
// cells at the end before that. "~" cuts its cells in the middle if the terminal
// is still too narrow. ">" aligns it right.
type Table struct {
	Titles  []string
	OneLine bool // a row is one line, however narrow the terminal is
	rows    [][]string
}

// Add adds a line.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// A column is a column of a Table as it is printed.
type column struct {
	title             string
	cells             []string
	width             int
	spare, cut, flush bool
	begins            bool // its cells are cut at the end
}

// gap separates two columns.
const gap = "  "

// leastCut is the least width of a column that is cut.
const leastCut = 12

// Print prints the table. Columns are as wide as their cells, counting wide
// characters twice. If the terminal is too narrow, columns are left out or cut
// as their titles say, and what is missing is printed below the line: a last
// column without a title word by word, other columns with their titles.
func (t *Table) Print(o *Printer) {
	cols := t.columns()
	fits := func() bool { return o.Width <= 0 || total(cols) <= o.Width }
	for i := 0; i < len(cols) && !fits(); i++ {
		if c := cols[i]; c.begins {
			c.shorten(max(c.width-(total(cols)-o.Width), leastCut))
		}
	}
	for i := len(cols) - 1; i >= 0 && !fits(); i-- {
		if cols[i].spare {
			cols = append(cols[:i:i], cols[i+1:]...)
		}
	}
	for i := 0; i < len(cols) && !fits(); i++ {
		if c := cols[i]; c.cut {
			c.shorten(max(c.width-(total(cols)-o.Width), leastCut))
		}
	}
	var below []*column
	for !t.OneLine && !fits() && len(cols) > 1 {
		below = append([]*column{cols[len(cols)-1]}, below...)
		cols = cols[:len(cols)-1]
	}
	prose := len(below) == 1 && below[0].title == ""
	o.Printf("%s\n", o.Paint("2", line(cols, func(c *column) string { return c.title })))
	for row := range t.rows {
		text := line(cols, func(c *column) string { return c.cells[row] })
		if prose {
			indent := total(cols) + len(gap)
			words := ansi.Wordwrap(below[0].cells[row], max(o.Width-indent, leastCut), "")
			o.Printf("%s%s\n", pad(text, indent), strings.ReplaceAll(words, "\n", "\n"+strings.Repeat(" ", indent)))
			continue
		}
		o.Printf("%s\n", text)
		rest := ""
		for _, c := range below {
			if cell := c.cells[row]; cell != "-" && cell != "" {
				rest += gap + strings.ToLower(c.title) + " " + cell
			}
		}
		if rest != "" {
			o.Printf("%s\n", rest)
		}
	}
}

// columns returns the columns at full width.
func (t *Table) columns() []*column {
	cols := make([]*column, len(t.Titles))
	for i, title := range t.Titles {
		c := &column{}
		title, c.spare = strings.CutPrefix(title, "-")
		title, c.begins = strings.CutPrefix(title, "<")
		title, c.cut = strings.CutPrefix(title, "~")
		c.title, c.flush = strings.CutPrefix(title, ">")
		c.width = ansi.StringWidth(c.title)
		for _, row := range t.rows {
			c.cells = append(c.cells, row[i])
			c.width = max(c.width, ansi.StringWidth(row[i]))
		}
		cols[i] = c
	}
	return cols
}

// total returns the width of all columns.
func total(cols []*column) int {
	n := (len(cols) - 1) * len(gap)
	for _, c := range cols {
		n += c.width
	}
	return n
}

// shorten limits c to width. It cuts cells in the middle, or at the end.
func (c *column) shorten(width int) {
	c.width = min(c.width, width)
	for i, cell := range c.cells {
		if w := ansi.StringWidth(cell); w > width && c.begins {
			c.cells[i] = ansi.Truncate(cell, width, "…")
		} else if w > width {
			head := (width - 1) / 2
			c.cells[i] = ansi.Truncate(cell, head, "") + "…" + ansi.TruncateLeft(cell, w-(width-1-head), "")
		}
	}
}

// line prints the text that cell returns for each column.
func line(cols []*column, cell func(*column) string) string {
	var b strings.Builder
	for i, c := range cols {
		if i > 0 {
			b.WriteString(gap)
		}
		if text := cell(c); c.flush {
			b.WriteString(pad("", c.width-ansi.StringWidth(text)) + text)
		} else {
			b.WriteString(pad(text, c.width))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// pad pads text to width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
}
