-- rlock/pass: give the lock back and take it for another holder, at once, so that
-- nobody else has it in between and nobody is told. Asking twice is the same as
-- asking once. Nothing here is refused by a server at its memory limit.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- KEYS[2]  the fencing token counter, when ARGV[7] is '1'; it never expires
-- ARGV[1]  the holder who gives back all that it has
-- ARGV[2]  the holder who takes
-- ARGV[3]  the hold count that it has then
-- ARGV[4]  its lease, ms; 0: what is left of the present one
-- ARGV[5]  not after: server time, ms since the epoch
-- ARGV[6]  the most by which ARGV[5] may lie ahead, ms
-- ARGV[7]  '1' when the new hold takes a fencing token (may be absent)
--
-- Returns {1, server ms, token}  passed, or it was already; the token is 0 without one
--         {-1, server ms, 0}     the holder who gives back does not hold the lock
--         {-2, server ms, 0}     too late; nothing was changed
local lock, from, to, fenced = KEYS[1], ARGV[1], ARGV[2], ARGV[7] == '1'
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local late = now - ARGV[5]
if late > 0 or -late > tonumber(ARGV[6]) then
  return {-2, now, 0}
end

local token = 0
if fenced then
  token = tonumber(call('GET', KEYS[2]) or 0)
end
local has = call('HMGET', lock, to, from)
if has[1] then
  return {1, now, token}
end
if not has[2] then
  return {-1, now, 0}
end
-- PEXPIRE is allowed at the memory limit, and once it has run the rest is too. -1
-- is a lock that somebody has made to stay for ever.
local lease = tonumber(ARGV[4])
if lease == 0 then
  lease = call('PTTL', lock)
end
if lease ~= -1 then
  call('PEXPIRE', lock, math.max(lease, 1))
end
call('HSET', lock, to, ARGV[3])
call('HDEL', lock, from)
if lease ~= -1 and lease < 100 then
  -- So near its end the lock may have been deleted by the first one, and made anew
  -- without a lease.
  call('PEXPIRE', lock, lease)
end
if fenced then
  token = math.max(token + 1, time[1] * 1000000 + time[2])
  call('SET', KEYS[2], string.format('%.0f', token))
end
return {1, now, token}
