-- once/finish: note how a run has ended, if it is still the caller's. Asking twice is
-- the same as asking once.
--
-- KEYS[1]  the lock of the fire, or of the job: a hash of holder -> hold count
-- 2 and 3  run and list: see once/note
-- ARGV[1]  holder
-- ARGV[2]  the fire, ms since the epoch
-- ARGV[3]  'done' or 'failed'
-- ARGV[4]  the error, for people; '' without one
-- ARGV[5]  ms for which the run is kept
-- ARGV[6]  the call of once/begin
--
-- Returns {1, server ms}  noted
--         {0, server ms}  the holder has lost the lock or the run; nothing was changed
local lock, holder, fire, keep = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[5])

local got = call('HMGET', run, 'state', 'call')
if got[2] ~= ARGV[6] then
  return {0, now}
end
if got[1] ~= 'running' then
  return {1, now}
end
if call('HEXISTS', lock, holder) == 0 then
  return {0, now}
end

return note(fire, keep, 'state', ARGV[3], 'ended', now, 'error', ARGV[4]) or {1, now}
