-- fairlock/leave: give up a place in the queue, and put the scores behind it
-- right, or the lock itself, if it was given to the holder meanwhile; tell the one
-- whose turn it is when the lock is free. Asking twice is the same as asking once.
-- Nothing here is refused by a server at its memory limit.
--
-- Cost: O(n) for n waiters: finding the place in the list is a scan inside Redis, from
-- the nearer end, of about 1 ms for 50,000; and O(m) for m dead heads, at most 1,000 a
-- run, about 5 ms.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- 2 to 4   queue, scores and clients: see fairlock/queue
-- ARGV[1]  holder
-- ARGV[2]  wait by which the score of the place was raised, ms
-- ARGV[3]  timeout: for how long a dead head may keep its place, ms
-- ARGV[4]  client id of the holder
-- ARGV[5]  not after: server time, ms since the epoch; 0: whenever it comes,
--          for a holder that will never stand in the queue again
-- ARGV[6]  the most by which ARGV[5] may lie ahead, ms
-- ARGV[7]  Redis channel of waiters, without ':' and the holder or client id
-- ARGV[8]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
--
-- Returns {1, server ms, turn}  the place is given up
--         {0, server ms, turn}  there was none
--         {-2, server ms, ''}   too late; nothing was changed
--         turn is the waiter of this client who may take the lock now, or ''
local lock, holder, wait, timeout = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local client, notafter, ahead, prefix, verb = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if notafter > 0 and (now > notafter or notafter - now > ahead) then
  return {-2, now, ''}
end

local left = call('PTTL', lock)
local n = call('LLEN', queue)
local rank = call('ZRANK', scores, holder)
local removed = 0
if not rank and left ~= -2 and call('HDEL', lock, holder) == 1 then
  -- Its turn had come, and it was given the lock.
  removed, left = 1, call('PTTL', lock)
end
if rank or n ~= call('ZCARD', scores) then
  local behind, side = {}, 0
  if rank then
    behind = call('ZRANGE', scores, rank + 1, rank + near)
    side = rank > n / 2 and -1 or 1
  end
  local second = left > 0 and left < soon and call('LRANGE', queue, 0, 1)
  local places = call('LREM', queue, side, holder)
  call('ZREM', scores, holder)
  if places > 0 then
    -- By their scores they come next; in the list they may be further behind, even the
    -- last ones, and a score that is right for a place further in front is one that
    -- Java's lowering runs out.
    local _, lower = seldom()
    lower(behind, n, wait, now + math.max(math.min(left, timeout), 0), timeout)
    removed = 1
  end
  if second and second[1] == holder then
    local _, _, _, _, alert = seldom()
    alert(second[2], client, prefix, verb)
  end
  if n <= 1 and call('EXISTS', queue) == 0 then
    call('DEL', scores, clients)
  end
end

local turn = ''
if left == -2 then
  local sweep = seldom()
  local head, whose = sweep(call('LINDEX', queue, 0), now, timeout, client)
  if whose == client then
    turn = head
  elseif head then
    tell(prefix, whose or head, '0', verb)
  end
end
return {removed, now, turn}
