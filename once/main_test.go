package once_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Self(func(m machine) error { return m.work(context.Background()) })
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}
