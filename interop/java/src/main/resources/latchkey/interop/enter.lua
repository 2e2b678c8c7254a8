-- The begin of a critical section, in the mixed stress of Java and Go.
--
-- KEYS[1]  hash: inside, violations, and the sections of each side
-- KEYS[2]  string: who is inside alone
-- ARGV     who; its weight; how much may be inside at a time; side
-- Returns  what is inside now.
local weight, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local inside = redis.call('HINCRBY', KEYS[1], 'inside', weight)
local overlap = inside > limit
if weight == limit and not redis.call('SET', KEYS[2], ARGV[1], 'NX') then
	overlap = true
end
if overlap then
	redis.call('HINCRBY', KEYS[1], 'violations', 1)
end
redis.call('HINCRBY', KEYS[1], ARGV[4], 1)
return tostring(inside)
