-- permitsemaphore/state: tell how many permits there are. Permits whose lease is
-- over are reclaimed first. Nothing here is refused by a server at its memory
-- limit.
--
-- KEYS[1]  the permits available: an integer
-- KEYS[2]  the permits that are out: a zset of id -> end of the lease, ms since
--          the epoch
-- ARGV[1]  Redis channel of the semaphore
-- ARGV[2]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns {1, available, out}  there is a semaphore
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
local left = call('ZCARD', out)
local first = call('ZRANGE', out, 0, 0, 'WITHSCORES')
if first[2] and tonumber(first[2]) <= now then
  -- What this user may not do shows before anything is changed, since a script that
  -- stops half way would lose permits. The first is allowed at the memory limit, and
  -- once it has run INCRBY is too.
  call('ZREMRANGEBYSCORE', out, 1, 0)
  call('INCRBY', permits, 0)
  local lapsed = call('ZREMRANGEBYSCORE', out, 0, now)
  have, found, left = call('INCRBY', permits, lapsed), true, left - lapsed
  if have > 0 then
    if verb == 'PUBLISH' or verb == 'BOTH' then
      redis.pcall('PUBLISH', channel, have)
    end
    if verb == 'SPUBLISH' or verb == 'BOTH' then
      redis.pcall('SPUBLISH', channel, have)
    end
  end
end
if not found then
  return {0, 0, 0}
end
return {1, have, left}
