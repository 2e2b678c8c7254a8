-- fairlock/delete: remove the lock and its queue, whoever holds it and whoever
-- waits. The one who was next is told; the others queue again when they notice.
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
local head = call('LINDEX', queue, 0)
local client = head and string.match(head, '^(.*):%d+$')
client = client and call('HEXISTS', clients, client) == 1 and client
call('DEL', lock, queue, scores, clients)
if head then
  poke(prefix, head, client, verb)
end
return was and 1 or 0
