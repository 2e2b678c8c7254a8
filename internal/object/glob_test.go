package object

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// A pattern matches itself when what is special in it is escaped, and no pattern
// ends the command with a panic.
func FuzzGlob(f *testing.F) {
	for _, s := range []string{"", "a*b", "[a-c]", "[", `\`, "[^", "日本", "[]", "a[b-"} {
		f.Add(s, "abc")
		f.Add("*"+s+"?", s)
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		glob(text, other)
		literal := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(other)
		require.True(t, glob(literal, other), "%q does not match itself", other)
		require.True(t, glob("*"+literal+"*", text+other+text))
		if text != "" {
			require.False(t, glob(literal, other+text))
		}
	})
}
