package multilock_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
)

// A java is a thread of a Redisson client as others see it in Redis. What its
// scripts do was written down from their description. It knows nothing of
// latchkey's keys and scripts or of the server's clock.
type java struct {
	rdb    *redis.Client
	group  string
	owner  string
	hashes []any // of its values
}

var javaTake = redis.NewScript(`
local now, lease, owner = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local left = 0
for i = 4, #ARGV do
  local who = redis.call('HGET', KEYS[1], ARGV[i])
  if who ~= false and who ~= owner then
    local till = redis.call('HGET', KEYS[1], ARGV[i] .. ':' .. who .. ':expire_time')
    if tonumber(till) > now then left = math.max(left, tonumber(till) - now) end
  end
end
if left > 0 then return left end
for i = 4, #ARGV do
  local fields = ARGV[i] .. ':' .. owner
  redis.call('HSET', KEYS[1], ARGV[i], owner)
  local till = redis.call('HGET', KEYS[1], fields .. ':expire_time')
  if till == false or tonumber(till) < now + lease then
    redis.call('HSET', KEYS[1], fields .. ':expire_time', string.format('%.0f', now + lease))
  end
  redis.call('HINCRBY', KEYS[1], fields .. ':lock_count', 1)
end
if redis.call('PTTL', KEYS[1]) < lease then redis.call('PEXPIRE', KEYS[1], lease) end
return false
`)

var javaGive = redis.NewScript(`
local now, owner, channel, removed = tonumber(ARGV[1]), ARGV[2], ARGV[3], 0
for i = 4, #ARGV do
  local fields = ARGV[i] .. ':' .. owner
  local till = redis.call('HGET', KEYS[1], fields .. ':expire_time')
  if redis.call('HGET', KEYS[1], ARGV[i]) ~= owner or tonumber(till) <= now then return false end
end
for i = 4, #ARGV do
  local fields = ARGV[i] .. ':' .. owner
  if redis.call('HINCRBY', KEYS[1], fields .. ':lock_count', -1) <= 0 then
    redis.call('HDEL', KEYS[1], ARGV[i], fields .. ':expire_time', fields .. ':lock_count')
    removed = removed + 1
  end
end
redis.call('PUBLISH', channel, '0')
if removed == #ARGV - 3 then return 1 end
return 0
`)

// take makes one attempt. It returns 0 on success, and otherwise how long
// others still hold the values.
func (j *java) take(t testing.TB, lease time.Duration) time.Duration {
	t.Helper()
	args := append([]any{time.Now().UnixMilli(), lease.Milliseconds(), j.owner}, j.hashes...)
	left, err := javaTake.Run(t.Context(), j.rdb, []string{j.group}, args...).Int64()
	if errors.Is(err, redis.Nil) {
		return 0
	}
	require.NoError(t, err)
	return time.Duration(left) * time.Millisecond
}

// give releases the values and reports whether they were held.
func (j *java) give(t testing.TB) bool {
	t.Helper()
	args := append([]any{time.Now().UnixMilli(), j.owner, "redisson_lock__channel:{" + j.group + "}"}, j.hashes...)
	_, err := javaGive.Run(t.Context(), j.rdb, []string{j.group}, args...).Int64()
	if errors.Is(err, redis.Nil) {
		return false
	}
	require.NoError(t, err)
	return true
}

// The values Jack_001 and Mary_002 as Redisson shows them with StringCodec,
// computed by another implementation of HighwayHash.
const (
	hashJack = "7pNoDdizVy2xY792MaFv+w"
	hashMary = "kIX2DFOX4IWct7G7K6tV9A"
)

const javaOwner = "7e0f3d5c-1a55-4f1e-9d6a-2f0c6f0b9a11:1"

// TestGroupBytes checks a held group in Redis.
func TestGroupBytes(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	h := locktest.MustLock(t, multilock.NewGroup(c, "class_100", "Jack_001", "Mary_002"))
	me := h.HolderID()
	got := rdb.HGetAll(t.Context(), "class_100").Val()
	for _, v := range []string{hashJack, hashMary} {
		require.Equal(t, me, got[v])
		require.Equal(t, "1", got[v+":"+me+":lock_count"])
		till, err := strconv.ParseInt(got[v+":"+me+":expire_time"], 10, 64)
		require.NoError(t, err)
		require.InDelta(t, time.Now().Add(30*time.Second).UnixMilli(), till, 5000)
	}
	require.Len(t, got, 6)
	require.InDelta(t, 30*time.Second, rdb.PTTL(t.Context(), "class_100").Val(), float64(5*time.Second))
	again, err := multilock.NewGroup(c, "class_100", "Mary_002", "Jack_001").Lock(h.Context())
	require.NoError(t, err)
	require.Equal(t, "2", rdb.HGet(t.Context(), "class_100", hashMary+":"+me+":lock_count").Val())
	locktest.MustUnlock(t, again)
	locktest.MustUnlock(t, h)
	require.Empty(t, s.Do(t, "KEYS", "*"))
}

// TestGroupJava checks that Java and Go refuse and wake each other.
func TestGroupJava(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	g := multilock.NewGroup(c, "class_100", "Jack_001", "Mary_002")
	jack := &java{rdb, "class_100", javaOwner, []any{hashJack}}
	both := &java{rdb, "class_100", javaOwner, []any{hashMary, hashJack}}

	// We hold.
	h := locktest.MustLock(t, g)
	require.InDelta(t, 30*time.Second, jack.take(t, time.Minute), float64(5*time.Second))
	require.False(t, jack.give(t))
	locktest.MustUnlock(t, h)
	require.Empty(t, s.Do(t, "KEYS", "*"))

	// Java holds, twice.
	require.Zero(t, jack.take(t, time.Minute))
	require.Zero(t, jack.take(t, time.Minute))
	refused(t, g)
	free(t, multilock.NewGroup(c, "class_100", "Mary_002"))
	left, err := g.TTL(t.Context())
	require.NoError(t, err)
	require.InDelta(t, time.Minute, left, float64(5*time.Second))

	// Its release wakes us.
	got := make(chan *latchkey.Hold, 1)
	go func() {
		h, err := g.Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	redistest.Until(t, "the waiter to listen", func() bool { return c.Stats().Waiting == 1 && c.Stats().Subscriptions == 1 })
	require.True(t, jack.give(t))
	require.True(t, jack.give(t))
	select {
	case h = <-got:
	case <-time.After(2 * time.Second): // less than the recheck
		require.Fail(t, "Java's release wakes nobody")
	}
	// Ours wakes Java.
	sub := rdb.Subscribe(t.Context(), "redisson_lock__channel:{class_100}")
	defer sub.Close()
	_, err = sub.Receive(t.Context())
	require.NoError(t, err)
	locktest.MustUnlock(t, h)
	msg, err := sub.ReceiveMessage(t.Context())
	require.NoError(t, err)
	require.Equal(t, "0", msg.Payload)
	require.Zero(t, both.take(t, time.Minute))

	// What Java has left behind, expired, is taken over.
	require.True(t, both.give(t))
	require.Zero(t, both.take(t, 20*time.Millisecond))
	rdb.Persist(t.Context(), "class_100")
	h, err = g.TryLock(t.Context(), latchkey.Wait(5*time.Second))
	require.NoError(t, err)
	require.Equal(t, int64(6), rdb.HLen(t.Context(), "class_100").Val(), "its fields are gone")
	freed, err := g.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	isLost(t, h.Unlock(t.Context()))
	require.Empty(t, s.Do(t, "KEYS", "*"))
}
