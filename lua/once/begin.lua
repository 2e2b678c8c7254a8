-- once/begin: begin a run of a fire, if the caller has its lock and there is something
-- to do. Asking twice is the same as asking once.
--
-- Cost: O(log n) for n runs in the list, about 0.1 ms.
--
-- KEYS[1]  the lock of the fire, or of the job: a hash of holder -> hold count
-- 2 and 3  run and list: see once/note
-- ARGV[1]  holder
-- ARGV[2]  the fire, ms since the epoch
-- ARGV[3]  the most attempts
-- ARGV[4]  ms for which the run is kept
-- ARGV[5]  server ms after which it is too late to begin; 0 for never
-- ARGV[6]  who runs it, for people
-- ARGV[7]  the call: a name that no other attempt has, also of the same holder
--
-- Returns {1, attempt, server ms}  begun
--         {0, attempts, server ms}  done, or given up after so many attempts
--         {-1, 0, server ms}  the holder does not have the lock
--         {-2, attempts, server ms}  too late
--         {-3, 0, server ms}  the holder has the lock more than once: it is at it already
local lock, holder, fire, keep = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[4])

local holds = tonumber(call('HGET', lock, holder) or 0)
if holds ~= 1 then
  return {holds == 0 and -1 or -3, 0, now}
end
local got = call('HMGET', run, 'state', 'attempt', 'call')
local attempt = tonumber(got[2] or 0)
if got[1] == 'running' and got[3] == ARGV[7] then
  return {1, attempt, now}
end
if got[1] == 'done' or attempt >= tonumber(ARGV[3]) then
  return {0, attempt, now}
end
if tonumber(ARGV[5]) > 0 and now > tonumber(ARGV[5]) then
  return {-2, attempt, now}
end

for _, old in ipairs(call('ZRANGE', list, 0, 9)) do
  if tonumber(call('ZSCORE', list, old)) > now then
    break
  end
  call('ZREM', list, old)
end
attempt = attempt + 1
return note(fire, keep, 'state', 'running', 'attempt', attempt, 'call', ARGV[7], 'holder', holder,
  'started', now, 'ended', '', 'who', ARGV[6], 'error', '')
  or {1, attempt, now}
