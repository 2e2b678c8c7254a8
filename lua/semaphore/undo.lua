-- semaphore/undo: give back what an acquire took whose caller has gone, and see
-- to it that it takes nothing if it has yet to come. Asking twice is the same as
-- asking once. Nothing here is refused by a server at its memory limit.
--
-- KEYS[1]  the permits available: an integer
-- KEYS[2]  the claim of the caller: number of the last request that was carried
--          out under it, negative when it was undone; it expires
-- ARGV[1]  permits that the request takes
-- ARGV[2]  number of the request
-- ARGV[3]  ms for which the claim is remembered
-- ARGV[4]  Redis channel of the semaphore
-- ARGV[5]  how to publish: 'PUBLISH', 'SPUBLISH' or 'BOTH'
--
-- Returns 1  it had taken them, and they are given back
--         0  there was nothing to give back, and there will be nothing
local permits, claim, n, number = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local keep, channel, verb = ARGV[3], ARGV[4], ARGV[5]
local call = redis.call

local have, last = call('GET', permits), tonumber(call('GET', claim) or 0)
if last ~= number and math.abs(last) >= number then
  return 0
end
-- PEXPIRE is allowed at the memory limit, and once it has run SET and INCRBY are.
call('PEXPIRE', claim, keep)
call('SET', claim, -number, 'PX', keep)
if last ~= number or not have then
  return 0 -- not taken, or from a semaphore that was deleted since
end
local total = redis.pcall('INCRBY', permits, n)
if type(total) == 'table' then
  call('SET', claim, last, 'PX', keep) -- it was not done: this user may not
  return total
end
if total > 0 then
  publish(verb, channel, total)
end
return 1
