-- rwlock/force: free the read half or the write half, whoever holds it. The
-- other half stays as it is.
-- It asks for timeouts of read holds, and deletes them and labels; it builds their keys.
-- Those of more than 500 readers it leaves to their ends: without a reader they count
-- for nothing.
--
-- Cost: O(n) for n holds of readers, of 500 readers at most, about 5 ms; of all, and
-- to free what they took, where the user may not HSCAN or UNLINK.
--
-- KEYS[1]  the lock: a hash of mode ('read' or 'write'), reader -> hold count
--          and writer -> hold count, expiring with the longest lease
-- ARGV[1]  which half: 'read' or 'write'
-- ARGV[2]  what the timeouts' keys begin with, before the reader
-- ARGV[3]  Redis channel of the lock
-- ARGV[4]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[5]  what the labels' keys begin with, before the holder (may be absent)
--
-- Returns 1  that half was held and is free now
--         0  it was free
-- A key of another kind is left alone, with the error WRONGTYPE.
local lock, half, prefix, channel, verb = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local mode = call('HGET', lock, 'mode')
local left = call('PTTL', lock)
if not mode then
  if left ~= -2 then
    return redis.error_reply('WRONGTYPE the key holds a lock of another kind')
  end
  return 0
end
if half == 'write' and mode ~= 'write' then
  return 0
end

local readers, writers, timeouts, longest = {}, {}, {}, -2
-- A writer has taken out all readers but itself.
local whole = half == 'write' or call('HLEN', lock) <= 500
local piece = not whole and redis.pcall('HSCAN', lock, '0', 'COUNT', 500)
local fields = piece and piece[2]
if not fields then -- wanted whole, or the piece is not to be had
  whole, fields = true, call('HGETALL', lock)
end
for i = 1, #fields, 2 do
  local field = fields[i]
  if string.sub(field, -6) == ':write' then
    writers[#writers + 1] = field
  elseif field ~= 'mode' then
    readers[#readers + 1] = field
    longest = math.max(longest, lasts(prefix, field, fields[i + 1], left))
    for n = 1, math.min(tonumber(fields[i + 1]) or 0, most) do
      timeouts[#timeouts + 1] = prefix .. field .. ':rwlock_timeout:' .. n
    end
  end
end

local message = '1'
if half == 'read' then
  if mode == 'write' then
    message = nil -- nobody gets in by this
    for _, field in ipairs(readers) do
      call('HDEL', lock, field)
    end
  else
    message = '0'
    if type(redis.pcall('UNLINK', lock)) == 'table' then -- not to be had
      call('DEL', lock)
    end
  end
  for _, key in ipairs(timeouts) do
    redis.pcall('DEL', key)
  end
elseif longest >= 0 then
  call('HDEL', lock, '') -- allowed at the memory limit, and once it has run HSET is too
  call('HSET', lock, 'mode', 'read')
  for _, field in ipairs(writers) do
    call('HDEL', lock, field)
  end
  redis.pcall('PEXPIRE', lock, math.max(longest, 1))
else
  call('DEL', lock)
end
if ARGV[5] then
  for _, field in ipairs(half == 'read' and readers or writers) do
    redis.pcall('DEL', ARGV[5] .. field)
  end
end
if message then
  publish(verb, channel, message)
end
if half == 'read' and longest < 0 and whole then
  return 0
end
return 1
