package main

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// hostile are names that would do harm on a terminal if they were shown as they
// are.
var hostile = []string{
	"\x1b]0;title\x07\x1b[2J", "two\nlines", "tab\ttab", "carriage\rreturn", `"quoted" \back`, "'single'", "$(reboot)", "-rf",
	"\u202eright to left", "zero\u200bwidth", "\x00nul", "\xff\xfe", "a b", "", "\u009b31m", strings.Repeat("long\n", 2000),
}

func TestShown(t *testing.T) {
	for name, want := range map[string]string{
		"orders:42": "orders:42", "{tag}x": "{tag}x", "日本-é": "日本-é", "a b": `"a b"`, "": `""`,
		"two\nlines": `"two\nlines"`, "\x1b[31m": `"\x1b[31m"`, `say "x"`: `"say \"x\""`, "\xff": `"\xff"`,
		"\u202ex": `"\u202ex"`, `a\b`: `"a\\b"`,
	} {
		assert.Equal(t, want, shownName(name), "%q", name)
	}
	assert.Equal(t, "ann@host make deploy", shownText("ann@host make deploy"))
	for _, name := range hostile {
		for _, got := range []string{shownName(name), shownText(name)} {
			assert.True(t, utf8.ValidString(got), "%q", got)
			assert.Less(t, len(got), 5*maxShown, "%q", name)
			for _, r := range got {
				assert.True(t, unicode.IsPrint(r), "%q in %q", r, got)
			}
		}
	}
	long := shownName(strings.Repeat("ü", 100))
	assert.Equal(t, strings.Repeat("ü", 64)+"…", long)
	assert.True(t, strings.HasSuffix(shownName(strings.Repeat("\x80", 300)), `\x80"…`))
}

func TestSpan(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0.0s": -time.Second, "0.5s": 512 * time.Millisecond, "59.9s": 59900 * time.Millisecond, "1m": time.Minute,
		"2m5s": 125 * time.Second, "1h": time.Hour, "25h1m": 25*time.Hour + time.Minute, "3d2h": 74 * time.Hour,
	} {
		assert.Equal(t, want, span(d))
	}
	assert.Equal(t, "none", leaseText(-1))
	assert.Equal(t, "over", leaseText(0))
	assert.Equal(t, "-", since(time.Time{}, time.Now()))
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "any/thing\n", true},
		{"a*", "abc", true},
		{"a*", "ba", false},
		{"*c", "abc", true},
		{"a*c", "ac", true},
		{"a**c", "abxc", true},
		{"a*c*e", "abcde", true},
		{"a*c*e", "abcd", false},
		{"?", "a", true},
		{"?", "", false},
		{"h[ae]llo", "hallo", true},
		{"h[ae]llo", "hillo", false},
		{"h[^e]llo", "hallo", true},
		{"h[^e]llo", "hello", false},
		{"h[a-c]llo", "hbllo", true},
		{"h[c-a]llo", "hbllo", true},
		{"h[a-c]llo", "hdllo", false},
		{`h\*`, "h*", true},
		{`h\*`, "hx", false},
		{`[\]]`, "]", true},
		{`a\`, `a\`, true},
		{"[abc", "b", true},
		{"{x}:*", "{x}:y", true},
	} {
		assert.Equal(t, c.want, glob(c.pattern, c.text), "%q %q", c.pattern, c.text)
	}
	assert.False(t, glob(strings.Repeat("*a", 50)+"b", strings.Repeat("a", 10_000)), "in time")
}

func TestTable(t *testing.T) {
	out := new(output)
	p := &printer{Writer: out}
	tb := &table{titles: []string{"NAME", ">N", "LAST"}}
	tb.add("日本", "1", "x")
	tb.add("é", "1000", "")
	tb.write(p)
	assert.Equal(t, "NAME     N  LAST\n日本     1  x\né     1000\n", out.String())

	// Only in a title does ">" mean anything.
	out = new(output)
	tb = &table{titles: []string{"N", ">M"}}
	tb.add(">ab", ">1")
	tb.write(&printer{Writer: out})
	assert.Equal(t, "N     M\n>ab  >1\n", out.String())
}
