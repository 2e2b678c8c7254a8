-- fairlock/acquire: take the lock if it is the holder's turn, or raise the hold
-- count of its present holder; else stand in the queue, at its end. Asking twice
-- with the same arguments is the same as asking once: the hold count to reach is
-- given, and nobody stands in the queue twice. A request that arrives late, or
-- from a clock too far off, changes nothing.
--
-- Cost: O(n) for n dead heads of the queue, at most 1,000 a run, about 5 ms; O(n) for
-- all n waiters, about 5 ms for 1,000, once where somebody has removed a part of the
-- queue.
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
-- ARGV[14]  proof of the client, or '': see fairlock/queue (may be absent)
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
        added = 0 -- at the memory limit, where waiters go on waiting
      end
      if added == 0 then
        return n, 0, call('LLEN', queue) == n
      end
      local places = try('RPUSH', queue, holder)
      if type(places) == 'table' then
        try('ZREM', scores, holder)
        if n == 0 and type(try('PEXPIRE', scores, timeout)) == 'table' then
          try('DEL', scores)
        end
        return places
      end
      if label and label ~= '' then
        try('SET', KEYS[5], label, 'PX', score - now)
      end
      return n, time[1] * 1000000 + time[2], places == n + 1
    end

    local fresh = ARGV[9] + 0
    local known, proof = string.match(call('HGET', clients, client) or '0', '^(%d*) ?(.*)$')
    known = (tonumber(known) or 0) - now
    -- Another proof is that of an earlier process with the same id; none stays.
    local own = (known <= 0 or proof ~= '') and ARGV[14] or ''
    local n, same
    n, ticket, same = queued()
    local keep = ARGV[12] + 0
    if same == false then
      -- Somebody has removed a key, or part of one, and one that has been made anew has
      -- no end.
      local done = try('PEXPIRE', queue, keep)
      if type(done) == 'table' then
        try('DEL', queue, scores)
        return done
      end
      call('PEXPIRE', scores, keep)
      local scored = call('ZRANGE', scores, 0, -1)
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
      for _, member in ipairs(scored) do
        if not seen[member] then
          call('ZREM', scores, member)
        end
      end
      n, ticket = queued()
    end
    if type(n) == 'table' then
      return n
    end
    if n == 0 or same == false or proof ~= own or known < fresh * 2 / 3 then
      local last = (n + 3) * timeout
      local done = try('PEXPIRE', queue, last + keep)
      if type(done) == 'table' then
        if n == 0 then
          try('DEL', queue, scores) -- they would stay for ever
        end
        return done
      end
      -- PEXPIRE is allowed at the memory limit, and once it has run HSET is too.
      call('PEXPIRE', scores, last + keep)
      call('HSET', clients, client, string.format('%.0f ', now + fresh) .. own)
      call('PEXPIRE', clients, last + fresh)
    end
  end
  return {0, good, now, ticket, turn}
end

call('HSET', lock, holder, count)
-- The one who is next, if it may have heard of a longer lease.
local next
local ends = count == '1' and left > lease and tonumber(ARGV[15])
if left < lease or ends and math.abs(now + left - ends) < 10 then
  -- A lock without a lease would be held for ever, so a server that lets us
  -- write but not expire gets its key back.
  local done = try('PEXPIRE', lock, ARGV[3])
  if type(done) == 'table' then
    if not mine and type(try('DEL', lock)) == 'table' then
      try('HDEL', lock, holder)
    end
    return done
  end
  left = lease
  next = mine and ends and call('LINDEX', queue, 0)
end
if not mine and head then
  local line = call('LRANGE', queue, '0', '2')
  settle(line, wait, now + math.min(lease, timeout), timeout)
  next = line[2]
elseif not mine and wait > 0 then
  call('DEL', scores, clients)
end
if next and left < soon then
  local _, _, _, _, alert = seldom()
  alert(next, client, ARGV[10], ARGV[11])
end
if label and label ~= '' then
  try('SET', KEYS[5], label, 'PX', left)
end
if not mine then
  return now
end
return {1, left, now}
