-- memo/begin: begin a call, if the caller has the lock and nothing that counts is kept.
-- Asking twice is the same as asking once.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- 2 and 3  note and value: see memo/note
-- ARGV[1]  holder
-- ARGV[2]  the call: a name that no other call has
-- ARGV[3]  its mark: what others can read of it
-- ARGV[4]  who it is, for people
-- ARGV[5]  ms for which the note is kept
--
-- Returns {1, server ms}                      begun
--         {0, server ms, value, '', '', ''}   a value is kept, and fresh
--         {0, server ms, '', call, mark, error}  an error is kept
--         {-1, server ms}                     the holder does not have the lock
local lock, holder, me = KEYS[1], ARGV[1], ARGV[2]

if call('HEXISTS', lock, holder) == 0 then
  return {-1, now}
end
local got = call('HMGET', note, 'call', 'failed', 'failedmark', 'error', 'until')
if got[1] == me then
  return {1, now}
end
local fresh, _, wrong = head()
if wrong then
  return wrong
end
if fresh and (fresh == 0 or fresh > now) then
  return {0, now, call('GETRANGE', value, 0, -1), '', '', ''}
end
if got[2] and tonumber(got[5] or 0) > now then
  return {0, now, '', got[2], got[3], got[4]}
end

local keep = math.max(tonumber(ARGV[5]), call('PTTL', note))
call('HSET', note, 'call', me, 'mark', ARGV[3], 'holder', holder, 'since', now, 'who', ARGV[4])
-- It would stay for ever.
local done = redis.pcall('PEXPIRE', note, keep)
if type(done) == 'table' then
  call('DEL', note)
  return done
end
return {1, now}
