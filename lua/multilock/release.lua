-- multilock/release: bring the hold count of a set down for a holder; free the
-- values that it has by no other set at 0. Asking twice is the same as asking
-- once: the hold count to reach is given. Nothing here is refused by a server at
-- its memory limit.
--
-- Cost: O(n) for n values of the set, about 10 ms for 1,000.
--
-- KEYS[1]     the group: a hash of v -> holder, v:<holder>:expire_time -> server
--             ms and v:<holder>:lock_count -> hold count for each value v
-- KEYS[2]     the claim: how often the holder has this set
-- KEYS[3]     the holder's label, when it has one (may be absent)
-- ARGV[1]     holder
-- ARGV[2]     hold count of the set to reach
-- ARGV[3]     not after: server time, ms since the epoch; 0: whenever it comes,
--             for a holder that will never hold the set again
-- ARGV[4]     the most by which ARGV[3] may lie ahead, ms
-- ARGV[5]     Redis channel of the group
-- ARGV[6]     how to publish: 'PUBLISH', 'SPUBLISH', 'BOTH' or 'NONE'
-- ARGV[7]     ms for which freed values stay closed, 0 for not at all
-- ARGV[8]     the holder in whose name they stay closed, when ARGV[7] is above 0
-- ARGV[9...]  the values of the set, hashed
--
-- Returns {1, holds left, server ms}  brought down, and freed at 0
--         {2, holds left, server ms}  it was that low already; nothing was changed
--         {-1, 0, server ms}          the holder does not hold all values of the
--                                     set; those that it did are given back
--         {-2, 0, server ms}          too late; nothing was changed
local group, claim, holder = KEYS[1], KEYS[2], ARGV[1]
local count, notafter, ahead = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local channel, verb, linger, heir = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if notafter > 0 and (now > notafter or notafter - now > ahead) then
  return {-2, 0, now}
end

local had = tonumber(call('GET', claim) or 0) or 0
if had == 0 then
  call('HLEN', group) -- says so where the key is no hash
  return {-1, 0, now}
end
if had <= count then
  return {2, had, now}
end

-- HDEL is allowed at the memory limit, and once it has run the rest is too.
local left = call('PTTL', group)
call('HDEL', group, '')
local whole, freed = true, false
for i = 9, #ARGV do
  local value = ARGV[i]
  local fields = value .. ':' .. holder
  local till = 0
  local owner = redis.pcall('HGET', group, value)
  if type(owner) == 'table' and not freed then
    return owner
  end
  -- It fails behind the last value of all, which takes the key with it, while the slot is
  -- on the move.
  if owner == holder then
    till = tonumber(call('HGET', group, fields .. ':expire_time') or 0) or 0
  end
  if till <= now then
    whole = false
  else
    local all = tonumber(call('HGET', group, fields .. ':lock_count') or 0) or 0
    if all > had - count then
      call('HSET', group, fields .. ':lock_count', all - had + count)
    else
      freed = true
      if linger > 0 then
        local next = value .. ':' .. heir
        call('HSET', group, value, heir, next .. ':expire_time', string.format('%.0f', now + linger),
          next .. ':lock_count', 1)
      else
        call('HDEL', group, value)
      end
      call('HDEL', group, fields .. ':expire_time', fields .. ':lock_count')
    end
  end
end
if linger > 0 and left >= 0 and left < linger + 1000 then -- see multilock/acquire
  redis.pcall('PEXPIRE', group, linger + 1000) -- else they are free before
end
if count > 0 and whole then
  local kept = call('PTTL', claim)
  call('SET', claim, count, 'PX', math.max(kept, 1))
else
  call('DEL', claim)
  if KEYS[3] then
    redis.pcall('DEL', KEYS[3])
  end
end
if freed then
  -- When they stay closed, too: the waiters have been told of a longer lease, and all
  -- look again, for nobody says so when they are free. '1' wakes all threads of
  -- Redisson that sleep, '0' one, or one that is about to.
  for _, message in ipairs(linger > 0 and {'1', '0'} or {'0'}) do
    publish(verb, channel, message)
  end
end
if not whole then
  return {-1, 0, now}
end
return {1, count, now}
