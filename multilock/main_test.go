package multilock_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(killedAddr); addr != "" {
		killedChild(addr) // this process is that of TestGroupKilled
	}
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}

// long reports whether to run the long forms of the tests.
func long() bool { return os.Getenv("LATCHKEY_LONG") != "" }
