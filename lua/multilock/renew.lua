-- multilock/renew: extend the leases of sets that are still held whole by the
-- holders named; never create one, never shorten one. Nothing here is refused by
-- a server at its memory limit.
--
-- Cost: O(n) for n values of all sets together, about 5 ms for 1,000; 100 sets are
-- renewed at a time.
--
-- KEYS[1...]  for each set: the group, a hash of v -> holder,
--             v:<holder>:expire_time -> server ms and v:<holder>:lock_count ->
--             hold count for each value v; the claim of the holder; the holder's
--             label, when it has one
-- ARGV[1]     not after: server time, ms since the epoch
-- ARGV[2]     the most by which ARGV[1] may lie ahead, ms
-- ARGV[3...]  for each set: holder; lease, ms; 1 when its label is in KEYS, else
--             0; number of values; the values, hashed
--
-- Returns {server ms, a1, a2, ...}, one answer per set:
--           1 extended (or longer already), 0 not held whole by that holder,
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
  elseif type(redis.pcall('PEXPIRE', key, math.max(left, lease))) == 'table' then
    return 2
  end
  return 1
end

local key, arg = 1, 3
while arg <= #ARGV do
  local group, claim = KEYS[key], KEYS[key + 1]
  local holder, lease = ARGV[arg], tonumber(ARGV[arg + 1])
  local labels, values = tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
  local answer, tills = 1, {}
  for i = 1, values do
    local value = ARGV[arg + 3 + i]
    local owner = redis.pcall('HGET', group, value)
    if type(owner) == 'table' then
      -- A key of another kind is not the holder's.
      local kind = redis.pcall('TYPE', group).ok
      answer = kind and kind ~= 'hash' and 0 or 2
      break
    end
    if owner == holder then
      tills[i] = tonumber(redis.pcall('HGET', group, value .. ':' .. holder .. ':expire_time') or 0)
    end
    if not tills[i] or tills[i] <= now then
      answer = 0
      break
    end
  end
  if answer == 1 then
    answer = extend(claim, lease)
  end
  -- PEXPIRE is allowed at the memory limit, and once it has run HSET is too.
  if answer == 1 then
    for i = 1, values do
      local till = string.format('%.0f', math.max(tills[i], now + lease))
      local done = redis.pcall('HSET', group, ARGV[arg + 3 + i] .. ':' .. holder .. ':expire_time', till)
      if type(done) == 'table' then
        answer = 2
      end
    end
  end
  if answer == 1 then
    answer = extend(group, lease + 1000) -- see multilock/acquire
  end
  if answer == 1 and labels == 1 then
    extend(KEYS[key + 2], lease)
  end
  out[#out + 1] = answer
  key, arg = key + 2 + labels, arg + 4 + values
end
return out
