-- rwlock/release_write: bring the hold count of the writer down; at 0 free the
-- lock, or leave it to the read holds that the writer has as well. Asking twice
-- is the same as asking once: the hold count to reach is given. Nothing here is
-- refused by a server at its memory limit.
-- It asks for the timeouts of the writer's read holds, whose keys it builds.
--
-- Cost: O(n) for n read holds of the writer, about 1 ms for 1,000.
--
-- KEYS[1]  the lock: a hash of mode ('read' or 'write'), reader -> hold count
--          and writer -> hold count, expiring with the longest lease
-- KEYS[2]  the holder's label, when it has one (may be absent)
-- ARGV[1]  holder, as a writer
-- ARGV[2]  hold count to reach
-- ARGV[3]  not after: server time, ms since the epoch; 0: whenever it comes,
--          for a holder that will never hold the lock again
-- ARGV[4]  the most by which ARGV[3] may lie ahead, ms
-- ARGV[5]  what the timeouts' keys begin with, before the reader
-- ARGV[6]  Redis channel of the lock
-- ARGV[7]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[8]  ms for which a freed lock stays closed, 0 for not at all (may be
--          absent); not where read holds are left
-- ARGV[9]  the writer in whose name it stays closed, when ARGV[8] is above 0
--
-- Returns {1, holds left, server ms}  brought down
--         {2, holds left, server ms}  it was that low already; nothing was changed
--         {-1, 0, server ms}          the holder does not hold the write lock
--         {-2, 0, server ms}          too late; nothing was changed
--         the server ms are 0 when ARGV[3] is
local lock, holder, count, notafter = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ahead, prefix, channel, verb = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local linger, heir = tonumber(ARGV[8] or 0), ARGV[9]

local now = 0
if notafter > 0 then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  if now > notafter or notafter - now > tonumber(ahead) then
    return {-2, 0, now}
  end
end

local mode = call('HGET', lock, 'mode')
local left = call('PTTL', lock)
if not mode and left == -2 then
  publish(verb, channel, '1') -- as Redisson does: it may have been freed by its expiry
end
local held = 0
if mode == 'write' then
  held = tonumber(call('HGET', lock, holder) or 0) or 0
end
if held == 0 then
  return {-1, 0, now}
end
if held <= count then
  return {2, held, now}
end

-- HDEL is allowed at the memory limit, and once it has run the rest is too.
if count > 0 then
  call('HDEL', lock, '')
  call('HSET', lock, holder, count)
  return {1, count, now}
end

local longest = -2
local fields = call('HGETALL', lock)
for i = 1, #fields, 2 do
  if fields[i] ~= holder then
    longest = math.max(longest, lasts(prefix, fields[i], fields[i + 1], left))
  end
end
if longest >= 0 or linger > 0 then
  call('HDEL', lock, '')
  if longest >= 0 then
    call('HSET', lock, 'mode', 'read')
  else
    call('HSET', lock, heir, 1)
  end
  call('HDEL', lock, holder)
  local done = redis.pcall('PEXPIRE', lock, longest >= 0 and math.max(longest, 1) or linger)
  if type(done) == 'table' then
    -- It would stay closed for the lease of the one who has gone.
    call('HSET', lock, 'mode', 'write', holder, held)
    if longest < 0 then
      call('HDEL', lock, heir)
    end
    return done
  end
else
  call('DEL', lock)
end
if KEYS[2] then
  redis.pcall('DEL', KEYS[2])
end
publish(verb, channel, '1')
if linger > 0 and longest < 0 then
  -- It stays closed, and nobody says so when it is free: the waiters have been told of a
  -- longer lease, and look again. '1' wakes all threads of Redisson that sleep, and
  -- '0' one that is about to.
  publish(verb, channel, '0')
end
return {1, 0, now}
