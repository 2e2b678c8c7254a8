package redistest

import "testing"

// Long leaves a test for make test-all: with -short it is skipped.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Testing() && testing.Short() {
		t.Skipf("%s: with make test-all", why)
	}
}
