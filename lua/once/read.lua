-- once/read: read runs.
--
-- Cost: O(n) for n runs, at most 100, about 0.3 ms.
--
-- KEYS[1]      the lock of the job
-- KEYS[2...]   for each run the lock of its fire, as in once/begin, and the run, as in
--              once/note
--
-- Returns {server ms, {state, attempt, started, ended, who, error, has}, ...}
--         what a run has not is ''; the state is '' where there is no run; has is '1'
--         if the holder of the run has one of its locks
local call = redis.call

local time = call('TIME')
local all = {time[1] * 1000 + math.floor(time[2] / 1000)}
for i = 2, #KEYS, 2 do
  local run = call('HMGET', KEYS[i + 1], 'state', 'attempt', 'started', 'ended', 'who', 'error', 'holder')
  for n = 1, 6 do
    run[n] = run[n] or ''
  end
  local holder = run[7]
  run[7] = ''
  if holder and (call('HEXISTS', KEYS[i], holder) == 1 or call('HEXISTS', KEYS[1], holder) == 1) then
    run[7] = '1'
  end
  all[#all + 1] = run
end
return all
