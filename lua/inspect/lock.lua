-- inspect/lock: tell who holds a lock. Its loop is as long as the lock's hash.
--
-- KEYS[1]  the lock
-- KEYS[2]  the fencing token counter
--
-- Returns {type of the key, lease left ms, last token, field, value, ...}
--         all texts but the lease; type 'none' when the lock is free
local lock, token = KEYS[1], KEYS[2]

local kind = redis.call('TYPE', lock).ok
local out = {kind, redis.call('PTTL', lock), '0'}
if redis.call('TYPE', token).ok == 'string' then
  out[3] = redis.call('GET', token)
end
if kind == 'hash' then
  for _, text in ipairs(redis.call('HGETALL', lock)) do
    out[#out + 1] = text
  end
end
return out
