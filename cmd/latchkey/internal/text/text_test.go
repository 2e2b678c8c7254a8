package text

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/text/texttest"
)

func TestShown(t *testing.T) {
	for name, want := range map[string]string{
		"orders:42": "orders:42", "{tag}x": "{tag}x", "日本-é": "日本-é", "a b": `"a b"`, "": `""`,
		"two\nlines": `"two\nlines"`, "\x1b[31m": `"\x1b[31m"`, `say "x"`: `"say \"x\""`, "\xff": `"\xff"`,
		"\u202ex": `"\u202ex"`, `a\b`: `"a\\b"`,
	} {
		assert.Equal(t, want, Name(name), "%q", name)
	}
	assert.Equal(t, "ann@host make deploy", Phrase("ann@host make deploy"))
	for _, name := range texttest.Hostile {
		for _, got := range []string{Name(name), Phrase(name)} {
			assert.True(t, utf8.ValidString(got), "%q", got)
			assert.Less(t, len(got), 5*maxShown, "%q", name)
			for _, r := range got {
				assert.True(t, unicode.IsPrint(r), "%q in %q", r, got)
			}
		}
	}
	long := Name(strings.Repeat("ü", 100))
	assert.Equal(t, strings.Repeat("ü", 64)+"…", long)
	assert.True(t, strings.HasSuffix(Name(strings.Repeat("\x80", 300)), `\x80"…`))
}

func TestSpan(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0.0s": -time.Second, "0.5s": 512 * time.Millisecond, "59.9s": 59900 * time.Millisecond, "1m": time.Minute,
		"2m5s": 125 * time.Second, "1h": time.Hour, "25h1m": 25*time.Hour + time.Minute, "3d2h": 74 * time.Hour,
	} {
		assert.Equal(t, want, Span(d))
	}
	assert.Equal(t, "none", Lease(-1))
	assert.Equal(t, "over", Lease(0))
	assert.Equal(t, "-", Since(time.Time{}, time.Now()))
}

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

// What people type, and what Redis holds, never ends the command with a panic,
// and is never shown raw.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "0.2", "1m30s", "-1", "NaN", "1e300", "a*b", `\`, "\x1b[31m", "日本"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parseDuration(text); err == nil {
			require.False(t, d < 0, "%q", text)
		}
		for _, s := range []string{Name(text), Phrase(text), Harmless(text)} {
			require.True(t, utf8.ValidString(s))
			for _, r := range s {
				require.True(t, unicode.IsPrint(r), "%q", s)
			}
		}
		require.LessOrEqual(t, len(Name(text)), 4*maxShown+8)
	})
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
