-- inspect/permits: read a piece of the permits that are out. It changes nothing.
--
-- Cost: O(log n) for n permits, and O(m) for m of the piece, about 1 ms for 500; and to
-- skip 100,000, about 1 ms.
--
-- KEYS[1]  permits that are out: a sorted set of id -> ms since the epoch
-- ARGV[1]  score with which the piece begins
-- ARGV[2]  how many permits of that score to skip
-- ARGV[3]  how many permits
--
-- Returns {permit, score, ...}, the lowest score first
--         A key that is no sorted set has none
local permits = KEYS[1]

if redis.call('TYPE', permits).ok ~= 'zset' then
  return {}
end
return redis.call('ZRANGE', permits, ARGV[1], '+inf', 'BYSCORE', 'LIMIT', ARGV[2], ARGV[3], 'WITHSCORES')
