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
-- rwlock/acquire_write: take the write lock, or raise the hold count of its
-- present holder. Asking twice with the same arguments is the same as asking
-- once: the hold count to reach is given. A request that arrives late, or from a
-- clock too far off, changes nothing.
-- It asks for the timeouts of all read holds, whose keys it builds: its loop is
-- as long as all hold counts together. Readers without one are dead.
--
-- KEYS[1]  the lock: a hash of mode ('read' or 'write'), reader -> hold count
--          and writer -> hold count, expiring with the longest lease
-- KEYS[2]  the sign of a waiting writer: from and until when to stand back, server
--          ms
-- KEYS[3]  the holder's label (may be absent)
-- ARGV[1]  holder, as a writer
-- ARGV[2]  hold count the holder has if this succeeds
-- ARGV[3]  lease, ms
-- ARGV[4]  not after: server time, ms since the epoch
-- ARGV[5]  the most by which ARGV[4] may lie ahead, ms
-- ARGV[6]  what the timeouts' keys begin with, before the reader
-- ARGV[7]  until how many ms from now fresh readers are to stand back if this is
--          refused because of readers, 0 for not at all; then come as many in
--          which they need not. It begins 100 ms from now, so that those come in
--          first whom the release of a writer has woken.
-- ARGV[8]  label, kept as long as the lease (may be absent)
--
-- Returns {1, lease left ms, server ms}  granted: the holder has that hold count
--         {0, ms, server ms}             others have the lock; ask again after ms,
--                                        -1: no lease
--         {-1, 0, server ms}             the holder has lost what it would re-enter
--         {-2, 0, server ms}             too late; nothing was changed
local lock, sign, holder, count = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local lease, notafter, ahead = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local prefix, back, label = ARGV[6], tonumber(ARGV[7]), ARGV[8]

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > notafter or notafter - now > ahead then
  return {-2, 0, now}
end

local mode = call('HGET', lock, 'mode')
local left = call('PTTL', lock)
if not mode and left ~= -2 then
  return redis.error_reply('WRONGTYPE the key holds a lock of another kind')
end
local mine = mode == 'write' and call('HEXISTS', lock, holder) == 1
if count > 1 and not mine then
  return {-1, 0, now}
end
if mode == 'write' and not mine then
  return {0, left, now}
end

if mode == 'read' then
  local longest = -2
  local fields = call('HGETALL', lock)
  for i = 1, #fields, 2 do
    longest = math.max(longest, lasts(prefix, fields[i], fields[i + 1], left))
  end
  if longest >= 0 then
    local signed = call('PTTL', sign)
    if signed < 0 and back > 0 then
      local from = now + math.floor(math.min(100, back / 4))
      signed = 2 * back
      redis.pcall('SET', sign, from .. ' ' .. now + back, 'PX', signed)
    end
    if signed >= 0 then
      longest = math.min(longest, signed)
    end
    return {0, longest, now}
  end
  call('DEL', lock)
  left = -2
end

if mine then
  call('HSET', lock, holder, count)
else
  call('HSET', lock, 'mode', 'write', holder, count)
end
if left < lease then
  -- A lock without a lease would be held for ever, so a server that lets us
  -- write but not expire gets its key back.
  local done = redis.pcall('PEXPIRE', lock, lease)
  if type(done) == 'table' then
    if not mine then
      redis.pcall('DEL', lock)
    end
    return done
  end
  left = lease
end
if not mine then
  redis.pcall('DEL', sign)
end
if label and label ~= '' then
  redis.pcall('SET', KEYS[3], label, 'PX', left)
end
return {1, left, now}
