-- inspect/fields: read a piece of a hash. It changes nothing.
--
-- Cost: O(n) for n fields of the piece, about 1 ms for 500; for all there are where the
-- user may not HSCAN.
--
-- KEYS[1]  the hash
-- ARGV[1]  where the piece begins: '0', and then what the last run has said
-- ARGV[2]  about how many fields
--
-- Returns {where the next piece begins, {field, value, ...}}
--         the first is '0' behind the last piece; a field may come in two pieces.
--         A key that is no hash has none
local hash = KEYS[1]

if redis.call('TYPE', hash).ok ~= 'hash' then
  return {'0', {}}
end
local piece = redis.pcall('HSCAN', hash, ARGV[1], 'COUNT', ARGV[2])
if piece.err then -- not to be had
  return {'0', redis.call('HGETALL', hash)}
end
return piece
