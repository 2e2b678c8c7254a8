package semaphore_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(stressAddr); addr != "" {
		os.Exit(stressChild(addr)) // this process is one of stress_test.go's
	}
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}
