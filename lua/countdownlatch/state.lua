-- countdownlatch/state: read the count. It is a script so that it runs on the
-- primary, wherever the caller's client sends its reads.
--
-- KEYS[1]  the count that is left: an integer
-- KEYS[2]  when a count last ended, µs since the epoch by the server; it expires
--
-- Returns {count, 1, ended, server µs}  the count that is left, 2^53 if it is more
--         {0, 0, ended, server µs}      no count is running
--         ended is 0 when no count has ended lately
local latch, ended = KEYS[1], KEYS[2]

local time = redis.call('TIME')
local left, last = redis.call('GET', latch), redis.call('GET', ended)
local n = integer(left or '0')
if not n then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
return {math.min(n, 2 ^ 53), left and 1 or 0, tonumber(last or 0), time[1] * 1000000 + time[2]}
