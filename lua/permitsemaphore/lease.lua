-- permitsemaphore/lease: tell how long the lease of a permit lasts yet.
--
-- KEYS[1]  the permits that are out: a zset of id -> end of the lease, ms since
--          the epoch, or 922337203685477 for never
-- ARGV[1]  id
--
-- Returns ms left
--         -1  it is permanent
--         -2  it is not out, or its lease is over
local out, id = KEYS[1], ARGV[1]

local ends = tonumber(redis.call('ZSCORE', out, id) or 0)
if ends == 922337203685477 then
  return -1
end
local time = redis.call('TIME')
local left = ends - time[1] * 1000 - math.floor(time[2] / 1000)
return left > 0 and left or -2
