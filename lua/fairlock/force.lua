-- fairlock/force: free the lock, whoever holds it, and tell the one whose turn it
-- is.
--
-- Cost: O(n) for n dead heads of the queue, at most 1,000 a run, about 5 ms.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- 2 to 4   queue, scores and clients: see fairlock/queue
-- ARGV[1]  timeout: for how long a dead head may keep its place, ms
-- ARGV[2]  Redis channel of waiters, without ':' and the holder or client id
-- ARGV[3]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
--
-- Returns 1  the lock was held and is free now
--         0  it was free
-- A key that is no hash is left alone, with Redis's WRONGTYPE error.
local lock, timeout, prefix, verb = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]

local held = call('HLEN', lock) > 0
if held then
  call('DEL', lock)
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local sweep = seldom()
local head, whose = sweep(call('LINDEX', queue, 0), now, timeout, '')
if head then
  tell(prefix, whose or head, '0', verb)
end
return held and 1 or 0
