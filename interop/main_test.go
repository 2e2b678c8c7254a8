package interop

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) {
	if work := os.Getenv(stressWork); work != "" {
		os.Exit(stressChild(work)) // this process is one of stress_test.go's
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8") // most of these tests wait, for leases and other processes
	}
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}
