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
-- fairlock/acquire: take the lock if it is the holder's turn, or raise the hold
-- count of its present holder; else stand in the queue, at its end. Asking twice
-- with the same arguments is the same as asking once: the hold count to reach is
-- given, and nobody stands in the queue twice. A request that arrives late, or
-- from a clock too far off, changes nothing.
--
-- Its work does not grow with the queue, but for dead heads, and for the mending
-- of a queue from which somebody has removed a part.
--
-- KEYS[1]   the lock: a hash of holder -> hold count, expiring with the lease
-- 2 to 4    queue, scores and clients: see fairlock/queue
-- KEYS[5]   the holder's label, when ARGV[13] is not empty (may be absent)
-- ARGV[1]   holder
-- ARGV[2]   hold count the holder has if this succeeds
-- ARGV[3]   lease, ms
-- ARGV[4]   not after: server time, ms since the epoch
-- ARGV[5]   the most by which ARGV[4] may lie ahead, ms
-- ARGV[6]   wait by which the score of the place is raised, ms; 0: do not queue
-- ARGV[7]   timeout: for how long a dead head may keep its place, ms
-- ARGV[8]   client id of the holder
-- ARGV[9]   for how long that client is alive from now on, ms
-- ARGV[10]  Redis channel of waiters, without ':' and the holder or client id
-- ARGV[11]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[12]  for how long queue and scores are kept beyond the last score, ms
-- ARGV[13]  label, kept as long as the lease, and before that as the place, but
--           no longer than its score says (may be absent)
-- ARGV[14]  proof of the client: see fairlock/queue (may be absent)
-- ARGV[15]  when a lease ends, server ms, with which the holder was given the lock: it
--           is cut to ARGV[3], unless it is another one by now (may be absent)
--
-- Returns server ms                          granted, for that lease
--         {1, lease left ms, server ms}      granted: the holder has that hold count
--         {0, ms, server ms, ticket, turn}   refused
--         {-1, 0, server ms}                 the holder has lost what it would re-enter
--         {-2, 0, server ms}                 too late; nothing was changed
--         ms: what is left of the lease (-1: it has none), or for how long the one
--         whose turn it is has it; ticket: grows along the queue, 0 for one who had
--         a place already; turn: the waiter of this client who may take the lock
--         now, or ''
local lock, holder, count, lease, wait = KEYS[1], ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[6] + 0
local timeout, client, label = ARGV[7] + 0, ARGV[8], ARGV[13]

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local late = now - ARGV[4]
if late > 0 or -late > ARGV[5] + 0 then
  return {-2, 0, now}
end

local mine, free = false, false
local left = call('PTTL', lock)
if left == -2 then
  free = true
else
  mine = call('HGET', lock, holder)
end
if not mine and count ~= '1' then
  return {-1, 0, now}
end
if not mine and not free and wait == 0 then
  return {0, left, now, 0, ''}
end

local head = free and call('LINDEX', queue, 0)

-- Not to be had: another one holds it, or it is free and another one's turn.
local refused, good, turn = not mine and not free, left, ''
if head and head ~= holder then
  call('ZSCORE', scores, holder)
  call('HGET', clients, client)
  local whose, swept
  local sweep = seldom()
  head, whose, good, swept = sweep(head, now, timeout, client)
  refused = head and head ~= holder
  if refused and whose == client then
    turn = head
  elseif refused and (swept > 0 or not whose and wait > 0) then
    -- A Java waiter before 3.32 that looks a moment too early for the end of a
    -- dead holder's lease sleeps until it is told.
    tell(ARGV[10], whose or head, '0', ARGV[11])
  end
end

if refused then
  local ticket = 0
  if wait > 0 then
    -- queued puts the holder at the end of the queue, unless it has a place. It returns
    -- how many stood there before, the ticket, and whether list and scores agree; or
    -- what Redis has against it.
    local function queued()
      local n = call('ZCARD', scores)
      local ahead = left < timeout and left or timeout
      local score = now + (ahead > 0 and ahead or 0) + n * timeout + wait
      local added = try('ZADD', scores, 'NX', score, holder)
      if type(added) == 'table' then
        if not call('ZSCORE', scores, holder) then
          return added
        end
        added = 0 -- at the memory limit, where who waits goes on waiting
      end
      if added == 0 then
        return n, 0, call('LLEN', queue) == n
      end
      local places = try('RPUSH', queue, holder)
      if type(places) == 'table' then
        try('ZREM', scores, holder)
        return places
      end
      if label and label ~= '' then
        try('SET', KEYS[5], label, 'PX', score - now)
      end
      return n, time[1] * 1000000 + time[2], places == n + 1
    end

    local fresh = ARGV[9] + 0
    local known = string.match(call('HGET', clients, client) or '', '^%d+') or 0
    local n, same
    n, ticket, same = queued()
    if same == false then
      -- Somebody has removed a key, or part of one.
      if ticket > 0 then
        call('LREM', queue, -1, holder)
        call('ZREM', scores, holder)
      end
      -- The scores are made those of the list, which is what counts.
      local seen = {}
      for rank, member in ipairs(call('LRANGE', queue, 0, -1)) do
        if seen[member] then
          call('LREM', queue, -1, member)
        elseif not call('ZSCORE', scores, member) then
          call('ZADD', scores, now + rank * timeout, member)
        end
        seen[member] = true
      end
      for _, member in ipairs(call('ZRANGE', scores, 0, -1)) do
        if not seen[member] then
          call('ZREM', scores, member)
        end
      end
      n, ticket = queued()
    end
    if type(n) == 'table' then
      return n
    end
    if n == 0 or known - now < fresh * 2 / 3 then
      -- PEXPIRE is allowed at the memory limit, and once it has run HSET is too.
      local keep, last = ARGV[12] + 0, (n + 3) * timeout
      call('PEXPIRE', queue, last + keep)
      call('PEXPIRE', scores, last + keep)
      call('HSET', clients, client, string.format('%.0f ', now + fresh) .. (ARGV[14] or ''))
      call('PEXPIRE', clients, last + fresh)
    end
  end
  return {0, good, now, ticket, turn}
end

call('HSET', lock, holder, count)
local ends = count == '1' and left > lease and tonumber(ARGV[15])
if left < lease or ends and math.abs(now + left - ends) < 10 then
  -- A lock without a lease would be held for ever, so a server that lets us
  -- write but not expire gets its key back.
  local done = try('PEXPIRE', lock, ARGV[3])
  if type(done) == 'table' then
    if not mine then
      try('DEL', lock)
    end
    return done
  end
  left = lease
end
if not mine and head then
  settle(call('LRANGE', queue, '0', '2'), wait, now + math.min(lease, timeout), timeout)
elseif not mine and wait > 0 then
  call('DEL', scores, clients)
end
if label and label ~= '' then
  try('SET', KEYS[5], label, 'PX', left)
end
if not mine then
  return now
end
return {1, left, now}
