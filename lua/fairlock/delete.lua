-- fairlock/delete: remove the lock and its queue, whoever holds it and whoever
-- waits. All who waited are told, a client of latchkey once, and queue again: nobody
-- else would tell them: see audience.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- 2 to 4   queue, scores and clients: see fairlock/queue
-- ARGV[1]  Redis channel of waiters, without ':' and the holder or client id
-- ARGV[2]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
--
-- Returns 1  something was there
--         0  nothing was
-- Keys of another type are left alone, with Redis's WRONGTYPE error.
local lock, prefix, verb = KEYS[1], ARGV[1], ARGV[2]

local was = call('HLEN', lock) + call('LLEN', queue) + call('ZCARD', scores) > 0
local _, _, audience = seldom()
local all = audience()
call('DEL', lock, queue, scores, clients)
for _, whom in ipairs(all) do
  tell(prefix, whom, '0', verb)
end
return was and 1 or 0
