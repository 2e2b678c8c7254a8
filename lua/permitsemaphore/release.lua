-- permitsemaphore/release: give permits back by their ids. Permits whose lease is
-- over are reclaimed first, up to 1,000 in one run, and count as unknown. Asking twice
-- gives nothing twice: the second time the ids are unknown. The labels, whose keys are
-- built here, go with the permits.
-- Nothing here is refused by a server at its memory limit.
--
-- Cost: O(n) for n ids in ARGV, about 2 ms for 1,000, and 4 ms with labels; and O(m)
-- for m permits that are reclaimed, at most 1,000 a run, about 1 ms.
--
-- KEYS[1]    the permits available: an integer
-- KEYS[2]    the permits that are out: a zset of id -> end of the lease, ms since
--            the epoch
-- ARGV[1]    'ALL' to give back all or none, 'ANY' to give back what is known
-- ARGV[2]    Redis channel of the semaphore
-- ARGV[3]    how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
-- ARGV[4]    what the labels' keys begin with, before the id in hex; '' to leave labels
-- ARGV[5...] ids
--
-- Returns {permits given back, a1, a2, ...}  one answer for each id:
--         1 it was out, 0 it is unknown
local permits, out, all, channel, verb = KEYS[1], KEYS[2], ARGV[1] == 'ALL', ARGV[2], ARGV[3]
local label = ARGV[4]
local call = redis.call

local have = integer(call('GET', permits) or '0')
if not have then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply, known = {0}, 0
for i = 5, #ARGV do
  local there = tonumber(call('ZSCORE', out, ARGV[i]) or 0) > now and 1 or 0
  reply[i - 3], known = there, known + there
end
local back = known > 0 and (not all or known == #ARGV - 4)

-- What this user may not do shows before anything is changed, since a script that
-- stops half way would lose permits. The first is allowed at the memory limit, and
-- once it has run the others are too.
call('ZREM', out, '')
local lapsed, first = 0, call('ZRANGE', out, 0, 0, 'WITHSCORES')
if first[2] and tonumber(first[2]) <= now then
  call('INCRBY', permits, 0)
  lapsed = call('ZREM', out, unpack(call('ZRANGE', out, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)))
  call('INCRBY', permits, lapsed)
end
if back then
  call('INCRBY', permits, 0)
  for i = 5, #ARGV do
    -- While the slot is on the move, the last one that goes takes the key with it, and
    -- asking for another fails.
    if reply[i - 3] == 1 then
      reply[1] = reply[1] + call('ZREM', out, ARGV[i])
    end
  end
  call('INCRBY', permits, reply[1])
end
local freed = lapsed + reply[1]
if freed > 0 then
  local total = have + freed
  if total > 0 then
    publish(verb, channel, total)
  end
end
if label ~= '' then
  for i = 5, #ARGV do
    if back or reply[i - 3] == 0 then
      redis.pcall('DEL', label .. hex(ARGV[i]))
    end
  end
end
return reply
