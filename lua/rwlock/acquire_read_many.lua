-- rwlock/acquire_read_many: take one read lock for many holders who have no hold of
-- it, where that is simple: where no writer has it. What is not simple is left to
-- rwlock/acquire_read. Asking twice is the same as asking once, as there. A request
-- that arrives late, or from a clock too far off, changes nothing.
--
-- Cost: O(n) for n of KEYS, about 0.3 ms for 100, which share a run at most.
--
-- KEYS[1]    the lock: a hash of mode ('read' or 'write'), reader -> hold count
--            and writer -> hold count, expiring with the longest lease
-- KEYS[2]    the sign of a waiting writer: from and until when to stand back,
--            server ms
-- KEYS[i+2]  the timeout of the i-th holder's first hold; it expires with the
--            lease, and the hold with it
-- ARGV[1]    lease, ms
-- ARGV[2]    not after: server time, ms since the epoch
-- ARGV[3]    the most by which ARGV[2] may lie ahead, ms
-- ARGV[i+3]  i-th holder, who is to have one hold
--
-- Returns {server ms, a1, a2, ...}, one answer per holder:
--          1 granted, for that lease; below 0: a writer has the lock for minus that
--          many ms, or may come first until then; 0: nothing was changed, ask
--          rwlock/acquire_read
--         {server ms}  too late; nothing was changed
local lock, sign, n = KEYS[1], KEYS[2], #ARGV - 3
local call, try = redis.call, redis.pcall

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local late = now - ARGV[2]
if late > 0 or -late > tonumber(ARGV[3]) then
  return {now}
end

local out = {now}
for i = 1, n do
  out[i + 1] = 0
end
local fields = try('HMGET', lock, 'mode', unpack(ARGV, 4))
local left = call('PTTL', lock)
local mode = fields[1]
if fields.err or left == -1 or not mode and left ~= -2 then
  return out
end

-- For how long a writer comes first.
local closed = 0
if mode == 'write' then
  closed = math.max(left, 1) -- in its last millisecond, too
else
  local from, till = string.match(call('GET', sign) or '', '^(%d+) (%d+)$')
  if from and tonumber(from) <= now and now < tonumber(till) then
    closed = till - now
  end
end
if closed > 0 then
  for i = 1, n do
    local holder = ARGV[i + 3]
    if not fields[i + 1] and (mode ~= 'write' or call('HEXISTS', lock, holder .. ':write') == 0) then
      out[i + 1] = -closed
    end
  end
  return out
end

local places, timeouts, readers, add = {}, {}, {}, {}
for i = 1, n do
  if not fields[i + 1] and try('SET', KEYS[i + 2], '1', 'PX', ARGV[1]).ok then
    places[#places + 1] = i + 1
    timeouts[#timeouts + 1] = KEYS[i + 2]
    readers[#readers + 1] = ARGV[i + 3]
    add[#add + 1] = ARGV[i + 3]
    add[#add + 1] = '1'
  end
end
if #places == 0 then
  return out
end
if not mode then
  add[#add + 1] = 'mode'
  add[#add + 1] = 'read'
end
local done = try('HSET', lock, unpack(add))
if type(done) == 'number' and left < tonumber(ARGV[1]) then
  -- A lock without a lease would be held for ever, so a server that lets us
  -- write but not expire gets its key back.
  done = try('PEXPIRE', lock, ARGV[1])
  if type(done) == 'table' then
    if mode then
      try('HDEL', lock, unpack(readers))
    elseif type(try('DEL', lock)) == 'table' then
      try('HDEL', lock, 'mode', unpack(readers))
    end
  end
end
if type(done) == 'table' then
  try('DEL', unpack(timeouts))
  return out
end
for _, place in ipairs(places) do
  out[place] = 1
end
return out
