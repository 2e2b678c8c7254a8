-- rlock/acquire_many: take locks, each for a holder of its own, where that is
-- simple: where nobody has the lock. What is not simple is left to rlock/acquire.
-- Asking twice is the same as asking once, as there. A request that arrives late,
-- or from a clock too far off, changes nothing.
--
-- Cost: O(n) for n of KEYS, about 0.3 ms for 100, which share a run at most.
--
-- KEYS[i]     the i-th lock: a hash of holder -> hold count
-- ARGV[1]     lease, ms
-- ARGV[2]     not after: server time, ms since the epoch
-- ARGV[3]     the most by which ARGV[2] may lie ahead, ms
-- ARGV[i+3]   holder that is to have the i-th lock, once
--
-- Returns {server ms, a1, a2, ...}, one answer per lock:
--          1 granted, for that lease; below 0: another holder has it, and minus
--          that many ms are left of the lease; 0: nothing was changed, ask
--          rlock/acquire
--         {server ms}  too late; nothing was changed
local call, try = redis.call, redis.pcall
local lease = ARGV[1]

local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local late = now - ARGV[2]
if late > 0 or -late > tonumber(ARGV[3]) then
  return {now}
end

local out = {now}
for i = 1, #KEYS do
  local lock, holder, answer = KEYS[i], ARGV[i + 3], 0
  local left = call('PTTL', lock)
  if left == -2 then
    if type(try('HSET', lock, holder, '1')) == 'number' then
      -- A lock without a lease would be held for ever.
      if type(try('PEXPIRE', lock, lease)) == 'number' then
        answer = 1
      elseif type(try('DEL', lock)) == 'table' then
        try('HDEL', lock, holder)
      end
    end
  elseif left > 0 and try('HGET', lock, holder) == false then
    answer = -left
  end
  out[i + 1] = answer
end
return out
