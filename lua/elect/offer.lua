-- elect/offer: offer the lead to a candidate, or withdraw the offer that was made. Asking
-- twice is the same as asking once.
--
-- KEYS[1]  the lock, and
-- KEYS[2]  the record, as in elect/begin; next is the candidate, nonce names the offer,
--          and accepted is the holder to whom the lock is to be passed
-- ARGV[1]  holder who leads
-- ARGV[2]  number of his term
-- ARGV[3]  nonce of the offer
-- ARGV[4]  identity of the candidate, or '' to withdraw the offer
-- ARGV[5]  Redis channel of the election
-- ARGV[6]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns {1, server ms}   offered, or withdrawn
--         {0, server ms}   it cannot be withdrawn: it was accepted
--         {-1, server ms}  the holder does not lead, or in another term
local lock, record, holder = KEYS[1], KEYS[2], ARGV[1]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local got = call('HMGET', record, 'holder', 'nonce', 'accepted', 'term')
if got[1] ~= holder or got[4] ~= ARGV[2] or not call('HGET', lock, holder) then
  return {-1, now}
end
local same = got[2] == ARGV[3]
if ARGV[4] == '' then
  if same and got[3] then
    return {0, now}
  end
  if same then
    call('HDEL', record, 'next', 'nonce')
  end
  return {1, now}
end
if not same then
  call('HDEL', record, 'accepted')
  call('HSET', record, 'next', ARGV[4], 'nonce', ARGV[3])
  -- On some servers the record may have ended by itself since it was read.
  if call('PTTL', record) == -1 then
    call('DEL', record)
    return {-1, now}
  end
end
local channel, verb = ARGV[5], ARGV[6]
publish(verb, channel, '0')
return {1, now}
