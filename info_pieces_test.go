package latchkey_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// crowds are scripts that create many holders or waiters in Redis, for each
// kind. They take the range of their numbers as ARGV[1] and ARGV[2], and keys
// as KEYS[1...].
var crowds = []struct {
	kind latchkey.Kind
	keys []string
	make string
}{
	{latchkey.KindReadWrite, []string{"job"}, `
redis.call('HSET', KEYS[1], 'mode', 'read')
redis.call('PEXPIRE', KEYS[1], 600000)
for i = ARGV[1], ARGV[2] do
  redis.call('HSET', KEYS[1], 'them:' .. i, 1)
  redis.call('SET', '{job}:them:' .. i .. ':rwlock_timeout:1', 1, 'PX', 600000)
end`},
	{latchkey.KindMultiLock, []string{"job"}, `
redis.call('PEXPIRE', KEYS[1], 600000)
local time = redis.call('TIME')
for i = ARGV[1], ARGV[2] do
  local owner = 'them:' .. i
  redis.call('HSET', KEYS[1], 'v' .. i, owner, 'v' .. i .. ':' .. owner .. ':expire_time', string.format('%.0f', time[1] * 1000 + 600000),
    'v' .. i .. ':' .. owner .. ':lock_count', 1)
end`},
	{latchkey.KindFair, []string{"redisson_lock_queue:{job}", "redisson_lock_timeout:{job}", "latchkey_queue:{job}"}, `
local time = redis.call('TIME')
for i = ARGV[1], ARGV[2] do
  redis.call('RPUSH', KEYS[1], 'them' .. i .. ':1')
  redis.call('ZADD', KEYS[2], i, 'them' .. i .. ':1')
  redis.call('HSET', KEYS[3], 'them' .. i, string.format('%.0f', time[1] * 1000 + 600000) .. ' proof')
end`},
	{latchkey.KindPermitSemaphore, []string{"job", "{job}:timeout"}, `
redis.call('SET', KEYS[1], 7)
local time = redis.call('TIME')
for i = ARGV[1], ARGV[2] do -- the leases of a third end in the same ms
  redis.call('ZADD', KEYS[2], string.format('%.0f', time[1] * 1000 + 600000 + (i % 3 == 0 and 0 or i)), string.format('%016d', i))
end`},
}

// fill creates n of them, beginning with 1.
func fill(t testing.TB, rdb *redis.Client, script string, keys []string, n int) {
	t.Helper()
	const batch = 10_000
	for from := 1; from <= n; from += batch {
		require.NoError(t, rdb.Eval(t.Context(), script+"\nreturn 1", keys, from, min(from+batch-1, n)).Err())
	}
}

// all returns how many holders and waiters info has. Each must be there once,
// and complete.
func all(t testing.TB, info latchkey.Info) int {
	t.Helper()
	seen := make(map[string]bool, len(info.Holders)+len(info.Waiters))
	for _, h := range info.Holders {
		seen[h.ID] = true
		if left := h.Lease; left < 400*time.Second || left > 1000*time.Second || h.Count != 1 {
			t.Fatalf("holder: %+v", h)
		}
	}
	for i, w := range info.Waiters {
		seen[w.ID] = true
		if left := w.Deadline.Sub(info.At); left < 400*time.Second || w.ID != fmt.Sprintf("them%d:1", i+1) {
			t.Fatalf("waiter %d: %+v", i, w)
		}
	}
	require.Len(t, seen, len(info.Holders)+len(info.Waiters), "each once")
	return len(seen)
}

// Long keys are read in pieces and shown whole. Short ones are read by one
// script, and one more for the labels.
func TestInfoInPieces(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	c := newClient(t, rdb)
	inspect(t, c, "job") // the scripts are known
	for _, crowd := range crowds {
		for _, n := range []int{1, 150, 499, 500, 501, 3000} {
			server.FlushAll(t)
			fill(t, rdb, crowd.make, crowd.keys, n)
			server.Do(t, "CONFIG", "RESETSTAT")
			info := inspect(t, c, "job")
			require.Equal(t, crowd.kind, info.Kind)
			require.Equal(t, n, all(t, info), "%s", crowd.kind)
			switch scripts := server.CommandStats(t)["evalsha"]; {
			case n <= 150:
				require.LessOrEqual(t, scripts, int64(2), "%s", crowd.kind)
			case n == 3000:
				require.GreaterOrEqual(t, scripts, int64(n/500+2), "%s", crowd.kind)
			}
		}
	}
}

func TestInfoOfAHundredThousandDoesNotBlockRedis(t *testing.T) {
	redistest.Long(t, "100,000 holders and waiters")
	server := redistest.Start(t)
	rdb := server.Client(t)
	c := newClient(t, rdb)
	for _, crowd := range crowds {
		t.Run(string(crowd.kind), func(t *testing.T) {
			server.FlushAll(t)
			fill(t, rdb, crowd.make, crowd.keys, 100_000)
			server.Bounded(t, func() {}, func() {
				require.Equal(t, 100_000, all(t, inspect(t, c, "job")))
			})
		})
	}
}

// A long hash that is not a lock is not read to its end.
func TestInfoOfAForeignHash(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	c := newClient(t, rdb)
	for _, field := range []string{"'field' .. i, i", "'f:' .. i, 'x'"} {
		server.FlushAll(t)
		fill(t, rdb, `for i = ARGV[1], ARGV[2] do redis.call('HSET', KEYS[1], `+field+`) end`, []string{"job"}, 20_000)
		server.Do(t, "CONFIG", "RESETSTAT")
		_, err := c.Info(t.Context(), "job")
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		require.LessOrEqual(t, server.CommandStats(t)["hscan"], int64(1))
	}
}
