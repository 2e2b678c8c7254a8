-- fairlock/delete: remove the lock and its queue, whoever holds it and whoever
-- waits. All who waited are told, a client of latchkey once, and queue again: nobody
-- else would tell them: see audience. Redis frees what the queue took in the background.
-- The key of the holder's label is built here.
--
-- Cost: O(n) for n waiters and clients of audience, at most 1,000, about 5 ms; and for
-- all waiters where the user may not UNLINK.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- 2 to 4   queue, scores and clients: see fairlock/queue
-- ARGV[1]  Redis channel of waiters, without ':' and the holder or client id
-- ARGV[2]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[3]  what the labels' keys begin with, before the holder (may be absent)
--
-- Returns 1  something was there
--         0  nothing was
-- Keys of another type are left alone, with Redis's WRONGTYPE error.
local lock, prefix, verb = KEYS[1], ARGV[1], ARGV[2]

local holders = call('HLEN', lock)
local holder = ARGV[3] and holders == 1 and call('HGETALL', lock)[1]
local was = holders + call('LLEN', queue) + call('ZCARD', scores) > 0
local _, _, audience = seldom()
local all = audience()
if type(try('UNLINK', lock, queue, scores, clients)) == 'table' then -- not to be had
  call('DEL', lock, queue, scores, clients)
end
if holder then
  try('DEL', ARGV[3] .. holder)
end
for _, whom in ipairs(all) do
  tell(prefix, whom, '0', verb)
end
return was and 1 or 0
