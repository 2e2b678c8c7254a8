-- semaphore/release: give permits, or with a negative number take them away.
-- Asking twice is the same as asking once: the request is remembered. Nothing
-- here is refused by a server at its memory limit. The time to live of the
-- permits, if they have one, stays as it is.
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
-- ARGV[8]  '1' to do it only when there is a semaphore (may be absent)
--
-- Returns server ms        done
--         {0, server ms}   there is no semaphore
--         {-2, server ms}  too late; nothing was changed
local permits, claim, n, number, keep = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local channel, verb, existing = ARGV[6], ARGV[7], ARGV[8] == '1'
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local early = ARGV[4] - now
if early < 0 or early > tonumber(ARGV[5]) then
  -- What was done in time is done, also when it is asked for again.
  if call('GET', claim) == number then
    return now
  end
  return {-2, now}
end
if existing and not call('GET', permits) and call('GET', claim) ~= number then
  return {0, now}
end

local last = redis.pcall('SET', claim, number, 'PX', keep, 'GET')
if type(last) == 'table' then
  -- At the memory limit. PEXPIRE is allowed there, and once it has run SET is.
  call('PEXPIRE', claim, keep)
  last = call('SET', claim, number, 'PX', keep, 'GET')
end
if last and math.abs(last) >= tonumber(number) then
  if last == number then
    return now
  end
  call('SET', claim, last, 'PX', keep)
  return {-2, now}
end
local total = redis.pcall('INCRBY', permits, n)
if type(total) == 'table' then -- another kind of value, more than can be counted, or no right to
  call('SET', claim, last or 0, 'PX', keep) -- which is allowed, as it was before
  if not last then
    redis.pcall('DEL', claim)
  end
  local have = redis.pcall('GET', permits)
  if type(have) == 'string' and not integer(have) then
    return redis.error_reply('WRONGTYPE value is not an integer or out of range')
  end
  return total
end
if total > 0 and tonumber(n) > 0 then
  publish(verb, channel, total)
end
return now
