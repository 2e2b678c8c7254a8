package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// What people type, and what Redis holds, never ends the command with a panic,
// and is never shown raw.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "0.2", "1m30s", "-1", "NaN", "1e300", "a*b", "[a-c]", "[", `\`, "[^", "\x1b[31m", "日本", "[]", "a[b-"} {
		f.Add(s, "abc")
		f.Add("*"+s+"?", s)
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		if d, err := parseDuration(text); err == nil {
			require.False(t, d < 0, "%q", text)
		}
		glob(text, other)
		literal := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(other)
		require.True(t, glob(literal, other), "%q does not match itself", other)
		require.True(t, glob("*"+literal+"*", text+other+text))
		if text != "" {
			require.False(t, glob(literal, other+text))
		}
		for _, s := range []string{shownName(text), shownText(text), harmless(text)} {
			require.True(t, utf8.ValidString(s))
			for _, r := range s {
				require.True(t, unicode.IsPrint(r), "%q", s)
			}
		}
		require.LessOrEqual(t, len(shownName(text)), 4*maxShown+8)
	})
}

// A URL that makes no sense is an error that does not repeat it: it may hold a
// password.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"", "redis://h:6379/0", "redis://u:hunter2@h", "rediss://:hunter2@h/x", "unix:///hunter2", "redis://h?addr=hunter2:1", "%zz", "redis://[::1"} {
		for how := range uint8(3) {
			f.Add(s, how)
		}
	}
	f.Fuzz(func(t *testing.T, text string, how uint8) {
		c := &connection{}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.register(fs)
		require.NoError(t, fs.Set("url", text))
		switch how % 3 {
		case 1:
			c.cluster = true
		case 2:
			c.sentinelMaster = "m"
		}
		rdb, _, err := c.open()
		if err == nil {
			require.NoError(t, rdb.Close())
			return
		}
		require.NotEmpty(t, err.Error())
		if len(text) > 30 { // what is short may be in any sentence
			require.NotContains(t, err.Error(), text)
		}
	})
}
