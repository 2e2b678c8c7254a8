package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A java is a thread of a Redisson client as others see it in Redis. What its
// scripts do was written down from their description. It knows nothing of
// latchkey's keys and scripts or of the server's clock.
type java struct {
	t interface {
		require.TestingT
		Helper()
		Context() context.Context
	}
	rdb   redis.UniversalClient
	name  string
	owner string
	skew  time.Duration // of its clock
}

const (
	javaLease = 30000
	javaWait  = 300000
)

const javaDropStale = `
local function drop(Q, Z, now)
  while true do
    local head = redis.call('LINDEX', Q, 0)
    if head == false then return end
    local score = redis.call('ZSCORE', Z, head)
    if score ~= false and tonumber(score) <= now then
      redis.call('ZREM', Z, head)
      redis.call('LPOP', Q)
    else
      return
    end
  end
end
local name, Q, Z = KEYS[1], KEYS[2], KEYS[3]
`

var javaAcquire = redis.NewScript(javaDropStale + `
local lease, owner, wait, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
drop(Q, Z, now)
if redis.call('EXISTS', name) == 0 and (redis.call('EXISTS', Q) == 0 or redis.call('LINDEX', Q, 0) == owner) then
  redis.call('LPOP', Q)
  redis.call('ZREM', Z, owner)
  for _, member in ipairs(redis.call('ZRANGE', Z, 0, -1)) do
    redis.call('ZINCRBY', Z, -wait, member)
  end
  redis.call('HSET', name, owner, 1)
  redis.call('PEXPIRE', name, lease)
  return false
end
if redis.call('HEXISTS', name, owner) == 1 then
  redis.call('HINCRBY', name, owner, 1)
  redis.call('PEXPIRE', name, lease)
  return false
end
if redis.call('ZSCORE', Z, owner) ~= false then
  return math.max(0, redis.call('PTTL', name))
end
local last, ttl = redis.call('LINDEX', Q, -1), 0
if last ~= false and last ~= owner and redis.call('ZSCORE', Z, last) ~= false then
  ttl = tonumber(redis.call('ZSCORE', Z, last)) - now
else
  ttl = redis.call('PTTL', name)
end
if redis.call('ZADD', Z, ttl + wait + now, owner) == 1 then
  redis.call('RPUSH', Q, owner)
end
return ttl
`)

var javaUnlock = redis.NewScript(javaDropStale + `
local owner, now, prefix = ARGV[1], tonumber(ARGV[2]), ARGV[3]
drop(Q, Z, now)
if redis.call('EXISTS', name) == 0 then
  local head = redis.call('LINDEX', Q, 0)
  if head ~= false then redis.call('PUBLISH', prefix .. ':' .. head, '0') end
  return 1
end
if redis.call('HEXISTS', name, owner) == 0 then return false end
if redis.call('HINCRBY', name, owner, -1) > 0 then
  redis.call('PEXPIRE', name, 30000)
  return 0
end
redis.call('DEL', name)
local head = redis.call('LINDEX', Q, 0)
if head ~= false then redis.call('PUBLISH', prefix .. ':' .. head, '0') end
return 1
`)

var javaGiveUp = redis.NewScript(javaDropStale + `
local owner, wait, found = ARGV[1], tonumber(ARGV[2]), false
for _, member in ipairs(redis.call('LRANGE', Q, 0, -1)) do
  if found then redis.call('ZINCRBY', Z, -wait, member) end
  found = found or member == owner
end
redis.call('ZREM', Z, owner)
redis.call('LREM', Q, 0, owner)
return 0
`)

func queueKey(name string) string   { return "redisson_lock_queue:{" + name + "}" }
func scoresKey(name string) string  { return "redisson_lock_timeout:{" + name + "}" }
func clientsKey(name string) string { return "latchkey_queue:{" + name + "}" }
func channelOf(name string) string  { return "redisson_lock__channel:{" + name + "}" }

func (j *java) keys() []string { return []string{j.name, queueKey(j.name), scoresKey(j.name)} }

func (j *java) now() int64 {
	j.t.Helper()
	at, err := j.rdb.Time(j.t.Context()).Result()
	require.NoError(j.t, err)
	return at.Add(j.skew).UnixMilli()
}

// acquire makes one attempt and queues. -1 means success.
func (j *java) acquire(wait int64) int64 {
	j.t.Helper()
	left, err := javaAcquire.Run(j.t.Context(), j.rdb, j.keys(), javaLease, j.owner, wait, j.now()).Int64()
	if errors.Is(err, redis.Nil) {
		return -1
	}
	require.NoError(j.t, err)
	require.GreaterOrEqual(j.t, left, int64(0), "what Java is told")
	return left
}

func (j *java) unlock() int64 {
	j.t.Helper()
	n, err := javaUnlock.Run(j.t.Context(), j.rdb, j.keys(), j.owner, j.now(), channelOf(j.name)).Int64()
	require.NoError(j.t, err)
	return n
}

func (j *java) giveUp(wait int64) {
	j.t.Helper()
	require.NoError(j.t, javaGiveUp.Run(j.t.Context(), j.rdb, j.keys(), j.owner, wait).Err())
}

// lock does what RedissonFairLock.lock does: it subscribes, asks, and sleeps
// for the returned time or until a message.
func (j *java) lock() error {
	ctx, cancel := context.WithTimeout(j.t.Context(), time.Minute)
	defer cancel()
	if j.acquire(javaWait) < 0 {
		return nil
	}
	sub := j.rdb.Subscribe(ctx, channelOf(j.name)+":"+j.owner)
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	for {
		left := j.acquire(javaWait)
		if left < 0 {
			return nil
		}
		msg, err := sub.ReceiveTimeout(ctx, max(time.Duration(left)*time.Millisecond, time.Millisecond))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			if m, ok := msg.(*redis.Message); ok && m.Payload != "0" {
				return fmt.Errorf("the message is %q", m.Payload)
			}
		}
	}
}
