-- rlock/release: bring the hold count of a holder down; free the lock at 0.
-- Asking twice is the same as asking once: the hold count to reach is given.
-- Nothing here is refused by a server at its memory limit.
--
-- A lock that is freed may be given away at once: to a client of latchkey that
-- waits for it and listens on a Redis channel of its own. There it is told '+', the
-- number of the holder, the lease in ms, the server ms, the fencing token if there
-- is one, and the word of the entry, all with spaces between: who cannot read the list
-- does not know that word, and it is good once. It is done only when nobody else listens
-- on the channel of the lock, Redisson above all, and not always, because there may be
-- some who ask now and then. It is done by plain pub/sub: ARGV[6] is 'PUBLISH' where
-- there is a list.
--
-- Cost: O(n log m) for n entries to take out of a list of m, at most 32, about 0.1 ms; and
-- O(k) for k entries that are tried, at most 8, about 0.1 ms.
--
-- KEYS[1]   the lock: a hash of holder -> hold count
-- KEYS[2]   the list of those who are given the lock (may be absent): a sorted set
--           by the server µs of a request, of holder, lease in ms, inbox of its
--           client and a word, none of which has a ' ' in it, with one between, and
--           ' f' behind for those who need a fencing token
-- KEYS[3]   the fencing token counter, when ARGV[9] is '1'
-- KEYS[n]   the last key is the holder's label, when ARGV[10] is '1'
-- ARGV[1]   holder
-- ARGV[2]   hold count to reach
-- ARGV[3]   not after: server time, ms since the epoch; 0: whenever it comes,
--           for a holder that will never hold the lock again
-- ARGV[4]   the most by which ARGV[3] may lie ahead, ms
-- ARGV[5]   Redis channel of the lock; that of a client has ':' and its inbox behind
-- ARGV[6]   how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[7]   ms for which a freed lock stays closed, 0 for not at all (may be absent)
-- ARGV[8]   the holder in whose name it stays closed, when ARGV[7] is above 0; else
--           an entry of this client for the list, which is given the lock when
--           nobody else is, or '' (may be absent)
-- ARGV[9]   '1' when every new hold takes a fencing token (may be absent)
-- ARGV[10]  '1' when there is a label (may be absent)
-- ARGV[11]  on how many connections this client listens on ARGV[5] (may be absent)
-- ARGV[12]  ms for which the list is kept, from about its last entry (may be absent)
-- ARGV[13...] entries to take out of the list (may be absent)
--
-- Returns 1 + listeners               freed; how many connections were told, as far
--                                     as this server knows
--         {1, holds left, server ms}  brought down, but not freed for others
--         {2, holds left, server ms}  it was that low already; nothing was changed
--         {3, token, server ms}       given to the holder in ARGV[8]
--         {4, 0, server ms}           given to another client; ARGV[8] is in the list
--         {5, listeners, server ms}   freed; ARGV[8] is in the list
--         {-1, 0, server ms}          the holder does not hold the lock
--         {-2, 0, server ms}          too late; nothing was changed
--         the server ms are 0 when they were not needed
local lock, holder, channel, verb, list = KEYS[1], ARGV[1], ARGV[5], ARGV[6], KEYS[2]
local call, try = redis.call, redis.pcall

local now, time = 0, nil
if ARGV[3] ~= '0' then
  time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  local late = now - ARGV[3]
  if late > 0 or -late > ARGV[4] + 0 then
    return {-2, 0, now}
  end
end

-- What is text stays text where that will do: to read a number or to write one takes
-- longer than some commands do.
local linger = ARGV[7] or '0'
if ARGV[13] then
  try('ZREM', list, unpack(ARGV, 13))
