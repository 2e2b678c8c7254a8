package redistest

import (
	"os"
	"testing"
)

// Inline reports whether clients of real servers have ContextTimeoutEnabled
// (LATCHKEY_INLINE=1). The library then sends a command on its caller's
// goroutine; otherwise it mostly uses a goroutine for each command. Tests run
// both ways.
func Inline() bool { return os.Getenv("LATCHKEY_INLINE") != "" }

// HoldsCommands declares that a test delays a reply for longer than an inline
// command may take.
func HoldsCommands(t testing.TB) {
	t.Helper()
	if Inline() {
		t.Skip("a command that is sent inline is asked again before its answer comes")
	}
}
