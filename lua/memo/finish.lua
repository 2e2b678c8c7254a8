-- memo/finish: keep what came of a call, if the call is still the caller's. Asking twice
-- is the same as asking once.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- 2 and 3  note and value: see memo/note
-- ARGV[1]  holder
-- ARGV[2]  the call of memo/begin
-- ARGV[3]  'done', 'failed' or 'dropped'
-- ARGV[4]  the value, or the error, for people
-- ARGV[5]  ms for which it is kept; an error may be kept for 0 ms, and is then for those
--          alone who have waited for the call
-- ARGV[6]  ms for which the value is fresh, 0 for as long as it is kept; or for which
--          those who have waited find the error
--
-- Returns {1, server ms}   kept, or dropped
--         {0, server ms}   the holder has lost the lock; nothing was kept
--         {-1, server ms}  the call was forgotten; nothing was kept
local lock, holder, me, state, keep, other = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[6])

local got = call('HMGET', note, 'call', 'mark', 'failed')
local has = call('HEXISTS', lock, holder) == 1
if got[1] ~= me then
  local _, of = head()
  if got[3] == me or of == me or has and state == 'dropped' then
    return {1, now}
  end
  return {has and -1 or 0, now}
end
if not has then
  return {0, now}
end

if state == 'done' then
  local fresh = other > 0 and now + other or 0
  call('SET', value, string.format('%.0f %.0f %s %d\n', fresh, now, me, #got[2]) .. got[2] .. ARGV[4], 'PX', keep)
  call('DEL', note)
  return {1, now}
end
call('HDEL', note, 'call', 'mark', 'holder', 'since', 'who')
if state == 'failed' then
  call('HSET', note, 'failed', me, 'failedmark', got[2], 'error', ARGV[4], 'until', now + keep)
  -- It would stay for ever.
  local done = redis.pcall('PEXPIRE', note, math.max(keep, other))
  if type(done) == 'table' then
    call('DEL', note)
    return done
  end
end
return {1, now}
