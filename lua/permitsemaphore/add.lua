-- permitsemaphore/add: change the number of permits by n. What is out stays out:
-- the number that is available may go below 0. Asking twice is the same as asking
-- once: the request is remembered. The time to live of the permits, if they have
-- one, stays as it is.
--
-- KEYS[1]  the permits available: an integer; made when there is none
-- KEYS[2]  the claim: number of the last request under it; it expires
-- ARGV[1]  permits to add
-- ARGV[2]  number of the request
-- ARGV[3]  ms for which the request is remembered
-- ARGV[4]  not after: server time, ms since the epoch
-- ARGV[5]  the most by which ARGV[4] may lie ahead, ms
-- ARGV[6]  Redis channel of the semaphore
-- ARGV[7]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns {1, server ms}   done
--         {-2, server ms}  too late; nothing was changed
local permits, claim, n, number, keep = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local notafter, ahead, channel, verb = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > notafter or notafter - now > ahead then
  return {-2, now}
end

local have, last = integer(call('GET', permits) or '0'), tonumber(call('GET', claim) or 0)
if not have then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
if last == number then
  return {1, now}
end
if last > number then
  return {-2, now}
end
if math.abs(have + n) > 2 ^ 53 then
  return redis.error_reply('ERR more permits than can be counted')
end
call('SET', claim, number, 'PX', keep)
local total = redis.pcall('INCRBY', permits, n)
if type(total) == 'table' then
  call('SET', claim, last, 'PX', keep) -- it was not done: this user may not
  return total
end
if n > 0 and total > 0 then
  publish(verb, channel, total)
end
return {1, now}
