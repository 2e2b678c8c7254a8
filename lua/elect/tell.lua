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
return publish(verb, channel, '0')
