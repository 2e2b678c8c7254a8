-- countdownlatch/set: begin a count, unless one is running. Asking twice is the
-- same as asking once: the request is remembered.
--
-- KEYS[1]  the count that is left: an integer
-- KEYS[2]  the claim: number of the last request under it; it expires
-- ARGV[1]  count, at least 1
-- ARGV[2]  number of the request
-- ARGV[3]  ms for which the request is remembered
-- ARGV[4]  not after: server time, ms since the epoch
-- ARGV[5]  the most by which ARGV[4] may lie ahead, ms
-- ARGV[6]  Redis channel of the latch
-- ARGV[7]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns {1, server ms}   begun
--         {0, server ms}   one is running
--         {-2, server ms}  too late; nothing was changed
-- A string that is no integer is left alone, with Redis's 'ERR value is not an
-- integer or out of range'.
local latch, claim, n, number, keep = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local notafter, ahead, channel, verb = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
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
if left then
  if not integer(left) then
    return redis.error_reply('WRONGTYPE value is not an integer or out of range')
  end
  return {0, now}
end
call('SET', claim, number, 'PX', keep)
call('SET', latch, n)
-- '1' closes the gate that a Java client keeps open since the last count ended.
publish(verb, channel, '1')
return {1, now}
