-- rwlock/state: read one half of the lock. It is a script so that it runs on the
-- primary, wherever the caller's client sends its reads.
-- For the read half it asks for the timeouts of read holds, whose keys it builds.
-- Readers without one are dead, and do not count.
--
-- Cost: O(n) for n readers of the piece, about 1 ms for 500; for all where the user
-- may not HSCAN.
--
-- KEYS[1]  the lock: a hash of mode ('read' or 'write'), reader -> hold count
--          and writer -> hold count, expiring with the longest lease
-- ARGV[1]  which half: 'read' or 'write'
-- ARGV[2]  what the timeouts' keys begin with, before the reader
-- ARGV[3]  the one holder to look at, as it stands in the hash, or '' for all
-- ARGV[4]  where the piece begins: 0, and then what the last run has said
--
-- Returns {hold count, lease left ms, where the next piece begins}
--         the lease is -2 when that half is free, as far as this piece goes, and -1
--         when the key has no expiry; the last is 0 behind the last piece
-- A key of another kind is the error WRONGTYPE.
local lock, half, prefix, holder = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local mode = call('HGET', lock, 'mode')
local left = call('PTTL', lock)
if not mode and left ~= -2 then
  return redis.error_reply('WRONGTYPE the key holds a lock of another kind')
end

local all, longest = 0, -2
if half == 'write' and mode == 'write' then
  longest = left
end
local next, fields = 0, {}
if holder ~= '' then
  local count = call('HGET', lock, holder)
  fields = count and {holder, count} or fields
else
  local piece = redis.pcall('HSCAN', lock, ARGV[4], 'COUNT', 500)
  if piece.err then -- not to be had
    fields = call('HGETALL', lock)
  else
    next, fields = tonumber(piece[1]), piece[2]
  end
end
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
  end
end
return {all, longest, next}
