-- rlock/acquire: take the lock, or raise the hold count of its present holder.
-- Asking twice with the same arguments is the same as asking once: the hold
-- count to reach is given, and a fencing token is taken only when it changes (or
-- when there is no counter of them).
-- A request that arrives late, or from a clock too far off, changes nothing.
--
-- Cost: O(n log m) for n entries to take out of a list of m, at most 32, about 0.1 ms.
--
-- KEYS[1]   the lock: a hash of holder -> hold count, expiring with the lease
-- KEYS[2]   the fencing token counter, when ARGV[6] is '1'; it never expires
-- KEYS[n]   the next one is the list of those who are given the lock, when there
--           is an ARGV[8]: see rlock/release
-- KEYS[n]   the last one is the holder's label, when ARGV[7] is not empty
-- ARGV[1]   holder
-- ARGV[2]   hold count the holder has if this succeeds
-- ARGV[3]   lease, ms
-- ARGV[4]   not after: server time, ms since the epoch
-- ARGV[5]   the most by which ARGV[4] may lie ahead, ms
-- ARGV[6]   '1' when every new hold takes a fencing token (may be absent)
-- ARGV[7]   label, kept as long as the lease (may be absent)
-- ARGV[8]   entry for that list if another holder has the lock, or '' (may be
--           absent)
-- ARGV[9]   ms for which the list is kept (absent when ARGV[8] is)
-- ARGV[10...] entries to take out of it, when the lock is granted or ARGV[8] comes in
--           (may be absent)
--
-- Returns server ms                            granted, for that lease, without a token
--         {1, lease left ms, server ms, token}  granted: the holder has that hold count
--         {0, lease left ms, server ms, 0}      another holder has it; -1: no lease
--         {-1, 0, server ms, 0}                 the holder has lost what it would re-enter
--         {-2, 0, server ms, 0}                 too late; nothing was changed
local lock, holder = KEYS[1], ARGV[1]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local late = now - ARGV[4]
if late > 0 or -late > ARGV[5] + 0 then
  return {-2, 0, now, 0}
end
local count, lease, fenced, label = ARGV[2], ARGV[3] + 0, ARGV[6] == '1', ARGV[7]
local entry = ARGV[8]
local list = entry and KEYS[fenced and 3 or 2]

local mine = false
local left = call('PTTL', lock)
if left ~= -2 then
  mine = call('HGET', lock, holder)
end
if not mine then
  if count ~= '1' then
    return {-1, 0, now, 0}
  end
  if left ~= -2 then
    if list and entry ~= '' then
      -- A waiter that asks again keeps its place, for a while.
      local at = time[1] * 1000000 + time[2]
      local since = redis.pcall('ZSCORE', list, entry)
      if type(since) == 'table' or not since or at - since > 5000000 then
        -- As text, if that is there already: to write a number takes longer than some
        -- commands do.
        redis.pcall('ZADD', list, #time[2] == 6 and time[1] .. time[2] or at, entry)
      end
      if type(redis.pcall('PEXPIRE', list, ARGV[9])) == 'table' then
        redis.pcall('DEL', list)
      end
      if ARGV[10] then
        redis.pcall('ZREM', list, unpack(ARGV, 10))
      end
    end
    return {0, left, now, 0}
  end
end

local token = 0
if fenced then
  token = tonumber(call('GET', KEYS[2]) or 0)
  if not token then
    return redis.error_reply('WRONGTYPE the fencing token counter is not a number')
  end
  if mine ~= count or token == 0 then
    token = math.max(token + 1, time[1] * 1000000 + time[2])
    call('SET', KEYS[2], string.format('%.0f', token))
  end
end

if list then
  redis.pcall('ZREM', list, entry, unpack(ARGV, 10))
end
call('HSET', lock, holder, count)
if left < lease then
  -- A lock without a lease would be held for ever, so a server that lets us
  -- write but not expire gets its key back.
  local done = redis.pcall('PEXPIRE', lock, ARGV[3])
  if type(done) == 'table' then
    if not mine and type(redis.pcall('DEL', lock)) == 'table' then
      redis.pcall('HDEL', lock, holder)
    end
    return done
  end
  left = lease
end
if label and label ~= '' then
  redis.pcall('SET', KEYS[#KEYS], label, 'PX', left)
end
if not mine and not fenced then
  return now
end
return {1, left, now, token}
