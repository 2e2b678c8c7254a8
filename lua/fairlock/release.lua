-- fairlock/release: bring the hold count of a holder down; at 0 free the lock
-- and tell the one whose turn it is. Asking twice is the same as asking once: the
-- hold count to reach is given. Nothing here is refused by a server at its memory
-- limit. When the lock is free already, the one whose turn it is is told again, and
-- asks: it may have given up, without the right to say so. When it stays closed for a
-- while, all are told: see audience.
--
-- A waiter of another client of latchkey that is alive is given the lock, and its
-- client is told so: '+', the number of the holder, the lease in ms, the server ms,
-- and the SHA-1 of the lock, these numbers and the proof of that client, all with
-- spaces between: a message of somebody who cannot read the clients grants nothing.
-- Any other waiter is told '0', that the lock is free.
--
-- KEYS[1]   the lock: a hash of holder -> hold count
-- 2 to 4   queue, scores and clients: see fairlock/queue
-- KEYS[5]   the holder's label, when it has one (may be absent)
-- ARGV[1]   holder
-- ARGV[2]   hold count to reach
-- ARGV[3]   not after: server time, ms since the epoch; 0: whenever it comes,
--           for a holder that will never hold the lock again
-- ARGV[4]   the most by which ARGV[3] may lie ahead, ms
-- ARGV[5]   timeout: for how long a dead head may keep its place, ms
-- ARGV[6]   client id of the holder
-- ARGV[7]   Redis channel of waiters, without ':' and the holder or client id
-- ARGV[8]   how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[9]   ms for which a freed lock stays closed, 0 for not at all (may be absent)
-- ARGV[10]  the holder in whose name it stays closed, when ARGV[9] is above 0; else
--           the waiter who gets the lock if it is the next one (may be absent)
-- ARGV[11]  lease of that waiter, ms (absent when it is)
--
-- Returns 1                           freed
--         {1, 0, server ms, turn}     freed, and that waiter of this client may take it
--         {3, 0, server ms, turn}     given to that waiter, whom ARGV[10] names
--         {1, holds left, server ms}  brought down, but not freed for others
--         {2, holds left, server ms}  it was that low already; nothing was changed
--         {-1, 0, server ms, turn}    the holder does not hold the lock; turn may be ''
--         {-2, 0, server ms}          too late; nothing was changed
--         the server ms are 0 when they were not needed
local lock, holder, count, notafter = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ahead, timeout, client, prefix = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local verb, linger, heir = ARGV[8], tonumber(ARGV[9] or 0), ARGV[10]

-- A client of latchkey that has said lately that it is alive need not ask: the
-- lock is given to its waiter, for as long as the client is alive for sure.
local sure = 3000

local now = 0
local function clock()
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
if notafter > 0 then
  clock()
  if now > notafter or notafter - now > tonumber(ahead) then
    return {-2, 0, now}
  end
end

-- give gives the free lock to a waiter; false when the server does not let it: while
-- the slot is on the move, what has been deleted cannot be made again here.
local function give(to, lease)
  if type(try('HSET', KEYS[1], to, '1')) == 'table' then
    return false
  end
  -- A lock without a lease would be held for ever.
  if type(try('PEXPIRE', KEYS[1], lease)) == 'table' then
    try('DEL', KEYS[1])
    return false
  end
  return true
end

-- wake returns the head of places if it is ours: then the answer tells it. Any
-- other one it tells that the lock is free, or, if it may be given, that it has it.
-- The lock is free.
local function wake(places, gives)
  local head = places[1]
  if not head then
    return ''
  end
  if now == 0 then
    clock()
  end
  local whose, number = string.match(head, '^(.*):(%d+)$')
  local good, proof, swept = 0, '', 0
  if whose and whose ~= client then
    good, proof = life(whose, now)
  end
  if good < sure then
    head, whose, good, swept, proof = sweep(head, now, timeout, client)
  end
  if whose == client then
    return head
  end
  if swept > 0 then
    places = line()
    number = head and string.match(head, ':(%d+)$')
  end
  if gives and head and whose and good >= sure and give(head, good) then
    settle(places, false, now + math.min(good, timeout), timeout)
    local gift = number .. string.format(' %.0f %.0f ', good, now)
    tell(prefix, whose, '+' .. gift .. redis.sha1hex(lock .. ' ' .. gift .. proof), verb)
  elseif head then
    poke(prefix, head, whose, verb)
  end
  return ''
end

if count == 0 and linger == 0 then
  local freed = 1
  -- The last field of a hash takes the key with it.
  if call('HDEL', lock, holder) == 0 then
    if call('EXISTS', lock) == 1 then
      return {-1, 0, now, ''}
    end
    freed = -1
  elseif KEYS[5] then
    try('DEL', KEYS[5])
  end
  local places = line()
  if heir and places[1] == heir and freed == 1 then
    if now == 0 then
      clock()
    end
    if not give(heir, ARGV[11]) then
      return {1, 0, now, heir}
    end
    settle(places, false, now + math.min(tonumber(ARGV[11]), timeout), timeout)
    return {3, 0, now, heir}
  end
  local turn = wake(places, freed == 1)
  if turn == '' and freed == 1 then
    return 1
  end
  return {freed, 0, now, turn}
end

local held = tonumber(call('HGET', lock, holder) or 0)
if held == 0 then
  local turn = ''
  if call('EXISTS', lock) == 0 then
    turn = wake(line(), false)
  end
  return {-1, 0, now, turn}
end
if held <= count then
  return {2, held, now}
end
-- PEXPIRE is allowed at the memory limit, and once it has run HSET is too.
local left = linger
if count > 0 then
  left = call('PTTL', lock)
end
if left > 0 then
  call('PEXPIRE', lock, left)
end
if count > 0 then
  call('HSET', lock, holder, count)
else
  local all = audience()
  call('HSET', lock, ARGV[10], 1)
  call('HDEL', lock, holder)
  -- Who waits has been told of a longer lease, and looks again: all of them, for nobody
  -- says so when the lock is free, and the one whose turn is next may give up before.
  for _, whom in ipairs(all) do
    tell(prefix, whom, '0', verb)
  end
end
return {1, count, now}
