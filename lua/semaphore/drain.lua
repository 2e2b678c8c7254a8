-- semaphore/drain: take all permits that are available. Asking twice is the same
-- as asking once: what was taken is remembered. The time to live of the permits,
-- if they have one, stays as it is.
--
-- KEYS[1]  the permits available: an integer
-- KEYS[2]  the claim: number of the last request under it, and, after a colon,
--          what it took; it expires
-- ARGV[1]  number of the request
-- ARGV[2]  ms for which the request is remembered
-- ARGV[3]  not after: server time, ms since the epoch
-- ARGV[4]  the most by which ARGV[3] may lie ahead, ms
--
-- Returns {1, permits taken, server ms}  below 0 when there were less than none
--         {-2, 0, server ms}             too late; nothing was changed
local permits, claim, number, keep = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local notafter, ahead = tonumber(ARGV[3]), tonumber(ARGV[4])
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local last = call('GET', claim)
if last and string.sub(last, 1, #number + 1) == number .. ':' then
  -- What was done in time is done, also when it is asked for again too late.
  return {1, tonumber(string.sub(last, #number + 2)), now}
end
if now > notafter or notafter - now > ahead then
  return {-2, 0, now}
end

local have = call('GET', permits)
local n = integer(have or '0')
if not n then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
if n == 0 then
  return {1, 0, now}
end
-- PEXPIRE is allowed at the memory limit, and once it has run SET is too.
call('PEXPIRE', claim, keep)
call('SET', claim, number .. ':' .. have, 'PX', keep)
local done = redis.pcall('DECRBY', permits, have)
if type(done) == 'table' then
  call('SET', claim, last or 0, 'PX', keep) -- it was not done: this user may not
  return done
end
return {1, tonumber(have), now}
