-- rlock/release_many: free locks, each of its holder, where that is simple: where
-- the holder has the lock, and nobody waits to be given it. What is not simple is
-- left to rlock/release. Asking twice is the same as asking once, as there.
-- Nothing here is refused by a server at its memory limit.
--
-- Cost: O(n) for n of KEYS, about 0.3 ms for 100, which share a run at most.
--
-- KEYS[i]     the i-th lock: a hash of holder -> hold count
-- KEYS[n]     behind the locks, for each the list of those who are given it (may
--             all be absent): see rlock/release
-- ARGV[1]     how to publish: 'PUBLISH' or 'NONE'
-- ARGV[2]     not after: server time, ms since the epoch; 0: whenever it comes,
--             for holders that will never hold these locks again
-- ARGV[3]     the most by which ARGV[2] may lie ahead, ms
-- ARGV[2i+2]  holder of the i-th lock
-- ARGV[2i+3]  Redis channel of the i-th lock
--
-- Returns {server ms, a1, a2, ...}, one answer per lock:
--          1 + listeners: freed; how many connections were told, as far as this
--          server knows; 0: nothing was changed, ask rlock/release
--         {server ms}  too late; nothing was changed
--         the server ms are 0 when they were not needed
local call, try = redis.call, redis.pcall
local verb, n = ARGV[1], (#ARGV - 3) / 2

local now = 0
if ARGV[2] ~= '0' then
  local time = call('TIME')
  now = time[1] * 1000 + time[2] / 1000
  local late = now - ARGV[2]
  if late > 0 or -late > tonumber(ARGV[3]) then
    return {now}
  end
end

local out = {now}
for i = 1, n do
  local list, answer = KEYS[n + i], 0
  if not list or try('EXISTS', list) == 0 then
    if try('HDEL', KEYS[i], ARGV[2 * i + 2]) == 1 then
      local heard = verb == 'PUBLISH' and try('PUBLISH', ARGV[2 * i + 3], '0')
      answer = 1 + (tonumber(heard or 0) or 0)
    end
  end
  out[i + 1] = answer
end
return out
