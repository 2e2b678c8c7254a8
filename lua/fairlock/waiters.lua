-- fairlock/waiters: read a piece of the queue. It is a script so that it runs on the
-- primary, wherever the caller's client sends its reads.
--
-- Cost: O(n) for n waiters of the piece, about 2 ms for 1,000.
--
-- KEYS[1]  queue: a list of holders
-- KEYS[2]  scores: a sorted set of holder -> ms since the epoch
-- ARGV[1]  place of the first, from 0 on
-- ARGV[2]  place of the last
--
-- Returns {holder, ms, holder, ms, ...}, the next one first. ms since the epoch
--         are those after which Redisson takes the waiter for dead; 0: no score
local queue, scores = KEYS[1], KEYS[2]

local out = {}
for i, holder in ipairs(redis.call('LRANGE', queue, ARGV[1], ARGV[2])) do
  out[2 * i - 1] = holder
  out[2 * i] = math.floor(tonumber(redis.call('ZSCORE', scores, holder) or 0))
end
return out
