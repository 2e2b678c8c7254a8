-- rlock/release: bring the hold count of a holder down; free the lock at 0.
-- Asking twice is the same as asking once: the hold count to reach is given.
-- Nothing here is refused by a server at its memory limit.
--
-- KEYS[1]   the lock: a hash of holder -> hold count
-- KEYS[2]   the holder's label, when it has one (may be absent)
-- ARGV[1]   holder
-- ARGV[2]   hold count to reach
-- ARGV[3]   not after: server time, ms since the epoch; 0: whenever it comes,
--           for a holder that will never hold the lock again
-- ARGV[4]   the most by which ARGV[3] may lie ahead, ms
-- ARGV[5]   Redis channel of the lock
-- ARGV[6]   how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[7]   ms for which a freed lock stays closed, 0 for not at all (may be absent)
-- ARGV[8]   the holder in whose name it stays closed, when ARGV[7] is above 0
--
-- Returns 1 + listeners               freed; how many connections were told, as far
--                                     as this server knows
--         {1, holds left, server ms}  brought down, but not freed for others
--         {2, holds left, server ms}  it was that low already; nothing was changed
--         {-1, 0, server ms}          the holder does not hold the lock
--         {-2, 0, server ms}          too late; nothing was changed
--         the server ms are 0 when ARGV[3] is
local lock, holder, count, notafter = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ahead, channel, verb, linger = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7] or 0)
local call = redis.call

local now = 0
if notafter > 0 then
  local time = call('TIME')
  now = time[1] * 1000 + time[2] / 1000
  if now > notafter or notafter - now > tonumber(ahead) then
    return {-2, 0, now}
  end
end

if count == 0 and linger == 0 then
  -- The last field of a hash takes the key with it.
  if call('HDEL', lock, holder) == 0 then
    return {-1, 0, now}
  end
  if KEYS[2] then
    redis.pcall('DEL', KEYS[2])
  end
  local heard, sharded = 0, 0
  if verb == 'PUBLISH' or verb == 'BOTH' then
    heard = redis.pcall('PUBLISH', channel, '0')
  end
  if verb == 'SPUBLISH' or verb == 'BOTH' then
    sharded = redis.pcall('SPUBLISH', channel, '0')
  end
  if type(heard) == 'table' then
    heard = 0
  end
  if type(sharded) == 'number' and sharded > heard then
    heard = sharded
  end
  return 1 + heard
end

local held = tonumber(call('HGET', lock, holder) or 0)
if held == 0 then
  return {-1, 0, now}
end
if held <= count then
  return {2, held, now}
end
-- PEXPIRE is allowed at the memory limit, and once it has run HSET is too.
local left = linger
if count > 0 then
  left = call('PTTL', lock)
end
if left > 0 then
  call('PEXPIRE', lock, left)
end
if count > 0 then
  call('HSET', lock, holder, count)
else
  call('HSET', lock, ARGV[8], 1)
  call('HDEL', lock, holder)
end
return {1, count, now}
