// Package text is how the command writes for people, and for programs: names that
// may be anything, durations, tables, JSON. It reads the durations of flags, too.
package text

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxShown is how much of a name or a label a table shows, in bytes.
const maxShown = 128

// Name returns a name as people may see it: itself, or, if it has anything
// that could move the cursor, hide text or be taken for something else, quoted
// as in Go. A long one is cut.
func Name(name string) string {
	return shown(name, name == "" || strings.ContainsAny(name, ` "\`))
}

// Phrase is shownName for texts that may have spaces.
func Phrase(text string) string { return shown(text, false) }

func shown(text string, quote bool) string {
	cut := ""
	if len(text) > maxShown {
		text, cut = text[:runeStart(text, maxShown)], "…"
	}
	for _, r := range text {
		// Not printable is also what turns the direction of writing.
		quote = quote || r == utf8.RuneError || !unicode.IsPrint(r)
	}
	if quote {
		text = strconv.Quote(text)
	}
	return text + cut
}

// Harmless returns a sentence, perhaps with what a server has said, without what
// does not print.
func Harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// runeStart returns the last place at or before n where a rune begins.
func runeStart(text string, n int) int {
	for back := range utf8.UTFMax {
		if back <= n && utf8.RuneStart(text[n-back]) {
			return n - back
		}
	}
	return n // it is no UTF-8
}

// Span writes how long something lasts, or has lasted, in two units at most.
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

// Lease writes a lease that is left.
func Lease(d time.Duration) string {
	switch {
	case d < 0:
		return "none"
	case d == 0:
		return "over"
	}
	return Span(d)
}

// Since writes how long ago something was, "-" where that is not known.
func Since(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return Span(now.Sub(at))
}

// OrDash is text, or "-" where there is none.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Grouped writes a number with a comma for each thousand.
func Grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Short writes a duration with three digits or so.
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
