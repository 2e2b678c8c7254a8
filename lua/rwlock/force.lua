-- rwlock/force: free the read half or the write half, whoever holds it. The
-- other half stays as it is.
-- It asks for or deletes the timeouts of all read holds, whose keys it builds:
-- its loop is as long as all hold counts together.
--
-- KEYS[1]  the lock: a hash of mode ('read' or 'write'), reader -> hold count
--          and writer -> hold count, expiring with the longest lease
-- ARGV[1]  which half: 'read' or 'write'
-- ARGV[2]  what the timeouts' keys begin with, before the reader
-- ARGV[3]  Redis channel of the lock
-- ARGV[4]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
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
local fields = call('HGETALL', lock)
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
    call('DEL', lock)
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
if message and (verb == 'PUBLISH' or verb == 'BOTH') then
  redis.pcall('PUBLISH', channel, message)
end
if message and (verb == 'SPUBLISH' or verb == 'BOTH') then
  redis.pcall('SPUBLISH', channel, message)
end
if half == 'read' and longest < 0 then
  return 0
end
return 1
