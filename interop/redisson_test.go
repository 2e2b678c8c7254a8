package interop

import "testing"

// TestRedisson runs everything on a single server, release by release.
func TestRedisson(t *testing.T) {
	forReleases(t, func(t *testing.T, v version) {
		r := newRig(t, v)
		t.Run("wake-ups", func(t *testing.T) { testWakeUps(t, r, r.client(t)) })
		t.Run("side by side", func(t *testing.T) {
			testLocks(t, r)
			testFair(t, r)
			testReadWrite(t, r)
		})
	})
}
