-- semaphore/delete: remove the semaphore.
--
-- KEYS[1]  the permits available: an integer
--
-- Returns 1  there was one
--         0  there was none
-- A key that is something else is left alone, with Redis's WRONGTYPE error, or where
-- it is a string the error 'WRONGTYPE value is not an integer or out of range'.
local permits = KEYS[1]

local have = redis.call('GET', permits)
if not have then
  return 0
end
if not integer(have) then
  return redis.error_reply('WRONGTYPE value is not an integer or out of range')
end
return redis.call('DEL', permits)
