-- inspect/check: try the commands that scripts use on one kind of key, and tell
-- which are refused. It leaves nothing behind: where that cannot be promised, it
-- writes nothing.
--
-- Cost: O(1) for a key that nobody uses, about 50 µs.
--
-- KEYS[1]  the key to try them on, which nobody uses
-- ARGV[1]  what it is to be: 'hash', 'string', 'list' or 'zset'
--
-- Returns {refusal, ...}  for each command that is refused, its name and why:
--                         'HSET: ...'; empty when all is well
local key, kind = KEYS[1], ARGV[1]

local refusals = {}
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    refusals[#refusals + 1] = (...) .. ': ' .. answer.err
  end
end

try('PEXPIRE', key, 1000)
try('DEL', key)
if #refusals > 0 then
  return refusals
end
if kind == 'hash' then
  try('HSET', key, 'field', 1)
  try('PEXPIRE', key, 1000)
  try('HGET', key, 'field')
  try('HMGET', key, 'field', 'other')
  try('HEXISTS', key, 'field')
  try('HLEN', key)
  try('HVALS', key)
  try('HGETALL', key)
  try('HSCAN', key, 0, 'COUNT', 1)
  try('HRANDFIELD', key, 1)
  try('HDEL', key, 'other')
elseif kind == 'string' then
  try('SET', key, '1', 'PX', 1000)
  try('INCRBY', key, 1)
  try('DECRBY', key, 1)
  try('DECR', key)
  try('PEXPIRE', key, 1000)
  try('GET', key)
  try('MGET', key)
  try('GETRANGE', key, 0, 1)
elseif kind == 'list' then
  try('RPUSH', key, 'one', 'two')
  try('PEXPIRE', key, 1000)
  try('LINDEX', key, 0)
  try('LLEN', key)
  try('LRANGE', key, 0, 1)
  try('LREM', key, 1, 'other')
  try('LPOP', key)
elseif kind == 'zset' then
  try('ZADD', key, 1, 'one')
  try('ZINCRBY', key, 1, 'one')
  try('PEXPIRE', key, 1000)
  try('ZCARD', key)
  try('ZRANGE', key, 0, 0)
  try('ZRANK', key, 'one')
  try('ZSCORE', key, 'one')
  try('ZREM', key, 'other')
  try('ZPOPMIN', key)
end
try('EXISTS', key)
try('TYPE', key)
try('PTTL', key)
try('TIME')
try('UNLINK', key)
try('DEL', key)
return refusals
