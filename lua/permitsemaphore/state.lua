-- permitsemaphore/state: tell how many permits there are. Permits whose lease is
-- over are reclaimed first, up to 1,000 in one run. Nothing here is refused by a
-- server at its memory limit.
--
-- Cost: O(m) for m permits that are reclaimed, at most 1,000 a run, about 1 ms.
--
-- KEYS[1]  the permits available: an integer
-- KEYS[2]  the permits that are out: a zset of id -> end of the lease, ms since
--          the epoch
-- ARGV[1]  Redis channel of the semaphore
-- ARGV[2]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns {1, available, out}  there is a semaphore
--         {2, available, out}  the same, and among those that are out there are more to
--                              reclaim: ask again
--         {0, 0, 0}            there is none
local permits, out, channel, verb = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local call = redis.call

local found = call('GET', permits)
local have = integer(found or '0')
if not have then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left, more = call('ZCARD', out), false
local first = call('ZRANGE', out, 0, 0, 'WITHSCORES')
if first[2] and tonumber(first[2]) <= now then
  -- What this user may not do shows before anything is changed, since a script that
  -- stops half way would lose permits. The first is allowed at the memory limit, and
  -- once it has run INCRBY is too.
  call('ZREM', out, '')
  call('INCRBY', permits, 0)
  local lapsed = call('ZREM', out, unpack(call('ZRANGE', out, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)))
  have, found, left = call('INCRBY', permits, lapsed), true, left - lapsed
  more = lapsed == 1000
  if have > 0 then
    publish(verb, channel, have)
  end
end
if not found then
  return {0, 0, 0}
end
return {more and 2 or 1, have, left}
