-- fairlock/queue: what the scripts of the fair lock have in common. It is put
-- before each of them and does nothing by itself.
--
-- Waiters stand in a list, the next one first. A place has a score, the time
-- after which Redisson takes the waiter for dead. Redisson makes it from the one
-- before it, and lowers all scores with each acquisition, so that a score is
-- about (rank + 1) * timeout ahead. These scripts make it from the rank, and
-- touch no more than the first few scores in one run.
--
-- A waiter of latchkey is alive for as long as its client says so in a hash of
-- ours, whatever its score; any other waiter until its score is over. The former
-- are told on a Redis channel of their client, the latter on one of their own.
--
-- KEYS[2]  queue: a list of holders
-- KEYS[3]  scores: a sorted set of holder -> ms since the epoch
-- KEYS[4]  clients: a hash of client id -> alive until, ms since the epoch, and
--          behind a space the proof: what a message to that client has to know
--
-- Returns nothing; the script that follows does.
local queue, scores, clients = KEYS[2], KEYS[3], KEYS[4]
local call, try = redis.call, redis.pcall

-- How many scores behind a place are put right when it goes. The line of settle is
-- the head and as many behind it.
local near = 2

-- tell publishes to a waiter, or to its client: '0', that it is its turn, or more.
local function tell(prefix, whom, message, verb)
  local channel = prefix .. ':' .. whom
  if verb == 'PUBLISH' or verb == 'BOTH' then
    try('PUBLISH', channel, message)
  end
  if verb == 'SPUBLISH' or verb == 'BOTH' then
    try('SPUBLISH', channel, message)
  end
end

