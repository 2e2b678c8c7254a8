-- once/begin: begin a run of a fire, if the caller has its lock and there is something
-- to do. Asking twice is the same as asking once.
--
-- Cost: O(log n) for n runs in the list, about 0.1 ms.
--
-- KEYS[1]  the lock of the fire, or of the job: a hash of holder -> hold count
-- KEYS[2]  the run: a hash that expires, of state ('running', 'done' or 'failed'),
--          attempt, holder, started and ended (server ms), who and error
-- KEYS[3]  the list of runs: a sorted set of fires, by the server ms at which the run
--          expires
-- ARGV[1]  holder
-- ARGV[2]  the fire, ms since the epoch
-- ARGV[3]  the most attempts
-- ARGV[4]  ms for which the run is kept
-- ARGV[5]  server ms after which it is too late to begin; 0 for never
-- ARGV[6]  who runs it, for people
--
-- Returns {1, attempt, server ms}  begun
--         {0, attempts, server ms}  done, or given up after so many attempts
--         {-1, 0, server ms}  the holder does not have the lock
--         {-2, attempts, server ms}  too late
--         {-3, 0, server ms}  the holder has the lock more than once: it is at it already
local lock, run, list, holder = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holds = tonumber(call('HGET', lock, holder) or 0)
if holds ~= 1 then
  return {holds == 0 and -1 or -3, 0, now}
end
local got = call('HMGET', run, 'state', 'attempt', 'holder')
local attempt = tonumber(got[2] or 0)
if got[1] == 'running' and got[3] == holder then
  return {1, attempt, now}
end
if got[1] == 'done' or attempt >= tonumber(ARGV[3]) then
  return {0, attempt, now}
end
if tonumber(ARGV[5]) > 0 and now > tonumber(ARGV[5]) then
  return {-2, attempt, now}
end
local keep = tonumber(ARGV[4])

-- What is written here has an end, or goes: it would stay for ever.
local function expires(key)
  local done = redis.pcall('PEXPIRE', key, keep)
  if type(done) == 'table' then
    call('DEL', key)
  end
  return done
end

for _, old in ipairs(call('ZRANGE', list, 0, 9)) do
  if tonumber(call('ZSCORE', list, old)) > now then
    break
  end
  call('ZREM', list, old)
end
call('ZADD', list, now + keep, ARGV[2])
local done = expires(list)
if type(done) == 'table' then
  return done
end
call('HDEL', run, 'ended', 'error')
call('HSET', run, 'state', 'running', 'attempt', attempt + 1, 'holder', holder, 'started', now, 'who', ARGV[6])
done = expires(run)
if type(done) == 'table' then
  return done
end
return {1, attempt + 1, now}
