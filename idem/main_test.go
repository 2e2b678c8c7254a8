package idem_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(machineConfig); text != "" {
		machineMain(text)
	}
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}
