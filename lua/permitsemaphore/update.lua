-- permitsemaphore/update: give a permit another lease, from now, and its label with it.
-- When that is a shorter one, waiters are told, and look again when it ends. Asking
-- twice is the same as asking once: the request is remembered, so that one that comes
-- again does not undo a later one. A lease for ever leaves the end of the label as it is.
--
-- KEYS[1]  the permits that are out: a zset of id -> end of the lease, ms since
--          the epoch, or 922337203685477 for never
-- KEYS[2]  the claim: number of the last request under it; it expires
-- ARGV[1]  id
-- ARGV[2]  lease in ms, 0 for ever
-- ARGV[3]  number of the request
-- ARGV[4]  ms for which the request is remembered
-- ARGV[5]  not after: server time, ms since the epoch
-- ARGV[6]  the most by which ARGV[5] may lie ahead, ms
-- ARGV[7]  Redis channel of the semaphore
-- ARGV[8]  how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[9]  key of the label, which need not be there (may be absent)
--
-- Returns {1, server ms}   done
--         {0, server ms}   it is not out, or its lease is over
--         {-2, server ms}  too late; nothing was changed
local out, claim, id, lease, number, keep = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local notafter, ahead, channel, verb = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > notafter or notafter - now > ahead then
  return {-2, now}
end
local was = tonumber(redis.call('ZSCORE', out, id) or 0)
if was <= now then
  return {0, now}
end
local last = tonumber(redis.call('GET', claim) or 0)
if last >= number then
  return {last == number and 1 or -2, now}
end
redis.call('SET', claim, number, 'PX', keep)
local ends = lease > 0 and now + lease or 922337203685477
local done = redis.pcall('ZADD', out, ends, id)
if type(done) == 'table' then
  redis.call('SET', claim, last, 'PX', keep) -- it was not done: this user may not
  return done
end
if ARGV[9] and lease > 0 then
  redis.pcall('PEXPIRE', ARGV[9], lease)
end
if ends < was then
  publish(verb, channel, 1)
end
return {1, now}
