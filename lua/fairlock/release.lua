-- fairlock/release: bring the hold count of a holder down; at 0 free the lock
-- and tell the one whose turn it is. Asking twice is the same as asking once: the
-- hold count to reach is given. Nothing here is refused by a server at its memory
-- limit. When the lock is free already, the one whose turn it is is told again, and
-- asks: it may have given up, without the right to say so. When it stays closed for a
-- while, all are told: see audience.
--
-- A waiter of another client of latchkey that is alive is given the lock, unless it may
-- wait for one with another name and the same queue, and its
-- client is told so: '+', the number of the holder, the lease in ms, the server ms,
-- and the SHA-1 of the lock, these numbers and the proof of that client, all with
-- spaces between: a message of somebody who cannot read the clients grants nothing.
-- Any other waiter is told '0', that the lock is free.
--
-- Cost: O(n) for n dead heads of the queue, or n waiters and clients who are told that
-- the lock stays closed, at most 1,000 a run, about 5 ms.
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
    -- HDEL is allowed at the memory limit, and once it has run HSET is too.
    call('HDEL', lock, '')
    if count > 0 then
      call('HSET', lock, holder, count)
    else
      local _, _, audience = seldom()
      local all = audience()
      call('HSET', lock, heir, 1)
      call('HDEL', lock, holder)
      local done = try('PEXPIRE', lock, linger)
      if type(done) == 'table' then
        -- It would stay closed for the lease of the one who has gone.
        call('HSET', lock, holder, held)
        call('HDEL', lock, heir)
        return done
      end
      if KEYS[5] then
        try('DEL', KEYS[5])
      end
      -- The waiters have been told of a longer lease, and look again: all of them, for nobody
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
    if type(try('DEL', KEYS[1])) == 'table' then
      try('HDEL', KEYS[1], to)
    end
    return false
  end
  settle(places, false, now + math.min(lease + 0, timeout), timeout)
  if lease + 0 < soon then
    local _, _, _, _, alert = seldom()
    alert(places[2], string.match(to, '^(.*):'), prefix, verb)
  end
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
-- The queue of "{x}" is that of "x" as well. Whether who waits there waits for "x", the
-- proof tells.
local lease = frees and head and whose and good >= sure and proof ~= '' and not string.find(lock, '^{[^{]*}$') and good .. ''
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
