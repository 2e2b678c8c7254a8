package redistest

import "testing"

// Long skips a test with -short, so that only make test-all runs it.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Testing() && testing.Short() {
		t.Skipf("%s: with make test-all", why)
	}
}

// Many returns full, or few with -short. make test runs such a test with few
// rounds, waiters or seeds, and make test-all with all of them.
func Many(full, few int) int {
	if testing.Testing() && testing.Short() {
		return few
	}
	return full
}
