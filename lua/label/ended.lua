-- label/ended: write the label of a holder that keeps a lock closed after its work, or
-- of a permit that is kept. Asking twice is the same as asking once, and asking late
-- writes nothing.
--
-- KEYS[1]  the lock, a hash; or the permits that are out, a zset of id -> end of the
--          lease, ms since the epoch
-- KEYS[2]  the label, a text that expires with the lock or the permit at the latest
-- ARGV[1]  a field of KEYS[1] that is there for as long as the holder has the lock; or
--          the id of the permit
-- ARGV[2]  ms for which the lock stays closed
-- ARGV[3]  the text
--
-- Returns 1  written, or left out by a server at its memory limit
--         0  the holder does not have the lock; nothing was changed
local lock, label, field = KEYS[1], KEYS[2], ARGV[1]

local left
if type(redis.pcall('HGET', lock, field)) == 'string' then
  left = redis.call('PTTL', lock)
else
  local ends = redis.pcall('ZSCORE', lock, field)
  if type(ends) ~= 'string' then
    return 0
  end
  local time = redis.call('TIME')
  left = ends - time[1] * 1000 - math.floor(time[2] / 1000)
end
left = math.min(left - 1, tonumber(ARGV[2])) -- Redis before 7.2 takes the time anew for SET
if left <= 0 then
  return 0
end
redis.pcall('SET', label, ARGV[3], 'PX', left)
return 1
