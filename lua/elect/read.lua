-- elect/read: read who leads. It is a script so that it runs on the primary, wherever
-- the caller's client sends its reads.
--
-- Cost: O(n) for n fields of the record, at most 9, about 0.1 ms.
--
-- KEYS[1]  the lock, and
-- KEYS[2]  the record, as in elect/begin
--
-- Returns {server ms, left, has, passed, field, value, ...}
--         left is what is left of the lease of the lock in ms, as PTTL says it; has is 1
--         if the holder of the record has the lock; passed is 1 if the one has who has
--         accepted it; the fields of the record follow, with their values
local lock = KEYS[1]
local call = redis.call

local time, record = call('TIME'), call('HGETALL', KEYS[2])
local out = {time[1] * 1000 + math.floor(time[2] / 1000), call('PTTL', lock), 0, 0}
for i = 1, #record, 2 do
  if record[i] == 'holder' and call('HGET', lock, record[i + 1]) then
    out[3] = 1
  elseif record[i] == 'accepted' and call('HGET', lock, record[i + 1]) then
    out[4] = 1
  end
  out[#out + 1] = record[i]
  out[#out + 1] = record[i + 1]
end
return out