-- seldom returns what most runs do without: sweep, lower and audience, as below. To make
-- a function takes about as long as a small command, in each run that comes across it.
local function seldom()
  -- How many dead heads one run removes at most.
  local most = 1000

  -- sweep removes dead heads, beginning with head, and puts the score of the first
  -- that lives right; asking is a client that is alive for sure. It returns the head
  -- or false, its client if that is one of latchkey, for how many ms it is good at
  -- least, how many were removed, and the proof of that client.
  local function sweep(head, now, timeout, asking)
    local swept = 0
    while head do
      local score = tonumber(call('ZSCORE', scores, head) or 0)
      local client = string.match(head, '^(.*):%d+$')
      local alive, proof = 0, '' -- until when; 0 for one that is not of latchkey
      if client and client == asking then
        alive = now + timeout
      elseif client then
        local till
        till, proof = string.match(call('HGET', clients, client) or '', '^(%d+) ?(.*)$')
        alive = tonumber(till or 0)
      end
      if alive > now then
        if score < now + timeout / 2 then
          try('ZADD', scores, now + timeout, head)
        end
        return head, client, alive - now, swept, proof
      end
      if alive == 0 and score == 0 then
        -- Redisson would wait for ever for a head that has no score.
        try('ZADD', scores, now + timeout, head)
        return head, false, timeout, swept
      end
      if alive == 0 and score > now then
        if score > now + 2 * timeout then
          score = now + timeout
          try('ZADD', scores, score, head)
        end
        return head, false, score - now, swept
      end
      if swept == most then
        return head, false, 1, swept
      end
      swept = swept + 1
      call('LPOP', queue)
      call('ZREM', scores, head)
      head = call('LINDEX', queue, 0)
    end
    return false, false, 0, swept
  end

  -- lower takes wait off the scores of holders, which have moved up to the ranks
  -- from first on, as Redisson does, and down to what is right for their rank.
  local function lower(holders, first, wait, latest, timeout)
    for i, holder in ipairs(holders) do
      local score = tonumber(call('ZINCRBY', scores, -wait, holder))
      local most = latest + (first + i) * timeout
      if score > most or score < 0 then -- below 0: it had none
        call('ZADD', scores, most, holder)
      end
    end
  end

  -- audience returns whom to tell when all who wait are to look again: a client of
  -- latchkey once. Its loop is as long as the queue.
  local function audience()
    local whom, known, listed = {}, {}, {}
    for _, place in ipairs(call('LRANGE', queue, 0, -1)) do
      local client = string.match(place, '^(.*):%d+$')
      if client and known[client] == nil then
        known[client] = call('HEXISTS', clients, client) == 1
      end
      local one = client and known[client] and client or place
      if not listed[one] then
        listed[one] = true
        whom[#whom + 1] = one
      end
    end
    return whom
  end

  return sweep, lower, audience
end

-- settle takes the head, which has got the lock, out of the queue. line is the
-- head and the next ones: LRANGE 0 2. Their scores are put right: lower by wait, the one for
-- which the head had queued; without it no higher than what is right for their
-- rank, with one command, for a lock that goes from hand to hand.
local function settle(line, wait, latest, timeout)
  call('LPOP', queue)
  call('ZREM', scores, line[1])
  local second, third = line[2], line[3]
  if not second then
    call('DEL', scores, clients)
  elseif wait then
    local _, lower = seldom()
    lower({second, third}, 0, wait, latest, timeout)
  elseif third then
    try('ZADD', scores, 'LT', latest + timeout, second, latest + 2 * timeout, third)
  else
    try('ZADD', scores, 'LT', latest + timeout, second)
  end
end
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
local lock, holder, prefix, verb, linger, heir = KEYS[1], ARGV[1], ARGV[7], ARGV[8], ARGV[9] or '0', ARGV[10]

-- A client of latchkey that has said lately that it is alive need not ask: the
-- lock is given to its waiter, for as long as the client is alive for sure.
local sure = 3000

local now, time = 0, nil
if ARGV[3] ~= '0' then
  time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  local late = now - ARGV[3]
  if late > 0 or -late > ARGV[4] + 0 then
    return {-2, 0, now}
  end
end

-- Whether this run frees the lock; if not it was free already.
local frees = true
if ARGV[2] == '0' and linger == '0' then
  -- The last field of a hash takes the key with it.
  if call('HDEL', lock, holder) == 0 then
    frees = false
  elseif KEYS[5] then
    try('DEL', KEYS[5])
  end
else
  local count = tonumber(ARGV[2])
  local held = tonumber(call('HGET', lock, holder) or 0)
  if held > 0 and held <= count then
    return {2, held, now}
  end
  if held > 0 then
    -- PEXPIRE is allowed at the memory limit, and once it has run HSET is too.
    local left = linger + 0
    if count > 0 then
      left = call('PTTL', lock)
    end
    if left > 0 then
      call('PEXPIRE', lock, left)
    end
    if count > 0 then
      call('HSET', lock, holder, count)
    else
      local _, _, audience = seldom()
      local all = audience()
      call('HSET', lock, heir, 1)
      call('HDEL', lock, holder)
      -- Who waits has been told of a longer lease, and looks again: all of them, for nobody
      -- says so when the lock is free, and the one whose turn is next may give up before.
      for _, whom in ipairs(all) do
        tell(prefix, whom, '0', verb)
      end
    end
    return {1, count, now}
  end
  frees = false
end
if not frees and call('EXISTS', lock) == 1 then
  return {-1, 0, now, ''}
end

-- The lock is free.
local freed = frees and 1 or -1
local places = call('LRANGE', queue, '0', '2')
local head = places[1]
if not head then
  return frees and 1 or {-1, 0, now, ''}
end
if not time then
  time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local timeout = ARGV[5] + 0

-- give gives the free lock to a waiter, and takes him out of the queue; false when the
-- server does not let it: while the slot is on the move, what has been deleted cannot
-- be made again here. The lease is text.
local function give(to, lease)
  if type(try('HSET', KEYS[1], to, '1')) == 'table' then
    return false
  end
  -- A lock without a lease would be held for ever.
  if type(try('PEXPIRE', KEYS[1], lease)) == 'table' then
    try('DEL', KEYS[1])
    return false
  end
  settle(places, false, now + math.min(lease + 0, timeout), timeout)
  return true
end

if frees and head == heir then
  return {give(heir, ARGV[11]) and 3 or 1, 0, now, heir}
end

-- The head is told in the answer if it is of this client. Any other one is told that the
-- lock is free, or, if it may be given, that it has it.
local client = ARGV[6]
local whose, number = string.match(head, '^(.*):(%d+)$')
local good, proof = 0, ''
if whose and whose ~= client then
  -- For how many ms it is alive for sure; 0 for one that is not known.
  local till
  till, proof = string.match(call('HGET', clients, whose) or '', '^(%d+) ?(.*)$')
  good = (till or now) - now
end
if good < sure then
  local swept
  local sweep = seldom()
  head, whose, good, swept, proof = sweep(head, now, timeout, client)
  if swept > 0 then
    places = call('LRANGE', queue, '0', '2')
    number = head and string.match(head, ':(%d+)$')
  end
end
if whose == client then
  return {freed, 0, now, head}
end
local lease = frees and head and whose and good >= sure and good .. ''
if lease and give(head, lease) then
  -- The server ms as text, if that is there already: to write a number takes longer
  -- than some commands do.
  local ms = #time[2] == 6 and time[1] .. string.sub(time[2], 1, 3) or now
  local gift = number .. ' ' .. lease .. ' ' .. ms .. ' '
  tell(prefix, whose, '+' .. gift .. redis.sha1hex(lock .. ' ' .. gift .. proof), verb)
elseif head then
  tell(prefix, whose or head, '0', verb)
end
return frees and 1 or {-1, 0, now, ''}
