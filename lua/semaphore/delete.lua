-- semaphore/delete: remove the semaphore.
--
-- KEYS[1]  the permits available: an integer
--
-- Returns 1  there was one
--         0  there was none
-- A key that is something else is left alone, with Redis's WRONGTYPE error.
local permits = KEYS[1]

if not redis.call('GET', permits) then
  return 0
end
return redis.call('DEL', permits)
