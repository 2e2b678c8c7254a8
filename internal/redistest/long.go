package redistest

import "testing"

// Long leaves a test for make test-all: with -short it is skipped.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Testing() && testing.Short() {
		t.Skipf("%s: with make test-all", why)
	}
}

// Many returns full, or with -short few: of a test that shows the same with fewer rounds,
// waiters or seeds, make test has few, and make test-all all.
func Many(full, few int) int {
	if testing.Testing() && testing.Short() {
		return few
	}
	return full
}
