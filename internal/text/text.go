// Package text writes for people what Redis holds and programs measure: arbitrary
// names, times and numbers.
package text

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxShown is how many bytes of a name or a label a table shows.
const maxShown = 128

// Name returns a name as people may see it. A name that could move the cursor,
// hide text or be taken for something else is quoted as in Go. A long name is
// cut.
func Name(name string) string {
	return shown(name, name == "" || strings.ContainsAny(name, ` "\`))
}

// Phrase is Name for texts that may contain spaces.
func Phrase(text string) string { return shown(text, false) }

func shown(text string, quote bool) string {
	cut := ""
	if len(text) > maxShown {
		text, cut = text[:runeStart(text, maxShown)], "…"
	}
	for _, r := range text {
		// Characters that change the direction of writing are not printable
		// either.
		quote = quote || r == utf8.RuneError || !unicode.IsPrint(r)
	}
	if quote {
		text = strconv.Quote(text)
	}
	return text + cut
}

// Harmless returns a sentence, perhaps with text of a server, without
// unprintable characters.
func Harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// runeStart returns the last index up to n at which a rune begins.
func runeStart(text string, n int) int {
	for back := range utf8.UTFMax {
		if back <= n && utf8.RuneStart(text[n-back]) {
			return n - back
		}
	}
	return n // invalid UTF-8
}

// Span formats a duration with at most two units.
func Span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return strconv.Itoa(int(d.Hours()/24)) + "d" + rest(int(d.Hours())%24, "h")
	case d >= time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h" + rest(int(d.Minutes())%60, "m")
	case d >= time.Minute:
		return strconv.Itoa(int(d.Minutes())) + "m" + rest(int(d.Seconds())%60, "s")
	}
	return strconv.FormatFloat(max(d, 0).Seconds(), 'f', 1, 64) + "s"
}

func rest(n int, unit string) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + unit
}

// Lease formats the rest of a lease.
func Lease(d time.Duration) string {
	switch {
	case d < 0:
		return "none"
	case d == 0:
		return "over"
	}
	return Span(d)
}

// Since formats how long ago at was; "-" if it is unknown.
func Since(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return Span(now.Sub(at))
}

// Instant formats a time as RFC 3339 has it, in the zone of the caller and with
// milliseconds if there are any.
func Instant(at time.Time) string { return at.Local().Format("2006-01-02T15:04:05.999Z07:00") }

// OrDash returns text, or "-" if it is empty.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Grouped formats a number with thousands separators.
func Grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Short formats a duration with about three digits.
func Short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
