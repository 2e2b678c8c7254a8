-- permitsemaphore/acquire: lease permits to one caller after another, to each all
-- or none, until one finds too few. Permits whose lease is over are reclaimed
-- first, up to 1,000 in one run. Asking twice is the same as asking once: the caller
-- brings the ids, and ids that are out get the lease from now. A request that arrives
-- late, or from a clock too far off, changes nothing.
--
-- Cost: O(n) for n ids in ARGV, about 2 ms for 1,000; and O(m) for m permits that are
-- reclaimed, at most 1,000 a run, about 1 ms.
--
-- KEYS[1]    the permits available: an integer
-- KEYS[2]    the permits that are out: a zset of id -> end of the lease, ms since
--            the epoch, or 922337203685477 for never
-- ARGV[1]    not after: server time, ms since the epoch
-- ARGV[2]    the most by which ARGV[1] may lie ahead, ms
-- ARGV[3]    Redis channel of the semaphore
-- ARGV[4]    how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
-- ARGV[5...] for each caller: permits wanted, lease in ms or 0 for ever, and as
--            many new ids of 16 bytes
--
-- Returns {callers served, permits left, ms until a lease ends, server ms}
--         the third is -1 when no lease ends, and 0 when there are more permits to
--         reclaim: who was not served asks again at once
--         {-2, 0, -1, server ms}  too late; nothing was changed
local permits, out, notafter, ahead, channel, verb = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local call, never = redis.call, 922337203685477

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > notafter or notafter - now > ahead then
  return {-2, 0, -1, now}
end

local have = integer(call('GET', permits) or '0')
if not have then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
-- What this user may not do shows before anything is changed, since a script that
-- stops half way would lose permits. The first is allowed at the memory limit, and
-- once it has run the others are too.
call('ZREM', out, '')
local ttl = call('PTTL', permits)
local lapsed, first = 0, call('ZRANGE', out, 0, 0, 'WITHSCORES')
if first[2] and tonumber(first[2]) <= now then
  call('INCRBY', permits, 0)
  lapsed = call('ZREM', out, unpack(call('ZRANGE', out, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)))
  call('INCRBY', permits, lapsed)
end
have = have + lapsed
local total = have

local served, at = 0, 5
while at < #ARGV do
  local n = tonumber(ARGV[at])
  if not call('ZSCORE', out, ARGV[at + 2]) then
    if have < n then
      break
    end
    have = have - n
  end
  served, at = served + 1, at + 2 + n
end
if served > 0 then
  call('ZADD', out, 'XX', 0, '')
  if ttl >= 0 then
    call('PEXPIRE', out, ttl)
  end
  if have < total then
    call('INCRBY', permits, have - total)
  end
  local caller = 5
  while caller < at do
    local n, lease = tonumber(ARGV[caller]), tonumber(ARGV[caller + 1])
    local ends = lease > 0 and now + lease or never
    for i = caller + 2, caller + 1 + n do
      call('ZADD', out, ends, ARGV[i])
    end
    caller = caller + 2 + n
  end
  if ttl >= 0 then -- 0 in its last millisecond
    call('PEXPIRE', out, ttl)
  end
end
if lapsed > 0 and total > 0 then
  publish(verb, channel, total)
end

local next = -1
first = call('ZRANGE', out, 0, 0, 'WITHSCORES')
if first[2] and tonumber(first[2]) ~= never then
  next = math.max(tonumber(first[2]) - now, 0)
end
return {served, have, next, now}
