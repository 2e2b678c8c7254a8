-- permitsemaphore/delete: remove the semaphore, and with it the permits that are
-- out.
--
-- KEYS[1]  the permits available: an integer
-- KEYS[2]  the permits that are out: a zset of id -> end of the lease, ms since
--          the epoch
--
-- Returns 1  there was one
--         0  there was none
-- Keys that are something else are left alone, with Redis's WRONGTYPE error, or for a
-- string in KEYS[1] the error 'WRONGTYPE value is not an integer or out of range'.
local permits, out = KEYS[1], KEYS[2]

local there = redis.call('GET', permits)
if redis.call('ZCARD', out) == 0 and not there then
  return 0
end
local have = integer(there or '0')
if not have then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
redis.call('DEL', permits, out)
return 1
