-- semaphore/acquire: take permits, all or none. Asking twice is the same as
-- asking once: what was granted is remembered under the caller's claim. A
-- request that arrives late, or from a clock too far off, changes nothing.
--
-- KEYS[1]  the permits available: an integer
-- KEYS[2]  the claim: number of the last request that was carried out under it,
--          negative when it was undone; it expires
-- ARGV[1]  permits, at least 1
-- ARGV[2]  number of the request
-- ARGV[3]  ms for which the claim is remembered
-- ARGV[4]  not after: server time, ms since the epoch
-- ARGV[5]  the most by which ARGV[4] may lie ahead, ms
--
-- Returns server ms                     granted, and some are left
--         {1, permits left, server ms}  granted
--         {0, permits left, server ms}  too few
--         {-2, 0, server ms}            too late, or undone already; nothing was changed
local permits, claim, n, number, keep = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local early = ARGV[4] - now
if early < 0 or early > tonumber(ARGV[5]) then
  -- What was done in time is done, also when it is asked for again.
  return {call('GET', claim) == number and 1 or -2, 0, now}
end

local have = integer(call('GET', permits) or '0')
if not have then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
local left = have - n
if left < 0 then
  return {call('GET', claim) == number and 1 or 0, have, now}
end
local last = call('SET', claim, number, 'PX', keep, 'GET')
if last and math.abs(last) >= tonumber(number) then
  if last == number then
    return {1, have, now}
  end
  call('SET', claim, last, 'PX', keep)
  return {-2, 0, now}
end
local done = redis.pcall('DECRBY', permits, n)
if type(done) == 'table' then
  call('SET', claim, last or 0, 'PX', keep) -- it was not done: this user may not
  return done
end
if left > 0 then
  return now
end
return {1, 0, now}
