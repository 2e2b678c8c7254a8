-- countdownlatch/delete: end a count whatever is left of it, and tell everybody
-- who waits. Nothing here is refused by a server at its memory limit.
--
-- KEYS[1]  the count that is left: an integer
-- KEYS[2]  when a count last ended, µs since the epoch by the server; it expires
-- ARGV[1]  ms for which the end of the count is remembered
-- ARGV[2]  Redis channel of the latch
-- ARGV[3]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns 1  there was a count
--         0  there was none
-- A key that is something else is left alone, with Redis's WRONGTYPE error, or where
-- it is a string the error 'WRONGTYPE value is not an integer or out of range'.
local latch, ended, keep, channel, verb = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local left = call('GET', latch)
if not left then
  return 0
end
if not integer(left) then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
local time = call('TIME')
-- What this user may not do shows before anything is changed. PEXPIRE is allowed at
-- the memory limit, and once it has run SET is too.
call('PEXPIRE', ended, keep)
call('SET', latch, left, 'XX', 'KEEPTTL')
call('DEL', latch)
call('SET', ended, string.format('%.0f', time[1] * 1000000 + time[2]), 'PX', keep)
-- '0' opens. Redisson sends '1' here, and its waiters sleep on.
publish(verb, channel, '0')
return 1
