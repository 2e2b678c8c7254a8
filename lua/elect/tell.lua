-- elect/tell: tell those who listen that a term has ended. It is a script so that it
-- reaches the server of the election's keys.
--
-- KEYS[1]  the record, as in elect/begin
-- ARGV[1]  Redis channel of the election
-- ARGV[2]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns how many connections were told, as far as this server knows
local channel, verb = ARGV[1], ARGV[2]
local call = redis.call

call('EXISTS', KEYS[1])
local heard = 0
if verb == 'PUBLISH' or verb == 'BOTH' then
  heard = redis.pcall('PUBLISH', channel, '0')
  heard = type(heard) == 'number' and heard or 0
end
if verb == 'SPUBLISH' or verb == 'BOTH' then
  local sharded = redis.pcall('SPUBLISH', channel, '0')
  if type(sharded) == 'number' and sharded > heard then
    heard = sharded
  end
end
return heard
