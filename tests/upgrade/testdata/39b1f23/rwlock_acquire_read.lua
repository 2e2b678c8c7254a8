-- rwlock/acquire_read: take the read lock, or raise the hold count of a reader.
-- Asking twice with the same arguments is the same as asking once: the hold
-- count to reach is given. A request that arrives late, or from a clock too far
-- off, changes nothing. Its loops are as long as the hold count.
--
-- KEYS[1]    the lock: a hash of mode ('read' or 'write'), reader -> hold count
--            and writer -> hold count, expiring with the longest lease
-- KEYS[2]    the sign of a waiting writer: from and until when to stand back,
--            server ms
-- KEYS[2+i]  the timeout of the holder's i-th hold, for each up to ARGV[3]; it
--            expires with the lease, and the hold with it
-- KEYS[n]    the last key is the holder's label, when ARGV[7] is not empty
-- ARGV[1]    holder
-- ARGV[2]    the same holder as a writer
-- ARGV[3]    hold count the holder has if this succeeds
-- ARGV[4]    lease, ms
-- ARGV[5]    not after: server time, ms since the epoch
-- ARGV[6]    the most by which ARGV[5] may lie ahead, ms
-- ARGV[7]    label, kept as long as the lease (may be absent)
--
-- Returns server ms                 granted: the holder has that hold count, for that lease
--         {1, lease ms, server ms}  the same, for a longer one
--         {0, ms, server ms}        refused: a writer has the lock, for ms more
--                                   (-1: no lease), or may come first until then
--         {-1, 0, server ms}        the holder has lost what it would re-enter
--         {-2, 0, server ms}        too late; nothing was changed
local lock, sign, holder, writer = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local count, lease, notafter = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local ahead, label = tonumber(ARGV[6]), ARGV[7]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > notafter or notafter - now > ahead then
  return {-2, 0, now}
end

local fields = call('HMGET', lock, 'mode', holder)
local mode, has = fields[1], fields[2]
local left = call('PTTL', lock)
if not mode and left ~= -2 then
  return redis.error_reply('WRONGTYPE the key holds a lock of another kind')
end
local closed = mode == 'write' and call('HEXISTS', lock, writer) == 0
local own = -2 -- the longest lease of the holder's read holds, below 0 without one
if mode and has then
  for i = 1, count do
    own = math.max(own, call('PTTL', KEYS[2 + i]))
  end
end
if count > 1 and (closed or own < 0) then
  return {-1, 0, now}
end
if closed then
  return {0, left, now}
end
if own < 0 and mode ~= 'write' then
  local stand = call('GET', sign)
  local from, till
  if stand then
    from, till = string.match(stand, '^(%d+) (%d+)$')
  end
  if from and tonumber(from) <= now and now < tonumber(till) then
    return {0, till - now, now}
  end
end

-- With several holds of one holder the longer lease wins.
lease = math.max(lease, own)
for i = 1, count do
  call('SET', KEYS[2 + i], '1', 'PX', lease)
end
if mode then
  call('HSET', lock, holder, count)
else
  call('HSET', lock, 'mode', 'read', holder, count)
end
if left < lease then
  -- A lock without a lease would be held for ever, so a server that lets us
  -- write but not expire gets its key back.
  local done = redis.pcall('PEXPIRE', lock, lease)
  if type(done) == 'table' then
    if not mode then
      redis.pcall('DEL', lock)
    elseif own < 0 then
      redis.pcall('HDEL', lock, holder)
    end
    return done
  end
end
if label and label ~= '' then
  redis.pcall('SET', KEYS[#KEYS], label, 'PX', lease)
end
if lease == tonumber(ARGV[4]) then
  return now
end
return {1, lease, now}
