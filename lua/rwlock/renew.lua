-- rwlock/renew: extend the leases of read and write locks that are still held by
-- the holders named, with the timeouts of read holds; never create one, never
-- shorten one, never touch another holder's.
--
-- Cost: O(n) for n of KEYS, about 0.5 ms for 100 holds, which are renewed at a time.
--
-- KEYS[1...]  for each lock: the lock, a hash of mode, reader -> hold count and
--             writer -> hold count; for a reader the timeouts of its holds, from
--             the first on; the holder's label, when it has one
-- ARGV[1]     not after: server time, ms since the epoch
-- ARGV[2]     the most by which ARGV[1] may lie ahead, ms
-- ARGV[4i-1]  holder of the i-th lock
-- ARGV[4i]    lease for it, ms
-- ARGV[4i+1]  number of its timeouts in KEYS; 0 for a writer
-- ARGV[4i+2]  1 when its label is in KEYS, else 0
--
-- Returns {server ms, a1, a2, ...}, one answer per lock:
--           1 extended (or longer already), 0 not held by that holder,
--           2 the server refused, so that nothing is known
--         {server ms}  too late; nothing was changed
local notafter, ahead = tonumber(ARGV[1]), tonumber(ARGV[2])

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local out = {now}
if now > notafter or notafter - now > ahead then
  return out
end

-- extend returns 0 when there is nothing to extend.
local function extend(key, lease)
  local left = redis.pcall('PTTL', key)
  if type(left) == 'table' then
    return 2
  elseif left == -2 then
    return 0
  elseif left < lease and type(redis.pcall('PEXPIRE', key, lease)) == 'table' then
    return 2
  end
  return 1
end

local key = 1
for arg = 3, #ARGV, 4 do
  local lock, holder, lease = KEYS[key], ARGV[arg], tonumber(ARGV[arg + 1])
  local timeouts, labels = tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
  local answer
  local held = redis.pcall('HGET', lock, holder)
  if type(held) == 'table' then
    -- A key of another kind is not the holder's.
    local kind = redis.pcall('TYPE', lock).ok
    answer = kind and kind ~= 'hash' and 0 or 2
  else
    answer = held and 1 or 0
  end
  if answer == 1 then
    -- A hold may have been given back since this was sent.
    for i = 1, math.min(timeouts, tonumber(held) or 0) do
      if answer == 1 then
        answer = extend(KEYS[key + i], lease)
      end
    end
  end
  if answer == 1 then
    answer = extend(lock, lease)
  end
  if answer == 1 and labels == 1 then
    extend(KEYS[key + 1 + timeouts], lease)
  end
  out[#out + 1] = answer
  key = key + 1 + timeouts + labels
end
return out
