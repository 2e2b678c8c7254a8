-- rwlock/release_read: bring the hold count of a reader down; free the lock when
-- nobody else is left who is alive. Asking twice is the same as asking once: the
-- hold count to reach is given. Nothing here is refused by a server at its memory
-- limit.
-- It asks for the timeouts of some other read holds and deletes the holder's own, all
-- of whose keys it builds; those who have none are dead, and are taken out. Where
-- there are more than 32, the lock keeps its lease, though that may be the longest by
-- now, and waiters are told to look when all readers that are looked at are dead. Redisson looks
-- at all, and then the lock has the longest lease of those who are left.
--
-- Cost: O(n) for n holds of the readers that are looked at, at most 32, and of this
-- reader, about 0.1 ms for 32 holds; it does not grow with the readers.
--
-- KEYS[1]  the lock: a hash of mode ('read' or 'write'), reader -> hold count
--          and writer -> hold count, expiring with the longest lease
-- KEYS[2]  the holder's label, when it has one (may be absent)
-- ARGV[1]  holder
-- ARGV[2]  hold count to reach
-- ARGV[3]  not after: server time, ms since the epoch; 0: whenever it comes,
--          for a holder that will never hold the lock again
-- ARGV[4]  the most by which ARGV[3] may lie ahead, ms
-- ARGV[5]  what the timeouts' keys begin with, before the reader
-- ARGV[6]  Redis channel of the lock
-- ARGV[7]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[8]  ms for which the hold stays in another's name, 0 for not at all (may
--          be absent)
-- ARGV[9]  the reader in whose name it stays, when ARGV[8] is above 0
--
-- Returns 1                           given back, and freed if nobody is left, without
--                                     a deadline
--         {1, holds left, server ms}  brought down, and freed if nobody is left
--         {2, holds left, server ms}  it was that low already; nothing was changed
--         {-1, 0, server ms}          the holder does not hold the read lock
--         {-2, 0, server ms}          too late; nothing was changed
--         the server ms are 0 when ARGV[3] is
local lock, holder, count, notafter = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ahead, prefix, channel, verb = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local linger, heir = tonumber(ARGV[8] or 0), ARGV[9]

-- How many readers are asked first.
local few = 2

local now = 0
if notafter > 0 then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  if now > notafter or notafter - now > tonumber(ahead) then
    return {-2, 0, now}
  end
end

local fields = call('HMGET', lock, 'mode', holder)
local mode = fields[1]
local left = call('PTTL', lock)
if not mode then
  if left == -2 then
    publish(verb, channel, '0') -- as Redisson does: it may have been freed by its expiry
  end
  return {-1, 0, now}
end
local held = tonumber(fields[2] or 0) or 0
local near = about(left)
if held == 0 then
  return {-1, 0, now}
end
if held <= count then
  return {2, held, now}
end

-- Among many readers there is mostly one whose lease is as long as the lock's, so
-- that nothing changes for the lock: a few are asked first.
local same = false
if count == 0 and linger == 0 and mode == 'read' and left > 0 then
  local some = redis.pcall('HRANDFIELD', lock, few) -- not to be had: none
  for _, field in ipairs(some) do
    if field ~= 'mode' and field ~= holder then
      local ms = redis.pcall('PTTL', prefix .. field .. ':rwlock_timeout:1')
      same = type(ms) ~= 'table' and ms > left - near
      if same then
        break
      end
    end
  end
end

-- The lock goes on with the longest lease of those who are left, as far as it is known.
local longest, dead, freed, doubt = left, {}, false, false
if count == 0 and mode == 'read' and not same then
  local lives, whole
  lives, dead, whole = look(prefix, left, {[holder] = true}, 1)
  if whole then
    longest = lives
  end
  freed = whole and lives < 0 and linger == 0
  doubt = not whole and lives < 0
end
if count == 0 and linger > 0 then
  longest = math.max(longest, linger)
end

if freed then
  call('DEL', lock)
else
  -- HDEL is allowed at the memory limit, and once it has run the rest is too.
  call('HDEL', lock, '')
  if count > 0 then
    call('HSET', lock, holder, count)
  else
    if linger > 0 then
      -- First, for without it the heir would be taken for dead, and while the slot is
      -- on the move the old node makes no new keys.
      call('SET', prefix .. heir .. ':rwlock_timeout:1', '1', 'PX', linger)
      call('HSET', lock, heir, 1)
    end
    call('HDEL', lock, holder)
    for _, field in ipairs(dead) do
      call('HDEL', lock, field)
    end
    if longest >= 0 and longest ~= left then
      redis.pcall('PEXPIRE', lock, math.max(longest, 1)) -- else it has a longer one
    end
  end
end
for n = count + 1, math.min(held, count + most) do
  redis.pcall('DEL', prefix .. holder .. ':rwlock_timeout:' .. n)
end
if count == 0 and KEYS[2] then
  redis.pcall('DEL', KEYS[2])
end
local lingers = count == 0 and linger > 0 and mode == 'read'
if lingers then
  -- The waiters have been told of a longer lease, and look again: all of them, for
  -- nobody says so when the lock is free. '1' wakes all threads of Redisson that
  -- sleep, and '0' one that is about to.
  publish(verb, channel, '1')
end
if freed or lingers or doubt or longest < math.min(left - near, soon) then
  publish(verb, channel, '0') -- where it is not free, the waiters have been told of a longer lease, and look again
end
if count == 0 and now == 0 then
  return 1
end
return {1, count, now}
