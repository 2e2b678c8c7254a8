package redistest

import (
	"os"
	"testing"
)

// Inline says whether clients of real servers are made with ContextTimeoutEnabled, LATCHKEY_INLINE=1:
// the library then sends a command on its caller's goroutine, and else mostly on one
// of the command's own. Tests run both ways.
func Inline() bool { return os.Getenv("LATCHKEY_INLINE") != "" }

// HoldsCommands says that a test keeps a command from its answer for longer than one
// may take that is sent inline.
func HoldsCommands(t testing.TB) {
	t.Helper()
	if Inline() {
		t.Skip("a command that is sent inline is asked again before its answer comes")
	}
}
