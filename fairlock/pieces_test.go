package fairlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

// A long queue is read in pieces, so that no script keeps Redis busy. Each
// waiter is returned once, in order.
func TestWaitersInPieces(t *testing.T) {
	server := redistest.Start(t)
	l := fairlock.New(locktest.NewClient(t, server.Client(t)), "f")
	for _, n := range []int{0, 499, 500, 501, 2000} {
		server.FlushAll(t)
		for i := range n {
			server.Do(t, "RPUSH", "redisson_lock_queue:{f}", fmt.Sprint("client:", i))
		}
		server.Do(t, "CONFIG", "RESETSTAT")
		waiters, err := l.Waiters(t.Context())
		require.NoError(t, err)
		require.Len(t, waiters, n)
		for i, w := range waiters {
			require.Equal(t, fmt.Sprint("client:", i), w.ID)
		}
		require.EqualValues(t, 1+max(0, n-50)/450, server.CommandStats(t)["lrange"], "%d", n)
	}
}

// No script of a fair lock keeps Redis busy because there are many waiters: a
// Delete, a release of a lock that stays closed, a client's report that it is
// alive.
func TestManyWaitersDoNotBlockRedis(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	l := fairlock.New(locktest.NewClient(t, rdb), "f")
	n := redistest.Many(100_000, 5_000)
	fill := func() {
		const waiters = `
local time = redis.call('TIME')
local alive = string.format('%.0f', time[1] * 1000 + 600000)
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local client = 'c' .. i % 3000
  redis.call('RPUSH', KEYS[1], client .. ':' .. i)
  redis.call('ZADD', KEYS[2], alive + i, client .. ':' .. i)
  redis.call('HSET', KEYS[3], client, alive .. ' proof')
end
return 1`
		for from := 1; from <= n; from += 10_000 {
			require.NoError(t, rdb.Eval(t.Context(), waiters, []string{"redisson_lock_queue:{f}", "redisson_lock_timeout:{f}", "latchkey_queue:{f}"},
				from, min(from+9_999, n)).Err())
		}
	}
	h, err := l.Lock(t.Context(), latchkey.HoldAtLeast(5*time.Minute))
	require.NoError(t, err)
	fill()
	server.Bounded(t, func() {}, func() {
		if h != nil {
			require.NoError(t, h.Unlock(t.Context()))
			h = nil
		}
		keys := []string{"redisson_lock_queue:{f}", "redisson_lock_timeout:{f}", "latchkey_queue:{f}"}
		require.NoError(t, rdb.Eval(t.Context(), lua.FairLockKeep.Source, keys, "c1", 15000, 300000, 60000, "", "c1:1").Err())
	})
	server.Bounded(t, fill, func() {
		was, err := l.Delete(t.Context())
		require.NoError(t, err)
		require.True(t, was)
	})
}
