-- label/ended: write the label of a holder that keeps a lock closed after its work.
-- Asking twice is the same as asking once, and asking late writes nothing.
--
-- KEYS[1]  the lock, a hash
-- KEYS[2]  the label, a text that expires with the lock at the latest
-- ARGV[1]  a field of KEYS[1] that is there for as long as the holder has the lock
-- ARGV[2]  ms for which the lock stays closed
-- ARGV[3]  the text
--
-- Returns 1  written, or left out by a server at its memory limit
--         0  the holder does not have the lock; nothing was changed
local lock, label = KEYS[1], KEYS[2]

if type(redis.pcall('HGET', lock, ARGV[1])) ~= 'string' then
  return 0
end
local left = math.min(redis.call('PTTL', lock), tonumber(ARGV[2]))
if left <= 0 then
  return 0
end
redis.pcall('SET', label, ARGV[3], 'PX', left)
return 1
