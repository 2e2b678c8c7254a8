-- rlock/state: read the lock. It is a script so that it runs on the primary,
-- wherever the caller's client sends its reads.
--
-- Cost: O(n) for n holders, of which a lock has one, about 50 µs.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- KEYS[2]  the fencing token counter (may be absent)
-- ARGV[1]  holder to look for; may be empty
--
-- Returns {hold count of all holders, hold count of the holder, lease left ms, token}
--         the lease is -2 when the lock is free, -1 when the key has no expiry
local lock, holder = KEYS[1], ARGV[1]

local all = 0
for _, count in ipairs(redis.call('HVALS', lock)) do
  all = all + (tonumber(count) or 1)
end
local mine = 0
if holder ~= '' then
  mine = tonumber(redis.call('HGET', lock, holder) or 0)
end
local token = 0
if KEYS[2] then
  token = tonumber(redis.call('GET', KEYS[2]) or 0)
  if not token then
    return redis.error_reply('WRONGTYPE the fencing token counter is not a number')
  end
end
return {all, mine, redis.call('PTTL', lock), token}
