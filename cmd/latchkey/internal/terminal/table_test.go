package terminal

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
)

func TestTable(t *testing.T) {
	out := new(strings.Builder)
	p := &Printer{Writer: out}
	tb := &Table{Titles: []string{"NAME", ">N", "LAST"}}
	tb.Add("日本", "1", "x")
	tb.Add("é", "1000", "")
	tb.Print(p)
	assert.Equal(t, "NAME     N  LAST\n日本     1  x\né     1000\n", out.String())

	// Only in a title does ">" mean anything.
	out = new(strings.Builder)
	tb = &Table{Titles: []string{"N", ">M"}}
	tb.Add(">ab", ">1")
	tb.Print(&Printer{Writer: out})
	assert.Equal(t, "N     M\n>ab  >1\n", out.String())
}

// What a terminal is too narrow for is left out, cut, or stands below.
func TestTableOnNarrowTerminal(t *testing.T) {
	print := func(tb *Table, width int) string {
		out := new(strings.Builder)
		tb.Print(&Printer{Writer: out, Width: width})
		return out.String()
	}
	list := &Table{Titles: []string{"~NAME", "KIND", "-HOLDER", "->TOKEN"}, OneLine: true}
	list.Add("orders:nightly-invoice-export", "lock", "c:1", "17")
	list.Add("日本日本日本日本日本日本日本日本", "lock", "-", "-")
	const name, wide = "orders:nightly-invoice-export", "日本日本日本日本日本日本日本日本"
	for width, want := range map[int]string{
		0:  "NAME                              KIND  HOLDER  TOKEN\n" + name + "     lock  c:1        17\n" + wide + "  lock  -           -\n",
		53: "NAME                              KIND  HOLDER  TOKEN\n" + name + "     lock  c:1        17\n" + wide + "  lock  -           -\n",
		52: "NAME                              KIND  HOLDER\n" + name + "     lock  c:1\n" + wide + "  lock  -\n",
		38: "NAME                              KIND\n" + name + "     lock\n" + wide + "  lock\n",
	} {
		assert.Equal(t, want, print(list, width), width)
	}
	for _, width := range []int{37, 26, 18, 3} { // of 18, a cut name and the other columns have need
		got := print(list, width)
		assert.Equal(t, 3, strings.Count(got, "\n"), "%d: %q", width, got)
		for line := range strings.SplitSeq(got, "\n") {
			assert.LessOrEqual(t, ansi.StringWidth(line), max(width, 18), "%d: %q", width, line)
		}
	}
	assert.Contains(t, print(list, 26), "orders:ni…ice-export  lock\n")

	held := &Table{Titles: []string{"NAME", "-<HOLDER", "LEASE", "->TOKEN"}, OneLine: true}
	held.Add("job", "0b7c9a3e-9d0a-4c58:17", "21.0s", "1")
	held.Add("two", "c:1", "-", "-")
	for width, want := range map[int]string{
		40: "NAME  HOLDER                LEASE  TOKEN\njob   0b7c9a3e-9d0a-4c58:…  21.0s      1\ntwo   c:1                   -          -\n",
		32: "NAME  HOLDER        LEASE  TOKEN\njob   0b7c9a3e-9d…  21.0s      1\ntwo   c:1           -          -\n",
		25: "NAME  HOLDER        LEASE\njob   0b7c9a3e-9d…  21.0s\ntwo   c:1           -\n",
		24: "NAME  LEASE\njob   21.0s\ntwo   -\n",
	} {
		assert.Equal(t, want, print(held, width), width)
	}

	rows := &Table{Titles: []string{"ID", ">N", "LABEL", "PROCESS"}}
	rows.Add("51f76c6c:1", "1", "a label", "host:7")
	rows.Add("51f76c6c:2", "2", "-", "-")
	assert.Equal(t, "ID          N  LABEL    PROCESS\n51f76c6c:1  1  a label  host:7\n51f76c6c:2  2  -        -\n", print(rows, 31))
	assert.Equal(t, "ID          N\n51f76c6c:1  1\n  label a label  process host:7\n51f76c6c:2  2\n", print(rows, 20))

	prose := &Table{Titles: []string{"", "ABOUT", ""}}
	prose.Add("ok", "rights", "all commands and keys")
	assert.Equal(t, "    ABOUT\nok  rights  all commands\n            and keys\n", print(prose, 26))
}
