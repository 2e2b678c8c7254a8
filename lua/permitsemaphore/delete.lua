-- permitsemaphore/delete: remove the semaphore, and with it the permits that are
-- out. Redis frees what they took in the background. The labels of 500 permits go
-- with them, whose keys are built here; those of more are left to their ends.
--
-- Cost: O(n) for n permits that are out, of 500 at most, about 1 ms; of all where the
-- user may not UNLINK, about 20 ms for 100,000.
--
-- KEYS[1]  the permits available: an integer
-- KEYS[2]  the permits that are out: a zset of id -> end of the lease, ms since
--          the epoch
-- ARGV[1]  what the labels' keys begin with, before the id in hex
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
local labels = redis.call('ZRANGE', out, -500, -1)
if type(redis.pcall('UNLINK', permits, out)) == 'table' then -- not to be had
  redis.call('DEL', permits, out)
end
for i, id in ipairs(labels) do
  labels[i] = ARGV[1] .. hex(id)
end
if #labels > 0 then
  redis.pcall('DEL', unpack(labels))
end
return 1
