-- multilock/acquire: take all values of a set, or none; or raise the hold count
-- of the set for the holder that has it. Asking twice with the same arguments is
-- the same as asking once: the hold count to reach is given. A request that
-- arrives late, or from a clock too far off, changes nothing. In a group of many
-- values it looks at four by chance for each one it takes, and removes those whose lease
-- has been over for a minute: of holders that died, for values that nobody wants.
--
-- Cost: O(n) for n values of the set, about 10 ms for 1,000.
--
-- KEYS[1]    the group: a hash of v -> holder, v:<holder>:expire_time -> server
--            ms and v:<holder>:lock_count -> hold count for each value v that is
--            held, expiring a second after the longest lease
-- KEYS[2]    the claim: how often the holder has this set; it expires with the lease
-- KEYS[3]    the holder's label, when ARGV[6] is not empty
-- ARGV[1]    holder
-- ARGV[2]    hold count of the set that the holder has if this succeeds
-- ARGV[3]    lease, ms
-- ARGV[4]    not after: server time, ms since the epoch
-- ARGV[5]    the most by which ARGV[4] may lie ahead, ms
-- ARGV[6]    label, kept as long as the lease; may be empty
-- ARGV[7...] the values of the set, hashed
--
-- Returns {1, lease left ms, server ms}  granted: the holder has that hold count
--         {0, ms, server ms}             others have values of the set, for ms more
--         {-1, 0, server ms}             the holder has lost what it would re-enter
--         {-2, 0, server ms}             too late; nothing was changed
local group, claim, holder = KEYS[1], KEYS[2], ARGV[1]
local count, lease, notafter = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local ahead, label = tonumber(ARGV[5]), ARGV[6]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > notafter or notafter - now > ahead then
  return {-2, 0, now}
end

local function expires(value, owner)
  return tonumber(call('HGET', group, value .. ':' .. owner .. ':expire_time') or 0) or 0
end

local mine, others, busy = {}, {}, 0
local exact = time[1] * 1000 + time[2] / 1000
for i = 7, #ARGV do
  local value = ARGV[i]
  local owner = call('HGET', group, value)
  if owner then
    local till = expires(value, owner)
    if owner ~= holder then
      others[value] = owner
      if till > now then
        busy = math.max(busy, 1, math.floor(till - exact))
      end
    elseif till > now then
      mine[value] = till
    end
  end
  if count > 1 and not mine[value] then
    return {-1, 0, now}
  end
end
if busy > 0 then
  return {0, busy, now}
end
local had = tonumber(call('GET', claim) or 0) or 0
if had < count - 1 then
  return {-1, 0, now}
end

local till, left = now + lease, call('PTTL', group)
local longest = lease
for i = 7, #ARGV do
  local value, total = ARGV[i], count
  local fields = value .. ':' .. holder
  if mine[value] then
    -- The holder may have it by other sets, too.
    local all = tonumber(call('HGET', group, fields .. ':lock_count') or 0) or 0
    total = math.max(all + count - had, count)
    longest = math.max(longest, mine[value] - now)
  elseif others[value] then
    local dead = value .. ':' .. others[value]
    call('HDEL', group, dead .. ':expire_time', dead .. ':lock_count')
  end
  call('HSET', group, value, holder,
    fields .. ':expire_time', string.format('%.0f', math.max(till, mine[value] or 0)),
    fields .. ':lock_count', total)
end
-- The key outlives the lease by a second: a Java waiter that asks as the lease
-- ends would not set an expiry on a key that has less than 1 ms, and its values
-- would be gone with the key.
longest = longest + 1000
if left < longest then
  -- A group without a lease would be held for ever by those who look at the key
  -- alone, so a server that lets us write but not expire gets its values back.
  local done = redis.pcall('PEXPIRE', group, longest)
  if type(done) == 'table' then
    for i = 7, #ARGV do
      local fields = ARGV[i] .. ':' .. holder
      if not mine[ARGV[i]] then
        redis.pcall('HDEL', group, ARGV[i], fields .. ':expire_time', fields .. ':lock_count')
      end
    end
    if left == -2 then
      redis.pcall('DEL', group)
    end
    return done
  end
end
if left ~= -2 and call('HLEN', group) > 100 + 3 * (#ARGV - 6) then
  local some = redis.pcall('HRANDFIELD', group, -4 * (#ARGV - 6), 'WITHVALUES') -- not to be had: none
  for i = 1, #some, 2 do
    local value, owner = string.match(some[i], '^([^:]+):(.+):expire_time$')
    if value and (tonumber(some[i + 1]) or now) < now - 60000 then
      if redis.pcall('HGET', group, value) == owner then
        redis.pcall('HDEL', group, value)
      end
      redis.pcall('HDEL', group, some[i], value .. ':' .. owner .. ':lock_count')
    end
  end
end
local kept = math.max(call('PTTL', claim), lease)
call('SET', claim, count, 'PX', kept)
if label ~= '' then
  redis.pcall('SET', KEYS[3], label, 'PX', kept)
end
return {1, kept, now}
