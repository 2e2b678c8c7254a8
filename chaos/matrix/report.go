package matrix

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// A Summary counts cells.
type Summary struct{ OK, Wrong, NotPlayed, Rows int }

// String tells it in one line.
func (s Summary) String() string {
	return fmt.Sprintf("%d cells in %d rows: %d ok, %d wrong, %d not played", s.OK+s.Wrong+s.NotPlayed, s.Rows, s.OK, s.Wrong, s.NotPlayed)
}

// Summarize counts cells.
func Summarize(cells []Cell) Summary {
	var s Summary
	rows := map[string]bool{}
	for _, c := range cells {
		rows[c.Row] = true
		switch c.Result {
		case OK:
			s.OK++
		case NotPlayed:
			s.NotPlayed++
		default:
			s.Wrong++
		}
	}
	s.Rows = len(rows)
	return s
}

// WriteJSON writes cells to a file.
func WriteJSON(file string, cells []Cell) error {
	text, err := json.MarshalIndent(cells, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o600)
}

// Markdown returns the table of all cells, and below it what was seen in each.
func Markdown(cells []Cell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v; every fault that was played was proved to have happened. ✓ as it should be, ✗ not, ○ not played.\n", Summarize(cells))
	b.WriteString("The letters are what was planned: k keeps, r refused by the server and asked again, a in doubt and cleared up, f fails at once, " +
		"l lost and told, e the lease decides, p found by asking, i the state is gone, q queued anew, v void when it comes too late, " +
		"u what was taken in part goes back, d a stated limit. For red-locks one of three servers is under fault.\n\n")
	b.WriteString("| | Fault | Happened |")
	for i := range len(Columns) {
		fmt.Fprintf(&b, " %s |", Names[Columns[i]])
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(Columns)) + "\n")
	byRow := map[string]map[string]Cell{}
	for _, c := range cells {
		if byRow[c.Row] == nil {
			byRow[c.Row] = map[string]Cell{}
		}
		byRow[c.Row][c.Primitive] = c
	}
	for _, p := range plan {
		row := byRow[p.row]
		if row == nil {
			continue
		}
		var proof int64
		for _, c := range row {
			proof = max(proof, c.Proof)
		}
		fmt.Fprintf(&b, "| %s | %s | %d |", p.row, p.fault, proof)
		for i := range len(Columns) {
			fmt.Fprintf(&b, " %s |", sign(row[Names[Columns[i]]]))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n<details><summary>What was seen in each cell</summary>\n\n| Cell | Right | Seen |\n|---|---|---|\n")
	for _, c := range cells {
		seen := c.Seen
		if c.Why != "" {
			seen = strings.TrimLeft(seen+" — "+c.Result+": "+c.Why, " —")
		}
		if c.Remark != "" {
			seen += " (" + c.Remark + ")"
		}
		fmt.Fprintf(&b, "| %s %s | %s | %s |\n", c.Row, c.Primitive, escape(c.Right), escape(seen))
	}
	b.WriteString("\n</details>\n")
	return b.String()
}

func sign(c Cell) string {
	letters, _, _ := strings.Cut(c.Right, ":")
	switch c.Result {
	case OK:
		return "✓ " + escape(letters)
	case NotPlayed:
		return "○ " + escape(letters)
	case Wrong:
		return "✗ " + escape(letters)
	}
	return ""
}

// escape makes text fit for a cell of a table.
func escape(text string) string {
	return strings.NewReplacer("|", "\\|", "*", "\\*", "\n", " ", "<", "&lt;").Replace(text)
}
