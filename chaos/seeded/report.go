package seeded

import (
	"fmt"
	"strings"
)

// Count returns how many bugs were found.
func Count(results []Result) int {
	n := 0
	for _, r := range results {
		if r.Found() {
			n++
		}
	}
	return n
}

// Markdown returns the table of all bugs, with what has found each.
func Markdown(results []Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d bugs found.\n\n<details><summary>Each of them</summary>\n\n| Bug | | Found by | s |\n|---|---|---|---|\n", Count(results), len(results))
	for _, r := range results {
		by := "`" + r.FoundBy + "`"
		switch {
		case r.Err != "":
			by = "**the tests did not run**"
		case r.FoundBy == "":
			by = "**nothing**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.1f |\n", r.Bug, strings.ReplaceAll(r.What, "|", "\\|"), by, r.Seconds)
	}
	b.WriteString("\n</details>\n")
	return b.String()
}
