-- inspect/object: show what stands under a name, whatever kind it is of. It
-- changes nothing. Of what is long it reads the beginning.
--
-- Cost: O(n) for n of ARGV[5], which it reads at most of each: about 1 ms for 500
-- fields, 500 clients or 500 permits, and 1 ms for 500 waiters.
--
-- KEYS[1]  the object
-- KEYS[2]  the fencing token counter
-- KEYS[3]  fair lock: the queue, a list of holders
-- KEYS[4]  fair lock: the scores, a sorted set of holder -> ms since the epoch
-- KEYS[5]  fair lock: the clients that are alive, a hash of client id -> ms
-- KEYS[6]  permits that are out: a sorted set of id -> ms since the epoch
-- KEYS[7]  when a latch last ended
-- ARGV[1]  Redis channel of the lock of that name
-- ARGV[2]  Redis channel of the read-write lock
-- ARGV[3]  Redis channel of the semaphore
-- ARGV[4]  Redis channel of the latch
-- ARGV[5]  how many fields, waiters, clients and permits to read
--
-- Returns {type of the object, lease left ms, server ms, value, token, ended,
--          {field, value, ...}, {waiter, score, ...}, {client, ms, ...},
--          {permit, score, ...}, {listeners of ARGV[1], ...},
--          {fields of the object, clients}}
--         the lease is -2 when there is no object, -1 when it has no expiry;
--         value, token and ended are texts, empty where there is none; listeners
--         are those that this server knows of, -1 where it does not tell; the last
--         are how many there are. Of a text no more than 64 bytes are read. Of the
--         waiters and the permits the first ARGV[5] are read; of a hash with more
--         fields only 'mode', where it is there
local object, most = KEYS[1], tonumber(ARGV[5])
local call = redis.call

local function text(key)
  return call('TYPE', key).ok == 'string' and call('GETRANGE', key, 0, 63) or ''
end

local fields, queue, clients, permits = {}, {}, {}, {}
local kind = call('TYPE', object).ok
local size, known = 0, 0
if kind == 'hash' then
  size = call('HLEN', object)
  if size <= most then
    fields = call('HGETALL', object)
  else
    local mode = call('HGET', object, 'mode')
    fields = mode and {'mode', mode} or {}
  end
end
if call('TYPE', KEYS[3]).ok == 'list' then
  local scored = call('TYPE', KEYS[4]).ok == 'zset'
  for i, holder in ipairs(call('LRANGE', KEYS[3], 0, most - 1)) do
    queue[2 * i - 1] = holder
    queue[2 * i] = scored and call('ZSCORE', KEYS[4], holder) or ''
  end
  if call('TYPE', KEYS[5]).ok == 'hash' then
    known = call('HLEN', KEYS[5])
    if known <= most then
      clients = call('HGETALL', KEYS[5])
    end
  end
end
if call('TYPE', KEYS[6]).ok == 'zset' then
  permits = call('ZRANGE', KEYS[6], 0, most - 1, 'WITHSCORES')
end

local listeners = {-1, -1, -1, -1}
for _, count in ipairs({'NUMSUB', 'SHARDNUMSUB'}) do
  local done = redis.pcall('PUBSUB', count, ARGV[1], ARGV[2], ARGV[3], ARGV[4])
  if type(done) == 'table' and not done.err then
    for i = 1, 4 do
      listeners[i] = math.max(listeners[i], tonumber(done[2 * i]) or -1)
    end
  end
end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return {
  kind, call('PTTL', object), now, text(object), text(KEYS[2]), text(KEYS[7]),
  fields, queue, clients, permits, listeners, {size, known},
}
