package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A report is everything that one run of this program has found.
type report struct {
	Machine string
	Rounds  int
	Length  time.Duration
	Results []*result
}

func (r *report) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if path == "-" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// short formats a figure with three digits, or none where it is large.
func short(x float64) string {
	switch {
	case x < 0:
		return "–"
	case x == 0:
		return "0"
	case x >= 100:
		n := strconv.FormatFloat(x, 'f', 0, 64)
		for i := len(n) - 3; i > 0; i -= 3 {
			n = n[:i] + "," + n[i:]
		}
		return n
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// A column is one of a table.
type column struct {
	head  string
	value func(r *row) string
}

func number(head string, f func(r *row) float64) column {
	return column{head, func(r *row) string { return short(f(r)) }}
}

// columns returns what there is to say of a scenario.
func (res *result) columns() []column {
	cols := []column{{"side", func(r *row) string { return r.Side }}}
	if res.Floor != "" {
		of, what := "× floor", func(r *row) float64 { return r.Ratio }
		if res.Slowness {
			of = "p50 × floor"
		}
		cols = append(cols, number(of, what))
	}
	if res.Slowness {
		cols = append(cols, number("p99 × floor", func(r *row) float64 { return r.TailRatio }))
	}
	cols = append(cols,
		number("ops/s", func(r *row) float64 { return r.Rate }),
		number("p50 ms", func(r *row) float64 { return r.P50 }),
		number("p99 ms", func(r *row) float64 { return r.P99 }),
		number("max ms", func(r *row) float64 { return r.Max }),
		number("sent/op", func(r *row) float64 { return r.Sent }),
		number("run/op", func(r *row) float64 { return r.Executed }),
		number("B in/op", func(r *row) float64 { return r.BytesIn }),
		number("B out/op", func(r *row) float64 { return r.BytesOut }),
		number("client µs/op", func(r *row) float64 { return r.ClientCPU }),
		number("Redis µs/op", func(r *row) float64 { return r.RedisCPU }),
		number("cores", func(r *row) float64 { return r.Cores }),
		number("conns", func(r *row) float64 { return r.Connections }),
		number("goroutines", func(r *row) float64 { return r.Goroutines }),
		number("heap MB", func(r *row) float64 { return r.Heap }),
		number("allocs/op", func(r *row) float64 { return r.Allocs }))
	extra := map[string]bool{}
	var stuck, overlaps, many bool
	for _, r := range res.Rows {
		for name := range r.Extra {
			extra[name] = true
		}
		stuck, overlaps, many = stuck || r.Stuck > 0, overlaps || r.Overlaps > 0, many || r.Poorest > 0
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		cols = append(cols, number(name, func(r *row) float64 { return r.Extra[name] }))
	}
	if many {
		cols = append(cols, column{"processes", func(r *row) string {
			if r.Poorest == 0 {
				return "–"
			}
			return short(r.Poorest) + "–" + short(r.Richest)
		}})
	}
	if stuck {
		cols = append(cols, number("stuck", func(r *row) float64 { return r.Stuck }))
	}
	if overlaps {
		cols = append(cols, number("OVERLAPS", func(r *row) float64 { return r.Overlaps }))
	}
	return cols
}

// cells returns the row's cells: only why there are none, where there are none.
func (r *row) cells(cols []column) []string {
	if r.Error != "" {
		return []string{r.Side, "failed: " + r.Error}
	}
	var cells []string
	for _, c := range cols {
		cells = append(cells, c.value(r))
	}
	return cells
}

// print writes the tables as text.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s; %d rounds of %v\n", r.Machine, r.Rounds, r.Length)
	for _, res := range r.Results {
		fmt.Fprintf(w, "\n%s", res.Title)
		if res.Goal != "" {
			fmt.Fprintf(w, " (%s)", res.Goal)
		}
		fmt.Fprintln(w)
		cols := res.columns()
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, c := range cols {
			fmt.Fprintf(tab, "%s\t", c.head)
		}
		fmt.Fprintln(tab)
		for _, row := range res.Rows {
			fmt.Fprintln(tab, strings.Join(row.cells(cols), "\t")+"\t")
		}
		_ = tab.Flush()
	}
}

// markdown returns the tables of the comparison, or of what grows, as Markdown.
func (r *report) markdown(growing bool) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	head := func(cols []column, first string) {
		cells, rules := []string{first}, []string{"---"}
		for _, c := range cols[1:] {
			cells, rules = append(cells, c.head), append(rules, "---:")
		}
		line(cells)
		line(rules)
	}
	what := ""
	var cols []column
	for i, res := range r.Results {
		if growing != (res.Growth != "") {
			continue
		}
		if growing {
			if what != res.Growth {
				what = res.Growth
				all := *res // the sizes share one table
				for _, other := range r.Results[i+1:] {
					if other.Growth == what {
						all.Rows = append(slices.Clip(all.Rows), other.Rows...)
					}
				}
				cols = all.columns()
				fmt.Fprintf(&b, "\n### %s\n\n", what)
				head(cols, what)
			}
			for _, row := range res.Rows {
				line(append([]string{short(float64(res.Size))}, row.cells(cols)[1:]...))
			}
			continue
		}
		cols = res.columns()
		fmt.Fprintf(&b, "\n### %s\n\nMust reach: %s.\n\n", res.Title, res.Goal)
		head(cols, cols[0].head)
		for _, row := range res.Rows {
			line(row.cells(cols))
		}
	}
	return b.String()
}

// rewrite puts the tables into a Markdown file, between lines that mark where,
// and the pictures beside it. A part that this run knows nothing of stays.
func (r *report) rewrite(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	out := string(text)
	parts := map[string]string{
		"machine": fmt.Sprintf("\n%s; %d rounds of %v each.\n", r.Machine, r.Rounds, r.Length),
		"tables":  r.markdown(false),
		"growth":  r.markdown(true),
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if parts[name] == "" {
			continue
		}
		if out, err = between(out, name, parts[name]); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
		return err
	}
	base := strings.TrimSuffix(path, filepath.Ext(path))
	for suffix, picture := range map[string]string{".svg": r.bars(), "-growth.svg": r.curves()} {
		if picture == "" {
			continue
		}
		if err := os.WriteFile(base+suffix, []byte(picture), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// between replaces what is between the marks of that name.
func between(text, name, with string) (string, error) {
	begin, end := "<!-- compare:"+name+" -->\n", "<!-- /compare:"+name+" -->"
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("the lines %q and %q are missing", strings.TrimSpace(begin), end)
	}
	return head + begin + with + "\n" + end + tail, nil
}
