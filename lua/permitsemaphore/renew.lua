-- permitsemaphore/renew: extend the leases of permits that are out; never bring
-- one back, never shorten one. Nothing here is refused by a server at its memory limit.
--
-- Cost: O(n log m) for n of KEYS and m permits that are out, about 0.3 ms for 100,
-- which are renewed at a time.
--
-- KEYS[1...]  for each permit the zset it is in: id -> end of the lease, ms since
--             the epoch, or 922337203685477 for never
-- ARGV[1]     not after: server time, ms since the epoch
-- ARGV[2]     the most by which ARGV[1] may lie ahead, ms
-- ARGV[2i+1]  id of the permit in KEYS[i]
-- ARGV[2i+2]  lease for it, ms
--
-- Returns {server ms, a1, a2, ...}, one answer per permit:
--           1 extended (or longer already), 0 not out, or its lease is over,
--           2 the server refused, so that nothing is known
--         {server ms}  too late; nothing was changed
local notafter, ahead = tonumber(ARGV[1]), tonumber(ARGV[2])

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = {now}
if now > notafter or notafter - now > ahead then
  return reply
end

for i = 1, #KEYS do
  local out, id, ends = KEYS[i], ARGV[2 * i + 1], now + tonumber(ARGV[2 * i + 2])
  local answer = 1
  local present = redis.pcall('ZSCORE', out, id)
  if type(present) == 'table' then
    -- There is no permit in a key of another kind.
    local kind = redis.pcall('TYPE', out).ok
    answer = kind and kind ~= 'zset' and 0 or 2
  elseif not present or tonumber(present) <= now then
    answer = 0
  elseif tonumber(present) < ends and type(redis.pcall('ZADD', out, ends, id)) == 'table' then
    -- At the memory limit. ZREM is allowed there, and once it has run ZADD is.
    redis.pcall('ZREM', out, '')
    if type(redis.pcall('ZADD', out, ends, id)) == 'table' then
      answer = 2
    end
  end
  reply[i + 1] = answer
end
return reply
