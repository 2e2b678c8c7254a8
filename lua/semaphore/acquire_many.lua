-- semaphore/acquire_many: take permits for one caller after another, for each
-- all or none, until one finds too few. Asking twice is the same as asking once:
-- what was granted is remembered under the caller's claim.
-- A request that arrives late, or from a clock too far off, changes nothing.
--
-- Cost: O(n) for n callers in ARGV, about 0.3 ms for 100, which share a run at most.
--
-- KEYS[1]     the permits available: an integer
-- KEYS[2...]  a claim for each caller: the number of the last request that was
--             carried out under it, negative when it was undone; it expires
-- ARGV[1]     ms for which a claim is remembered
-- ARGV[2]     not after: server time, ms since the epoch
-- ARGV[3]     the most by which ARGV[2] may lie ahead, ms
-- ARGV[2i]    permits for the caller of KEYS[i], at least 1
-- ARGV[2i+1]  number of the request of that caller
--
-- Returns {callers served, permits left, server ms}
--         {-2, 0, server ms}  too late, or undone already; nothing was changed
local permits, keep, notafter, ahead = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + time[2] / 1000
if now > notafter or notafter - now > ahead then
  -- What was done in time is done, also when it is asked for again.
  local done = 0
  for i = 2, #KEYS do
    if call('GET', KEYS[i]) ~= ARGV[2 * i + 1] then
      break
    end
    done = i - 1
  end
  return {done > 0 and done or -2, 0, now}
end

local values = call('MGET', unpack(KEYS))
if not values[1] then
  call('GET', permits) -- fails if it is another kind of value
end
local have = integer(values[1] or '0')
if not have then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end

local served, taken, claimed = 0, 0, {}
for i = 2, #KEYS do
  local n, number, last = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1]), tonumber(values[i] or 0)
  if last ~= number then
    if math.abs(last) >= number then
      -- Undone by a caller who has left: those behind it move up.
      if i == 2 then
        return {-2, 0, now}
      end
    elseif have - taken < n then
      break
    else
      call('SET', KEYS[i], number, 'PX', keep)
      taken, claimed[#claimed + 1] = taken + n, i
    end
  end
  served = i - 1
end
if taken > 0 then
  local done = redis.pcall('DECRBY', permits, taken)
  if type(done) == 'table' then
    for _, i in ipairs(claimed) do
      call('SET', KEYS[i], values[i] or 0, 'PX', keep) -- it was not done: this user may not
    end
    return done
  end
end
return {served, have - taken, now}
