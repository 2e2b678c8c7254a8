-- once/finish: note how a run has ended, if it is still the caller's. Asking twice is
-- the same as asking once.
--
-- KEYS[1]  the lock, and
-- KEYS[2]  the run, and
-- KEYS[3]  the list of runs, as in once/begin
-- ARGV[1]  holder
-- ARGV[2]  the fire, ms since the epoch
-- ARGV[3]  'done' or 'failed'
-- ARGV[4]  the error, for people
-- ARGV[5]  ms for which the run is kept
--
-- Returns {1, server ms}  noted
--         {0, server ms}  the holder has lost the lock or the run; nothing was changed
local lock, run, list, holder = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if call('HGET', run, 'holder') ~= holder then
  return {0, now}
end
if call('HGET', run, 'state') ~= 'running' then
  return {1, now}
end
if call('HEXISTS', lock, holder) == 0 then
  return {0, now}
end
local keep = tonumber(ARGV[5])

-- What is written here has an end, or goes: it would stay for ever.
local function expires(key)
  local done = redis.pcall('PEXPIRE', key, keep)
  if type(done) == 'table' then
    call('DEL', key)
  end
  return done
end

call('ZADD', list, now + keep, ARGV[2])
local done = expires(list)
if type(done) == 'table' then
  return done
end
if ARGV[4] ~= '' then
  call('HSET', run, 'state', ARGV[3], 'ended', now, 'error', ARGV[4])
else
  call('HSET', run, 'state', ARGV[3], 'ended', now)
end
done = expires(run)
if type(done) == 'table' then
  return done
end
return {1, now}
