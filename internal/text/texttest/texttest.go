// Package texttest has texts that are dangerous to print on a terminal.
package texttest

import "strings"

// Hostile are names that would do harm on a terminal if they were printed as
// they are.
var Hostile = []string{
	"\x1b]0;title\x07\x1b[2J", "two\nlines", "tab\ttab", "carriage\rreturn", `"quoted" \back`, "'single'", "$(reboot)", "-rf",
	"\u202eright to left", "zero\u200bwidth", "\x00nul", "\xff\xfe", "a b", "", "\u009b31m", strings.Repeat("long\n", 2000),
}
