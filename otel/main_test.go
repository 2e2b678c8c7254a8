package otel_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(programAddr); addr != "" {
		os.Exit(program(addr)) // this process is the one of program_test.go
	}
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}
