package figures_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/chaos/figures"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.LeakOptions()...) }

// TestFigures makes each figure once, with a small size.
func TestFigures(t *testing.T) {
	for _, m := range figures.All {
		t.Run(m.Name, func(t *testing.T) {
			f := m.Run(t.Context(), t, m.Size/100)
			t.Log(f.Seen)
			require.Empty(t, f.Failure)
		})
	}
}
