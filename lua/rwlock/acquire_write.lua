-- rwlock/acquire_write: take the write lock, or raise the hold count of its
-- present holder. Asking twice with the same arguments is the same as asking
-- once: the hold count to reach is given. A request that arrives late, or from a
-- clock too far off, changes nothing.
-- It asks for the timeouts of read holds, whose keys it builds; readers without one are
-- dead. Where there are more than 32, it looks at some, and if all of those are dead at
-- 500 more, and takes the dead out.
--
-- Cost: O(n) for n readers that are dead, at most 500 a run, about 5 ms; and for all
-- there are where the user may not HRANDFIELD.
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
--         {3, 0, server ms}              dead readers were taken out, and there are
--                                        more to look at: ask again at once
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
  local longest, _, whole = look(prefix, left, {}, 0)
  if longest < 0 and not whole then
    local fields = redis.pcall('HRANDFIELD', lock, 500, 'WITHVALUES')
    if fields.err then -- not to be had
      fields = call('HGETALL', lock)
      whole = true
    end
    whole = whole or #fields < 1000
    local dead = {}
    for i = 1, #fields, 2 do
      local alive = lasts(prefix, fields[i], fields[i + 1], left)
      if alive < 0 and fields[i] ~= 'mode' then
        dead[#dead + 1] = fields[i]
      end
      longest = math.max(longest, alive)
    end
    for i = 1, #dead, 500 do
      call('HDEL', lock, unpack(dead, i, math.min(i + 499, #dead)))
    end
    if longest < 0 and not whole then
      return {3, 0, now}
    end
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
    if not mine and type(redis.pcall('DEL', lock)) == 'table' then
      redis.pcall('HDEL', lock, 'mode', holder)
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
