package rwlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rwlock"
)

// What is asked of many readers is asked in pieces, so that no script keeps Redis busy.
func TestManyReadersInPieces(t *testing.T) {
	server := redistest.Start(t)
	s := &scripted{t, server.Client(t)}
	l := rwlock.New(locktest.NewClient(t, s.rdb), "lock").ReadLock()
	s.crowd(5000, 1)
	s.do("HDEL", "lock", "me:1")
	server.Do(t, "CONFIG", "RESETSTAT")
	ttl, err := l.TTL(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 25*time.Second, ttl, float64(6*time.Second), "the lease of the one who lives")
	stats := server.CommandStats(t)
	require.Zero(t, stats["hgetall"])
	require.Greater(t, stats["hscan"], int64(5))
	held, err := l.IsLocked(t.Context())
	require.NoError(t, err)
	require.True(t, held)
}
