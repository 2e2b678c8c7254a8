-- countdownlatch/countdown: count one down; at 0 remove the count and tell
-- everybody who waits. Asking twice is the same as asking once: the request is
-- remembered. Nothing here is refused by a server at its memory limit.
--
-- KEYS[1]  the count that is left: an integer
-- KEYS[2]  the claim: number of the last request under it; it expires
-- KEYS[3]  when a count last ended, µs since the epoch by the server; it expires
-- ARGV[1]  number of the request
-- ARGV[2]  ms for which the request, and the end of the count, are remembered
-- ARGV[3]  not after: server time, ms since the epoch
-- ARGV[4]  the most by which ARGV[3] may lie ahead, ms
-- ARGV[5]  Redis channel of the latch
-- ARGV[6]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns {1, server ms}   counted
--         {0, server ms}   there is nothing to count, says a server that takes writes
--         {-2, server ms}  too late; nothing was changed
local latch, claim, ended, number, keep = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1]), ARGV[2]
local notafter, ahead, channel, verb = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
if now > notafter or notafter - now > ahead then
  return {-2, now}
end

local left, last = call('GET', latch), tonumber(call('GET', claim) or 0)
if last == number then
  return {1, now}
end
if last > number then
  return {-2, now}
end
if not left then
  -- A server that takes no writes may not know of the count yet. As Redisson's DECR,
  -- this is refused there; elsewhere it does nothing.
  call('DEL', latch)
  return {0, now}
end
left = integer(left)
if not left then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end

-- PEXPIRE is allowed at the memory limit, and once it has run SET and DECR are.
call('PEXPIRE', claim, keep)
call('SET', claim, number, 'PX', keep)
local done
if left > 1 then
  done = redis.pcall('DECR', latch)
else
  done = redis.pcall('DEL', latch)
end
if type(done) == 'table' then
  call('SET', claim, last, 'PX', keep) -- it was not done: this user may not
  return done
end
if left >= 2 then
  return {1, now}
end
if left < 1 then
  return {0, now} -- a count of 0, which only Java begins
end
call('SET', ended, string.format('%.0f', time[1] * 1000000 + time[2]), 'PX', keep)
publish(verb, channel, '0')
return {1, now}
