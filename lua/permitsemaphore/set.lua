-- permitsemaphore/set: make a semaphore, unless there is one. Asking twice is the
-- same as asking once: the request is remembered.
--
-- KEYS[1]  the permits available: an integer
-- KEYS[2]  the claim: number of the last request under it; it expires
-- ARGV[1]  permits, at least 0
-- ARGV[2]  number of the request
-- ARGV[3]  ms for which the request is remembered
-- ARGV[4]  not after: server time, ms since the epoch
-- ARGV[5]  the most by which ARGV[4] may lie ahead, ms
-- ARGV[6]  Redis channel of the semaphore
-- ARGV[7]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns {1, server ms}   made
--         {0, server ms}   there was one
--         {-2, server ms}  too late; nothing was changed
-- A string that is no integer is left alone, with Redis's 'ERR value is not an
-- integer or out of range'.
local permits, claim, n, number, keep = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local notafter, ahead, channel, verb = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > notafter or notafter - now > ahead then
  return {-2, now}
end

local have, last = call('GET', permits), tonumber(call('GET', claim) or 0)
if last == number then
  return {1, now}
end
if last > number then
  return {-2, now}
end
if have then
  if not integer(have) then
    return redis.error_reply('WRONGTYPE value is not an integer or out of range')
  end
  return {0, now}
end
call('SET', claim, number, 'PX', keep)
call('SET', permits, n)
if tonumber(n) > 0 then
  publish(verb, channel, n)
end
return {1, now}
