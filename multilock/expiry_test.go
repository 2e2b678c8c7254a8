package multilock_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/latchkeytest"
	"github.com/latchkey-go/latchkey/multilock"
)

// A Java waiter asks when the lease that it has seen ends, and sets no expiry
// on a key that has less than 1 ms left, so what it acquired would be gone at
// once. Therefore the key must not end with the lease.
func TestGroupKeyOutlivesTheLease(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		return // the server in memory does not work there
	}
	s := latchkeytest.NewServer(t)
	rdb := s.Redis(t)
	g := multilock.NewGroup(s.Client(t), "g", "a", "b")
	h, err := g.Lock(t.Context(), latchkey.Lease(10*time.Second))
	require.NoError(t, err)
	outlives := func(lease time.Duration) {
		t.Helper()
		left := rdb.PTTL(t.Context(), "g").Val()
		require.Greater(t, left, lease+500*time.Millisecond)
		require.LessOrEqual(t, left, lease+time.Second)
	}
	outlives(10 * time.Second)
	require.NoError(t, h.Extend(t.Context(), 20*time.Second))
	outlives(20 * time.Second)
	require.NoError(t, h.Unlock(t.Context()))
	require.Zero(t, rdb.Exists(t.Context(), "g").Val())

	h, err = g.Lock(t.Context(), latchkey.HoldAtLeast(40*time.Second))
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	outlives(40 * time.Second)
}

// The key lasts as long as any value in it, whoever acquired one last.
func TestGroupKeyOutlivesAllLeases(t *testing.T) {
	g := newRawGroup(t)
	soon := g.now() + 5000
	g.acquire("c:1", 1, 60_000, soon, "a")
	g.acquire("d:1", 1, 1_000, soon, "b")
	require.InDelta(t, time.Minute, g.rdb.PTTL(t.Context(), "g").Val(), float64(2*time.Second))
}
