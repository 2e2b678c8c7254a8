-- rwlock/readers: what the scripts have in common that look at all readers of a
-- read-write lock. It is put before each of them and does nothing by itself.
--
-- A reader has a key for each of its holds, which expires with the hold's lease: its
-- timeouts. A reader without one is dead.
--
-- KEYS[1]  the lock: a hash of mode ('read' or 'write'), reader -> hold count
--          and writer -> hold count, expiring with the longest lease
--
-- Returns nothing; the script that follows does.
local call = redis.call

-- How many holds of one reader are looked at: a hold count that is rubbish must
-- not keep the server busy for ever.
local most = 10000

-- lasts returns for how many ms the longest timeout of a reader lasts, below 0 for one
-- that is dead. A timeout that we may not ask for, or that may be at the other node of a
-- slot on the move, where no command goes with several keys, is as good as what is left
-- of the lock.
local function lasts(prefix, reader, holds, left)
  local longest = -2
  for n = 1, math.min(tonumber(holds) or 0, most) do
    local timeout = prefix .. reader .. ':rwlock_timeout:' .. n
    local ms = redis.pcall('PTTL', timeout)
    if ms == -2 then
      local both = redis.pcall('EXISTS', KEYS[1], timeout)
      if type(both) == 'table' and string.find(both.err, 'non local key', 1, true) then
        ms = both
      end
    end
    longest = math.max(longest, type(ms) == 'table' and left or ms)
  end
  return longest
end
-- rwlock/release_read: bring the hold count of a reader down; free the lock when
-- nobody else is left who is alive. Asking twice is the same as asking once: the
-- hold count to reach is given. Nothing here is refused by a server at its memory
-- limit.
-- It asks for the timeouts of other read holds and deletes the holder's own, all
-- of whose keys it builds. A few are asked first; if none of them has as long a
-- lease as the lock, give or take a second, its loop is as long as all hold counts
-- together, and readers without a timeout, who are dead, are taken out.
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

-- How many readers are asked first, and how near, in ms, a lease must be.
local few, near = 2, 1000

local function publish(message)
  if verb == 'PUBLISH' or verb == 'BOTH' then
    redis.pcall('PUBLISH', channel, message)
  end
  if verb == 'SPUBLISH' or verb == 'BOTH' then
    redis.pcall('SPUBLISH', channel, message)
  end
end

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
    publish('0') -- as Redisson does: it may have been freed by its expiry
  end
  return {-1, 0, now}
end
local held = tonumber(fields[2] or 0) or 0
if held == 0 then
  return {-1, 0, now}
end
if held <= count then
  return {2, held, now}
end

-- Among many readers there is mostly one whose lease is as long as the lock's, so
-- that nothing changes for the lock: a few are asked before all are.
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

-- The lock goes on with the longest lease of those who are left.
local longest, dead = left, {}
if count == 0 then
  longest = math.max(longest, linger)
end
if count == 0 and mode == 'read' and not same then
  longest = -2
  if linger > 0 then
    longest = linger
  end
  fields = call('HGETALL', lock)
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field ~= 'mode' and field ~= holder then
      local alive = lasts(prefix, field, fields[i + 1], left)
      if alive < 0 then
        dead[#dead + 1] = field
      end
      longest = math.max(longest, alive)
    end
  end
end

local freed = count == 0 and mode == 'read' and longest < 0
if freed then
  call('DEL', lock)
else
  -- PEXPIRE is allowed at the memory limit, and once it has run the rest is too.
  if longest >= 0 and not same then
    call('PEXPIRE', lock, math.max(longest, 1))
  end
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
  -- Who waits has been told of a longer lease, and looks again: all of them, for
  -- nobody says so when the lock is free. '1' wakes all threads of Redisson that
  -- sleep, and '0' one that is about to.
  publish('1')
end
if freed or lingers then
  publish('0')
end
if count == 0 and now == 0 then
  return 1
end
return {1, count, now}
