package rwlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A request about many readers is made in pieces, so that no script keeps Redis
// busy.
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

// The writer that finds dead readers removes them in pieces and then has the
// lock. A read half with many readers can be freed by force.
func TestManyReadersDoNotBlockRedis(t *testing.T) {
	server := redistest.Start(t)
	s := &scripted{t, server.Client(t)}
	c := locktest.NewClient(t, s.rdb)
	l := rwlock.New(c, "lock")
	n := redistest.Many(100_000, 5_000)
	dead := func() {
		s.crowd(n, 0)
		s.do("DEL", "{lock}:me:1:rwlock_timeout:1")
	}
	server.Bounded(t, dead, func() {
		h, err := l.WriteLock().Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	})
	dead()
	s.do("SET", "{lock}:r:77:rwlock_timeout:1", "1", "PX", "30000")
	_, err := l.WriteLock().TryLock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrNotAcquired, "one is alive")

	for _, prepare := range []func(){dead, func() { s.crowd(n, n) }} {
		server.Bounded(t, prepare, func() {
			freed, err := l.ReadLock().ForceUnlock(t.Context())
			require.NoError(t, err)
			require.True(t, freed)
			locked, err := l.ReadLock().IsLocked(t.Context())
			require.NoError(t, err)
			require.False(t, locked)
		})
	}
}
