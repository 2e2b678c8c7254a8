package main

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxShown is how much of a name or a label a table shows, in bytes.
const maxShown = 128

// shownName returns a name as people may see it: itself, or, if it has anything
// that could move the cursor, hide text or be taken for something else, quoted
// as in Go. A long one is cut.
func shownName(name string) string {
	return shown(name, name == "" || strings.ContainsAny(name, ` "\`))
}

// shownText is shownName for texts that may have spaces.
func shownText(text string) string { return shown(text, false) }

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

// harmless returns a sentence, perhaps with what a server has said, without what
// does not print.
func harmless(text string) string {
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

// span writes how long something lasts, or has lasted, in two units at most.
func span(d time.Duration) string {
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

// leaseText writes a lease that is left.
func leaseText(d time.Duration) string {
	switch {
	case d < 0:
		return "none"
	case d == 0:
		return "over"
	}
	return span(d)
}

// since writes how long ago something was, "-" where that is not known.
func since(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return span(now.Sub(at))
}

// orDash is text, or "-" where there is none.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
