-- rlock/force: free the lock, whoever holds it.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- ARGV[1]  Redis channel of the lock
-- ARGV[2]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
--
-- Returns 1  the lock was held and is free now
--         0  it was free
-- A key that is no hash is left alone, with Redis's WRONGTYPE error.
local lock, channel, verb = KEYS[1], ARGV[1], ARGV[2]

if redis.call('HLEN', lock) == 0 then
  return 0
end
redis.call('DEL', lock)
if verb == 'PUBLISH' or verb == 'BOTH' then
  redis.pcall('PUBLISH', channel, '0')
end
if verb == 'SPUBLISH' or verb == 'BOTH' then
  redis.pcall('SPUBLISH', channel, '0')
end
return 1
