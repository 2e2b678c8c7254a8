-- rwlock/release_read_many: give back one hold each of many readers of one lock, where
-- that is simple: where it is the only hold of its reader, and no writer has the lock.
-- What is not simple is left to rwlock/release_read. Asking twice is the same as asking
-- once, as there. Nothing here is refused by a server at its memory limit.
-- It asks for the timeouts of some other read holds, whose keys it builds, as
-- rwlock/release_read does, with the same end.
--
-- Cost: O(n) for n of KEYS, about 0.3 ms for 100, which share a run at most, and for
-- 32 other readers; it does not grow with the readers.
--
-- KEYS[1]    the lock: a hash of mode ('read' or 'write'), reader -> hold count
--            and writer -> hold count, expiring with the longest lease
-- KEYS[i+1]  the timeout of the i-th holder's first hold
-- ARGV[1]    how to publish: 'PUBLISH'
-- ARGV[2]    Redis channel of the lock
-- ARGV[3]    what the timeouts' keys begin with, before the reader
-- ARGV[4]    not after: server time, ms since the epoch; 0: whenever it comes, for
--            holders that will never hold the lock again
-- ARGV[5]    the most by which ARGV[4] may lie ahead, ms
-- ARGV[i+5]  i-th holder
--
-- Returns {server ms, a1, a2, ...}, one answer per holder:
--          1 given back; the lock is freed if nobody is left who is alive;
--          0: nothing was changed, ask rwlock/release_read
--         {server ms}  too late; nothing was changed
--         the server ms are 0 when they were not needed
local lock, prefix, n = KEYS[1], ARGV[3], #ARGV - 5
local try = redis.pcall

-- How many readers are asked first.
local few = 4

local now = 0
if ARGV[4] ~= '0' then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  local late = now - ARGV[4]
  if late > 0 or -late > tonumber(ARGV[5]) then
    return {now}
  end
end

local out = {now}
for i = 1, n do
  out[i + 1] = 0
end
local fields = try('HMGET', lock, 'mode', unpack(ARGV, 6))
local left = call('PTTL', lock)
local near = about(left)
if fields.err or fields[1] ~= 'read' or left <= 0 then
  return out
end
local leave, leaving, timeouts = {}, {}, {}
for i = 1, n do
  local holder = ARGV[i + 5]
  if fields[i + 1] == '1' then
    out[i + 1] = 1
    leave[#leave + 1] = holder
    leaving[holder] = true
    timeouts[#timeouts + 1] = KEYS[i + 1]
  end
end
if #leave == 0 then
  return out
end

-- The lock goes on with the longest lease of those who are left, as far as it is known.
local same, longest, dead, whole = false, -2, {}, true
for _, field in ipairs(try('HRANDFIELD', lock, few)) do -- not to be had: none
  if not same and field ~= 'mode' and not leaving[field] then
    local ms = try('PTTL', prefix .. field .. ':rwlock_timeout:1')
    same = type(ms) ~= 'table' and ms > left - near
  end
end
if not same then
  longest, dead, whole = look(prefix, left, leaving, #leave)
end

local freed = not same and whole and longest < 0
if freed then
  call('DEL', lock)
else
  call('HDEL', lock, unpack(leave))
  for _, field in ipairs(dead) do
    call('HDEL', lock, field)
  end
  if not same and whole then
    try('PEXPIRE', lock, math.max(longest, 1)) -- else it has a longer one
  end
end
try('DEL', unpack(timeouts))
if freed or not same and longest < math.min(left - near, soon) then
  try(ARGV[1], ARGV[2], '0')
end
return out
