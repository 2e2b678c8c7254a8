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
-- Cost: O(n) for n dead heads of the queue in sweep, at most 1,000 a run, about 5 ms;
-- O(n) for n waiters and clients in audience, at most 1,000, about 5 ms.
--
-- KEYS[2]  queue: a list of holders
-- KEYS[3]  scores: a sorted set of holder -> ms since the epoch
-- KEYS[4]  clients: a hash of client id -> alive until, ms since the epoch, and
--          behind a space the proof: what a message to that client has to know; none
--          for a client that has waited for a lock with another name and the same queue,
--          as "{x}" is for "x": nothing is given to its waiters
--
-- Returns nothing; the script that follows does.
local queue, scores, clients = KEYS[2], KEYS[3], KEYS[4]
local call, try = redis.call, redis.pcall

-- A lease of fewer ms than that may be over before the client of a waiter asks by itself
-- how long it lasts.
local soon = 6000

-- How many scores behind a place are put right when it goes. The line of settle is
-- the head and as many behind it.
local near = 2

-- tell publishes to a waiter, or to its client: '0', that it is its turn, or more.
local function tell(prefix, whom, message, verb)
  local channel = prefix .. ':' .. whom
  publish(verb, channel, message)
end

-- seldom returns what most runs do without: sweep, lower, audience, anew and alert, as below.
-- To make a function takes about as long as a small command, in each run that comes across it.
local function seldom()
  -- How many dead heads one run removes at most.
  local most = 1000

  -- anew is for a holder that had no score and has got one: the scores may have been
  -- removed, and what makes them anew gives them no end.
  local function anew(timeout)
    local n = try('LLEN', queue)
    if type(n) == 'table' or type(try('PEXPIRE', scores, (n + 3) * timeout)) == 'table' then
      try('DEL', scores)
    end
  end

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
        if score == 0 then
          anew(timeout)
        end
        return head, client, alive - now, swept, proof
      end
      if alive == 0 and score == 0 then
        -- Redisson would wait for ever for a head that has no score.
        try('ZADD', scores, now + timeout, head)
        anew(timeout)
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
      if score > most or score <= 0 then
        try('ZADD', scores, most, holder)
      end
      if score <= 0 then -- it had none
        anew(timeout)
      end
    end
  end

  -- audience returns whom to tell when all who wait are to look again: those in the
  -- first 500 places, a client of latchkey once, and up to 500 more clients. Who is
  -- left out looks again by itself, as all do now and then.
  local function audience()
    local whom, known, listed = {}, {}, {}
    local places = call('LRANGE', queue, 0, 499)
    for _, place in ipairs(places) do
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
    if #places == 500 then
      for _, client in ipairs(try('HRANDFIELD', clients, 500)) do -- not to be had: none
        if not listed[client] then
          whom[#whom + 1] = client
        end
      end
    end
    return whom
  end

  -- alert has the client of the one who is next ask for how long the lock is held: for
  -- less than soon, and nobody says so at the end. A client that knows is not told, nor
  -- Redisson, whose waiters ask for something else.
  local function alert(next, knows, prefix, verb)
    local client = next and string.match(next, '^(.*):%d+$')
    if client and client ~= knows and call('HEXISTS', clients, client) == 1 then
      tell(prefix, client, '0', verb)
    end
  end

  return sweep, lower, audience, anew, alert
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
  else
    local added
    if third then
      added = try('ZADD', scores, 'LT', latest + timeout, second, latest + 2 * timeout, third)
    else
      added = try('ZADD', scores, 'LT', latest + timeout, second)
    end
    if added ~= 0 then
      local _, _, _, anew = seldom()
      anew(timeout)
    end
  end
end
