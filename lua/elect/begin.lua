-- elect/begin: begin a term, if the caller has the lock of the election, or keep its
-- record for as long again, and write it again if it was lost. Asking twice is the same
-- as asking once.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- KEYS[2]  the record: a hash that expires, of identity, term, since (server ms), value,
--          who and holder; and of next, nonce and accepted while the lead is offered:
--          see elect/offer
-- ARGV[1]  holder
-- ARGV[2]  number of the term: the fencing token of the holder
-- ARGV[3]  identity
-- ARGV[4]  value
-- ARGV[5]  who it is, for people
-- ARGV[6]  ms for which the record is kept
-- ARGV[7]  Redis channel of the election
-- ARGV[8]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
-- ARGV[9]  server ms since which the term lasts, or '0' if it begins
--
-- Returns {1, since ms, server ms}  begun
--         {0, term, server ms}      a term with that number or a later one was begun by
--                                   somebody else
--         {-1, 0, server ms}        the holder does not have the lock
local lock, record, holder = KEYS[1], KEYS[2], ARGV[1]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not call('HGET', lock, holder) then
  return {-1, 0, now}
end
local got = call('HMGET', record, 'term', 'holder', 'since')
local term, mine = tonumber(got[1] or 0), got[1] == ARGV[2] and got[2] == holder
if not mine and term >= tonumber(ARGV[2]) then
  return {0, term, now}
end
local before = tonumber(ARGV[9])
local since = mine and tonumber(got[3]) or before > 0 and before or now

if not mine then
  call('HDEL', record, 'next', 'nonce', 'accepted')
end
call('HSET', record, 'identity', ARGV[3], 'term', ARGV[2], 'since', since, 'value', ARGV[4], 'who', ARGV[5], 'holder', holder)
-- It would stay for ever.
local done = redis.pcall('PEXPIRE', record, ARGV[6])
if type(done) == 'table' then
  call('DEL', record)
  return done
end
if not mine then
  local channel, verb = ARGV[7], ARGV[8]
  publish(verb, channel, '0')
end
return {1, since, now}
