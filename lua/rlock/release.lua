-- rlock/release: bring the hold count of a holder down; free the lock at 0.
-- Asking twice is the same as asking once: the hold count to reach is given.
-- Nothing here is refused by a server at its memory limit.
--
-- KEYS[1]   the lock: a hash of holder -> hold count
-- KEYS[2]   the holder's label, when it has one (may be absent)
-- ARGV[1]   holder
-- ARGV[2]   hold count to reach
-- ARGV[3]   not after: server time, ms since the epoch
-- ARGV[4]   the most by which ARGV[3] may lie ahead, ms
-- ARGV[5]   Redis channel of the lock
-- ARGV[6]   how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[7]   ms for which a freed lock stays closed, 0 for not at all (may be absent)
-- ARGV[8]   the holder in whose name it stays closed, when ARGV[7] is above 0
--
-- Returns {1, holds left, server ms}  brought down; at 0 the lock is free
--         {2, holds left, server ms}  it was that low already; nothing was changed
--         {-1, 0, server ms}          the holder does not hold the lock
--         {-2, 0, server ms}          too late; nothing was changed
local lock, holder, count = KEYS[1], ARGV[1], tonumber(ARGV[2])
local notafter, ahead, channel, verb = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local linger = tonumber(ARGV[7] or 0)

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > notafter or notafter - now > ahead then
  return {-2, 0, now}
end

local held = tonumber(redis.call('HGET', lock, holder) or 0)
if held == 0 then
  return {-1, 0, now}
end
if held <= count then
  return {2, held, now}
end
if count > 0 or linger > 0 then
  -- PEXPIRE is allowed at the memory limit, and once it has run HSET is too.
  local left = linger
  if count > 0 then
    left = redis.call('PTTL', lock)
  end
  if left > 0 then
    redis.call('PEXPIRE', lock, left)
  end
  if count > 0 then
    redis.call('HSET', lock, holder, count)
    return {1, count, now}
  end
  redis.call('HSET', lock, ARGV[8], 1)
  redis.call('HDEL', lock, holder)
  return {1, 0, now}
end
redis.call('DEL', lock)
if KEYS[2] then
  redis.pcall('DEL', KEYS[2])
end
if verb == 'PUBLISH' or verb == 'BOTH' then
  redis.pcall('PUBLISH', channel, '0')
end
if verb == 'SPUBLISH' or verb == 'BOTH' then
  redis.pcall('SPUBLISH', channel, '0')
end
return {1, 0, now}
