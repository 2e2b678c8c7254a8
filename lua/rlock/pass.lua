-- rlock/pass: give the lock back and take it for another holder, at once, so that
-- nobody else has it in between; waiters are told only of a lease that has become
-- shorter. Asking twice does the same as asking once. Nothing here is refused by a
-- server at its memory limit.
--
-- Cost: O(n log m) for n entries to take out of a list of m, at most 32, about 0.1 ms.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- KEYS[2]  the fencing token counter, when there is an ARGV[6]; it never expires
-- KEYS[n]  when there is an ARGV[9]: the claim, a hash; its field accepted must be
--          ARGV[2], or nothing is passed
-- KEYS[n]  the last one is the list of those who are given the lock, when there is an
--          ARGV[10]: see rlock/release
-- ARGV[1]  the holder who gives back all that it has
-- ARGV[2]  the holder who takes
-- ARGV[3]  its lease, ms; it has the lock once then
-- ARGV[4]  not after: server time, ms since the epoch
-- ARGV[5]  the most by which ARGV[4] may lie ahead, ms
-- ARGV[6]  how many fencing tokens to take, at most: that of the new hold, and those
--          behind it for the ones to whom its client hands the lock on. They are the
--          µs since the last one was taken, so none is ahead of the server's clock,
--          unless the last one is (may be absent, or '')
-- ARGV[7]  Redis channel of the lock (may be absent)
-- ARGV[8]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE' (absent when
--          ARGV[7] is)
-- ARGV[9]  Redis channel on which the lock, once it is passed, is said to be ARGV[2]'s; for
--          a lock that is only passed to the one who has claimed it (may be absent, or '')
-- ARGV[10...] entries of the holder who takes, to take out of the list (may be absent)
--
-- Returns {1, server ms, token, more}  passed; so many tokens behind that one are
--                                      taken with it; both are 0 without an ARGV[6]
--         {1, server ms, token, 0}     it was already; the token is the last one taken,
--                                      or a new one where there is no counter
--         {0, server ms, 0, 0}         the holder who takes has not claimed it
--         {-1, server ms, 0, 0}        the holder who gives back does not hold the lock
--         {-2, server ms, 0, 0}        too late; nothing was changed
local lock, from, to, tokens = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[6])
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local late = now - ARGV[4]
if late > 0 or -late > tonumber(ARGV[5]) then
  return {-2, now, 0, 0}
end

local token, more, clock = 0, 0, time[1] * 1000000 + time[2]
if tokens then
  token = tonumber(call('GET', KEYS[2]) or -1)
  if not token then
    return redis.error_reply('WRONGTYPE the fencing token counter is not a number')
  end
end
local verb, claim = ARGV[8], ARGV[9] or ''
local function passed()
  if ARGV[10] then
    redis.pcall('ZREM', KEYS[#KEYS], unpack(ARGV, 10))
  end
  if claim ~= '' then
    publish(verb, claim, to)
  end
end

local has = call('HMGET', lock, to, from)
if has[1] then
  passed()
  if token < 0 then
    token = clock
    redis.pcall('SET', KEYS[2], string.format('%.0f', token))
  end
  return {1, now, token, 0}
end
if not has[2] then
  return {-1, now, 0, 0}
end
if claim ~= '' and call('HGET', KEYS[tokens and 3 or 2], 'accepted') ~= to then
  return {0, now, 0, 0}
end
-- HDEL is allowed at the memory limit, and once it has run the rest is too.
local lease, left = tonumber(ARGV[3]), call('PTTL', lock)
call('HDEL', lock, '')
if tokens then
  -- Those that lie ahead of the clock would be above the next ones when the data is
  -- lost. Where there is no counter, it may have been just now, and those of the time
  -- before have perhaps been taken.
  token = token < 0 and clock or math.max(token + 1, clock - tokens + 1)
  more = math.max(math.min(tokens - 1, clock - token), 0)
  call('SET', KEYS[2], string.format('%.0f', token + more))
end
call('HSET', lock, to, 1)
call('HDEL', lock, from)
local done = redis.pcall('PEXPIRE', lock, lease)
if type(done) == 'table' then
  -- The holder who takes would count on that lease.
  call('HSET', lock, from, has[2])
  call('HDEL', lock, to)
  return done
end
passed()
-- Others sleep for the lease that they have seen, Java without a recheck: nobody would
-- tell them when a shorter one ends by itself.
if left > lease + 1000 or left == -1 then
  publish(verb, ARGV[7], '0')
end
return {1, now, token, more}
