-- once/note: how the scripts write that note what becomes of a run. It is put before
-- each of them and does nothing by itself.
--
-- KEYS[2]  the run: a hash that expires, of state ('running', 'done' or 'failed'),
--          attempt, call (which attempt of a caller it is), holder, started and ended
--          (server ms), who and error; what it has not yet is ''
-- KEYS[3]  the list of runs: a sorted set of fires, by the server ms at which the run
--          expires
--
-- Returns nothing; the script that follows does.
local run, list = KEYS[2], KEYS[3]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- note writes fields of the run of a fire, which is kept for keep ms. Where Redis gives
-- a key no end it goes, since it would stay for ever; note returns Redis's error then.
local function note(fire, keep, ...)
  local function refused(key)
    local done = redis.pcall('PEXPIRE', key, keep)
    if type(done) == 'table' then
      call('DEL', key)
      return done
    end
  end
  call('ZADD', list, now + keep, fire)
  local err = refused(list)
  if err then
    return err
  end
  call('HSET', run, ...)
  return refused(run)
end

