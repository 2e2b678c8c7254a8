-- rlock/renew: extend the leases of locks that are still held by the holders
-- named; never create one, never shorten one.
--
-- Cost: O(n) for n of KEYS, about 0.3 ms for 100 locks, which are renewed at a time.
--
-- KEYS[1...]  locks, each a hash of holder -> hold count; after a lock whose
--             holder has a label, the key of that label
-- ARGV[1]     not after: server time, ms since the epoch
-- ARGV[2]     the most by which ARGV[1] may lie ahead, ms
-- ARGV[2i+1]  holder of the lock KEYS[i]; empty when KEYS[i] is a label
-- ARGV[2i+2]  lease for KEYS[i], ms
--
-- Returns server ms  all extended
--         {server ms, a1, a2, ...}, one answer per key, when one is not 1:
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

local all, option = 1, true
for i = 1, #KEYS do
  local holder, lease = ARGV[2 * i + 1], ARGV[2 * i + 2]
  local answer = out[i]
  if holder ~= '' then
    local held = redis.pcall('HGET', KEYS[i], holder)
    if type(held) == 'table' then
      -- A key of another kind is not the holder's.
      local kind = redis.pcall('TYPE', KEYS[i]).ok
      answer = kind and kind ~= 'hash' and 0 or 2
    else
      answer = held and 1 or 0
    end
  end
  if answer == 1 then
    -- GT is of Redis 7, and does not touch what has no lease.
    local set = option and redis.pcall('PEXPIRE', KEYS[i], lease, 'GT')
    if set ~= 1 then
      option = option and type(set) ~= 'table'
      local left = redis.pcall('PTTL', KEYS[i])
      if type(left) == 'table' then
        answer = 2
      elseif left < tonumber(lease) and type(redis.pcall('PEXPIRE', KEYS[i], lease)) == 'table' then
        answer = 2
      end
    end
  end
  if answer ~= 1 then
    all = 0
  end
  out[i + 1] = answer
end
return all == 1 and now or out