end
if ARGV[2] == '0' and linger == '0' then
  local entry = ARGV[8] or ''
  -- The last field of a hash takes the key with it.
  if call('HDEL', lock, holder) == 0 then
    return {-1, 0, now}
  end
  if ARGV[10] == '1' then
    try('DEL', KEYS[#KEYS])
  end
  local first = list and try('ZPOPMIN', list)
  if first and not first.err and (first[1] or entry ~= '') then
    -- An entry in the list counts for so long, µs; one release in so many is open
    -- to everybody; so many entries are tried, and then the one of this client.
    local stale, turn, tries = 15000000, 32, 8
    local fenced = ARGV[9] == '1'
    local find, sub = string.find, string.sub
    time = time or call('TIME')
    local s, us = time[1], time[2] + 0
    local exact = s * 1000000 + us
    now = (exact - exact % 1000) / 1000
    -- The same two as text, if that is there already.
    local exactly, ms = exact, now
    if #time[2] == 6 then
      exactly, ms = s .. time[2], s .. sub(time[2], 1, 3)
    end
    local known, lasts = nil, false
    while first[1] or entry ~= '' do
      local e = first[1]
      local text = e or entry
      local to, number, lease, inbox, at = string.match(text, '^(%S+:(%d+)) (%d+) (%w+) ()%w')
      -- Nothing is said before it is so: a replica may pass a message on that
      -- nobody has heard here. And a server that does not hear this client itself
      -- does not know who listens.
      local own = channel .. ':' .. (inbox or '')
      local listen = try('PUBSUB', 'NUMSUB', channel, own)
      if not known then
        known = e and 1 or 0
        local others = listen.err and -1 or listen[2] - (ARGV[11] or 0)
        if others > 1 then
          local more = call('ZCARD', list)
          known = known + more
          -- What is left of the list has an end. Where entries come round as fast as
          -- this it is enough that one release in eight puts it off.
          lasts = e and more > 0 and us % 8 > 0 and exact - first[2] < 100000
        end
        if others < 0 or others > known or us % turn == turn - 1 then
          if e then
            -- It may have been the last one, and the list have gone with it.
            call('ZADD', list, first[2], e)
            if type(try('PEXPIRE', list, stale / 1000)) == 'table' then
              try('DEL', list) -- it would stay for ever
            end
          end
          break
        end
      end
      local kind = number and find(text, ' ', at, true)
      local token = 0
      if fenced then
        token = tonumber(try('GET', KEYS[3]) or 0) -- nil: nobody is granted anything by it
      end
      if number and token and (fenced or not kind or sub(text, kind) ~= ' f') and (not e or exact - first[2] < stale and listen[4] > 0) then
        call('HSET', lock, to, '1')
        -- A lock without a lease would be held for ever.
        if try('PEXPIRE', lock, lease) == 1 then
          if fenced then
            token = math.max(token + 1, exact)
            call('SET', KEYS[3], string.format('%.0f', token))
          end
          if not e then
            return {3, token, now}
          end
          local gift = number .. ' ' .. lease .. ' ' .. ms .. ' '
          if fenced then
            gift = gift .. string.format('%.0f ', token)
          end
          if type(try('PUBLISH', own, '+' .. gift .. sub(text, at, (kind or 0) - 1))) == 'number' then
            if entry ~= '' then
              call('ZADD', list, exactly, entry)
              if not lasts and type(try('PEXPIRE', list, ARGV[12])) == 'table' then
                try('DEL', list)
              end
            end
            return {4, 0, now}
          end
        end
        call('HDEL', lock, to) -- we may not tell
      end
      if not e then
        break
      end
      tries, lasts = tries - 1, false
      first = tries > 0 and call('ZPOPMIN', list) or {}
    end
    if entry ~= '' then
      call('ZADD', list, exactly, entry)
      if type(try('PEXPIRE', list, ARGV[12])) == 'table' then
        try('DEL', list)
      end
    end
  end
  local heard = publish(verb, channel, '0')
  if list and now > 0 and entry ~= '' then
    return {5, heard, now}
  end
  return 1 + heard
end

local count = tonumber(ARGV[2])
local held = tonumber(call('HGET', lock, holder) or 0)
if held == 0 then
  return {-1, 0, now}
end
if held <= count then
  return {2, held, now}
end
-- HDEL is allowed at the memory limit, and once it has run HSET is too.
call('HDEL', lock, '')
if count > 0 then
  call('HSET', lock, holder, count)
else
  call('HSET', lock, ARGV[8], 1)
  call('HDEL', lock, holder)
  local done = try('PEXPIRE', lock, linger)
  if type(done) == 'table' then
    -- It would stay closed for the lease of the one who has gone.
    call('HSET', lock, holder, held)
    call('HDEL', lock, ARGV[8])
    return done
  end
  if ARGV[10] == '1' then
    try('DEL', KEYS[#KEYS])
  end
  -- The waiters have been told of a longer lease, and look again: all of them, for
  -- nobody says so when the lock is free. '1' wakes all threads of Redisson that
  -- sleep, '0' one that is about to.
  for _, message in ipairs({'1', '0'}) do
    publish(verb, channel, message)
  end
end
return {1, count, now}
