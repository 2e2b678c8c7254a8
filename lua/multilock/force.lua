-- multilock/force: free the values of a set, whoever holds them. Whoever has no other
-- value loses its label too, whose key is built here.
--
-- Cost: O(n) for n values of the set, and for those of the group if there are no more
-- than 1,000, about 3 ms for 1,000.
--
-- KEYS[1]     the group: a hash of v -> holder, v:<holder>:expire_time -> server
--             ms and v:<holder>:lock_count -> hold count for each value v
-- ARGV[1]     Redis channel of the group
-- ARGV[2]     how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[3]     what the labels' keys begin with, before the holder
-- ARGV[4...]  the values of the set, hashed
--
-- Returns 1  a value was held; all are free now
--         0  they were free
-- A key that is no hash is left alone, with Redis's WRONGTYPE error.
local group, channel, verb = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held, owners = 0, {}
for i = 4, #ARGV do
  local value = ARGV[i]
  local owner = call('HGET', group, value)
  if owner then
    local fields = value .. ':' .. owner
    if (tonumber(call('HGET', group, fields .. ':expire_time') or 0) or 0) > now then
      held = 1
    end
    owners[owner] = true
    call('HDEL', group, value, fields .. ':expire_time', fields .. ':lock_count')
  end
end
if next(owners) and call('HLEN', group) <= 3000 then -- each value has three fields
  for _, value in ipairs(call('HVALS', group)) do
    owners[value] = nil
  end
  for owner in pairs(owners) do
    redis.pcall('DEL', ARGV[3] .. owner)
  end
end
if held == 1 then
  publish(verb, channel, '0')
end
return held
