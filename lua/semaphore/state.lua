-- semaphore/state: tell how many permits are available. It is a script so that
-- it runs on the primary, wherever the caller's client sends its reads.
--
-- KEYS[1]  the permits available: an integer
--
-- Returns the permits, 0 when there is no semaphore
local permits = KEYS[1]

local have = integer(redis.call('GET', permits) or '0')
if not have then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
return have
