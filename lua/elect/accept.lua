-- elect/accept: accept the lead that was offered, or decline it, also after having accepted
-- it. Asking twice is the same as asking once, and what is accepted late, after it was
-- declined, is not accepted.
--
-- KEYS[1]  the lock, and
-- KEYS[2]  the record, as in elect/offer
-- ARGV[1]  holder to whom the lock is to be passed
-- ARGV[2]  nonce of the offer
-- ARGV[3]  '1' to accept it, '0' to decline it
-- ARGV[4]  Redis channel of the election
-- ARGV[5]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns {1, server ms}  accepted, or declined
--         {0, server ms}  there is no such offer, or somebody else has accepted it
--         {2, server ms}  the holder has the lock already
local lock, record, holder = KEYS[1], KEYS[2], ARGV[1]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if call('HGET', lock, holder) then
  return {2, now}
end
local got = call('HMGET', record, 'nonce', 'accepted', 'holder')
if got[1] ~= ARGV[2] or got[2] and got[2] ~= holder or ARGV[3] == '1' and not call('HGET', lock, got[3] or '') then
  return {0, now}
end
if ARGV[3] == '0' then
  call('HDEL', record, 'next', 'nonce', 'accepted')
elseif not got[2] then
  call('HSET', record, 'accepted', holder)
  -- On some servers the record may have ended by itself since it was read.
  if call('PTTL', record) == -1 then
    call('DEL', record)
    return {0, now}
  end
end
local channel, verb = ARGV[4], ARGV[5]
publish(verb, channel, '0')
return {1, now}
