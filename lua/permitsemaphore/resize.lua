-- permitsemaphore/resize: bring the number of permits, available and out, to n.
-- What is out stays out: the number that is available may go below 0, and those
-- who hold permits bring it back. Asking twice is the same as asking once: the
-- request is remembered, so that one that comes again does not undo a later one.
--
-- KEYS[1]  the permits available: an integer; made when there is none
-- KEYS[2]  the permits that are out: a zset of id -> end of the lease, ms since
--          the epoch
-- KEYS[3]  the claim: number of the last request under it; it expires
-- ARGV[1]  permits, at least 0
-- ARGV[2]  number of the request
-- ARGV[3]  ms for which the request is remembered
-- ARGV[4]  not after: server time, ms since the epoch
-- ARGV[5]  the most by which ARGV[4] may lie ahead, ms
-- ARGV[6]  Redis channel of the semaphore
-- ARGV[7]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns {1, server ms}   done
--         {-2, server ms}  too late; nothing was changed
local permits, out, claim, n, number, keep = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local notafter, ahead, channel, verb = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > notafter or notafter - now > ahead then
  return {-2, now}
end

local found, held = call('GET', permits), call('ZCARD', out)
local have, last = integer(found or '0'), tonumber(call('GET', claim) or 0)
if not have then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
if last >= number then
  return {last == number and 1 or -2, now}
end
call('SET', claim, number, 'PX', keep)
local change = n - have - held
if found and change == 0 then
  return {1, now}
end
local done = redis.pcall('INCRBY', permits, change)
if type(done) == 'table' then
  call('SET', claim, last, 'PX', keep) -- it was not done: this user may not
  return done
end
if n > 0 then
  publish(verb, channel, n)
end
return {1, now}
