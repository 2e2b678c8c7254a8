-- rwlock/state: read one half of the lock. It is a script so that it runs on the
-- primary, wherever the caller's client sends its reads.
-- For the read half it asks for the timeouts of all read holds, whose keys it
-- builds: its loop is as long as all hold counts together. Readers without one
-- are dead, and do not count.
--
-- KEYS[1]  the lock: a hash of mode ('read' or 'write'), reader -> hold count
--          and writer -> hold count, expiring with the longest lease
-- ARGV[1]  which half: 'read' or 'write'
-- ARGV[2]  what the timeouts' keys begin with, before the reader
-- ARGV[3]  holder to look for, as it stands in the hash; may be empty
--
-- Returns {hold count of all holders, hold count of the holder, lease left ms}
--         the lease is -2 when that half is free, -1 when the key has no expiry
-- A key of another kind is the error WRONGTYPE.
local lock, half, prefix, holder = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local mode = call('HGET', lock, 'mode')
local left = call('PTTL', lock)
if not mode and left ~= -2 then
  return redis.error_reply('WRONGTYPE the key holds a lock of another kind')
end

local all, mine, longest = 0, 0, -2
if half == 'write' and mode == 'write' then
  longest = left
end
local fields = call('HGETALL', lock)
for i = 1, #fields, 2 do
  local field, holds = fields[i], tonumber(fields[i + 1]) or 0
  local writes = string.sub(field, -6) == ':write'
  local alive = -2
  if writes and half == 'write' then
    alive = 0
  elseif not writes and half == 'read' then
    alive = lasts(prefix, field, holds, left)
  end
  if alive >= 0 then
    if half == 'read' then
      longest = math.max(longest, alive)
    end
    all = all + holds
    if field == holder then
      mine = holds
    end
  end
end
return {all, mine, longest}
