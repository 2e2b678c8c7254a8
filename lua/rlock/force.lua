-- rlock/force: free the lock, whoever holds it. The key of the holder's label is built
-- here.
--
-- Cost: O(n) for n holders whose label is removed, at most 1, about 0.1 ms.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- ARGV[1]  Redis channel of the lock
-- ARGV[2]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[3]  what the labels' keys begin with, before the holder (may be absent)
--
-- Returns 1  the lock was held and is free now
--         0  it was free
-- A key that is no hash is left alone, with Redis's WRONGTYPE error.
local lock, channel, verb = KEYS[1], ARGV[1], ARGV[2]

local holders = redis.call('HLEN', lock)
if holders == 0 then
  return 0
end
local holder = ARGV[3] and holders == 1 and redis.call('HGETALL', lock)[1]
redis.call('DEL', lock)
if holder then
  redis.pcall('DEL', ARGV[3] .. holder)
end
publish(verb, channel, '0')
return 1
