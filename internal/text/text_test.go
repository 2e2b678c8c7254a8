package text

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/text/texttest"
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

// What Redis holds is never shown raw.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "0.2", "1m30s", "-1", "NaN", "1e300", "a*b", `\`, "\x1b[31m", "日本"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range []string{Name(text), Phrase(text), Harmless(text)} {
			require.True(t, utf8.ValidString(s))
			for _, r := range s {
				require.True(t, unicode.IsPrint(r), "%q", s)
			}
		}
		require.LessOrEqual(t, len(Name(text)), 4*maxShown+8)
	})
}
