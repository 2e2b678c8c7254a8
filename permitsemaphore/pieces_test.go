package permitsemaphore_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// Permits whose lease is over are reclaimed in pieces, each once, so that no
// script keeps Redis busy, even if all leases end in the same millisecond.
func TestExpiredPermitsInPieces(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	s := permitsemaphore.New(locktest.NewClient(t, rdb), "p")
	n := redistest.Many(20_000, 5_000)
	const expire = `
redis.call('SET', KEYS[1], ARGV[2])
redis.call('DEL', KEYS[2])
for i = 1, ARGV[1] do redis.call('ZADD', KEYS[2], 1000 * (i % ARGV[3]) + 1, string.format('%016d', i)) end
return 1`
	prepare := func(available, instants int) {
		require.NoError(t, rdb.Eval(t.Context(), expire, []string{"p", "{p}:timeout"}, n, available, instants).Err())
		server.Do(t, "CONFIG", "RESETSTAT")
	}
	out := func() int { return int(rdb.ZCard(t.Context(), "{p}:timeout").Val()) }

	for _, instants := range []int{1, n} {
		prepare(0, instants)
		p, err := s.TryAcquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, n-1000+1, out(), "one is out, and what one run does not reclaim")
		available, err := s.AvailablePermits(t.Context())
		require.NoError(t, err)
		require.Equal(t, n-1, available)
		require.Equal(t, 1, out())
		require.GreaterOrEqual(t, server.CommandStats(t)["evalsha"], int64(n/1000), "runs")
		require.NoError(t, p.Release(t.Context()))
	}

	// There are fewer than 0 available, until the last have come back.
	prepare(1-n, n)
	var p *permitsemaphore.Permit
	var err error
	calls := int64(0)
	redistest.Until(t, "a permit", func() bool { // each asks again at once, for as long as one may take
		calls++
		p, err = s.TryAcquire(t.Context())
		return !errors.Is(err, latchkey.ErrNotAcquired)
	})
	require.NoError(t, err)
	require.Greater(t, server.CommandStats(t)["evalsha"], calls, "asked again at once")
	require.Equal(t, 1, out())
	_, err = s.TryAcquire(t.Context())
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	require.NoError(t, p.Release(t.Context()))

	prepare(0, n)
	many, err := s.AcquireN(t.Context(), 3000)
	require.NoError(t, err)
	require.Len(t, many, 3000)
	all, err := s.Permits(t.Context())
	require.NoError(t, err)
	require.Equal(t, n, all)
}

func TestExpiredPermitsDoNotBlockRedis(t *testing.T) {
	redistest.Long(t, "100,000 permits")
	server := redistest.Start(t)
	rdb := server.Client(t)
	s := permitsemaphore.New(locktest.NewClient(t, rdb), "p")
	const n = 100_000
	prepare := func() {
		for from := 0; from < n; from += 10_000 {
			const expire = `for i = ARGV[1] + 1, ARGV[1] + 10000 do redis.call('ZADD', KEYS[1], i, string.format('%016d', i)) end return 1`
			require.NoError(t, rdb.Eval(t.Context(), expire, []string{"{p}:timeout"}, from).Err())
		}
		require.NoError(t, rdb.Set(t.Context(), "p", 0, 0).Err())
	}
	server.Bounded(t, prepare, func() {
		p, err := s.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Release(t.Context()))
		available, err := s.AvailablePermits(t.Context())
		require.NoError(t, err)
		require.Equal(t, n, available)
	})
	server.Bounded(t, prepare, func() {
		deleted, err := s.Delete(t.Context())
		require.NoError(t, err)
		require.True(t, deleted)
	})
}
