-- fairlock/force: free the lock, whoever holds it, and tell the one whose turn it
-- is. The key of the holder's label is built here.
--
-- Cost: O(n) for n dead heads of the queue, at most 1,000 a run, about 5 ms.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- 2 to 4   queue, scores and clients: see fairlock/queue
-- ARGV[1]  timeout: for how long a dead head may keep its place, ms
-- ARGV[2]  Redis channel of waiters, without ':' and the holder or client id
-- ARGV[3]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[4]  what the labels' keys begin with, before the holder (may be absent)
--
-- Returns 1  the lock was held and is free now
--         0  it was free
-- A key that is no hash is left alone, with Redis's WRONGTYPE error.
local lock, timeout, prefix, verb = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]

local holders = call('HLEN', lock)
local held = holders > 0
if held then
  local holder = ARGV[4] and holders == 1 and call('HGETALL', lock)[1]
  call('DEL', lock)
  if holder then
    redis.pcall('DEL', ARGV[4] .. holder)
  end
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local sweep = seldom()
local head, whose = sweep(call('LINDEX', queue, 0), now, timeout, '')
if head then
  tell(prefix, whose or head, '0', verb)
end
return held and 1 or 0
