-- rwlock/readers: what the scripts have in common that look at all readers of a
-- read-write lock. It is put before each of them and does nothing by itself.
--
-- A reader has a key for each of its holds, which expires with the hold's lease: its
-- timeouts. A reader without one is dead.
--
-- Cost: O(n) for n holds of the readers that are looked at, of which there are 32 at
-- most, about 0.1 ms for 32; a hold count that is rubbish counts as 10,000 holds.
--
-- KEYS[1]  the lock: a hash of mode ('read' or 'write'), reader -> hold count
--          and writer -> hold count, expiring with the longest lease
--
-- Returns nothing; the script that follows does.
local call = redis.call

-- How many holds of one reader are looked at: a hold count that is rubbish must
-- not keep the server busy for ever.
local most = 10000

-- Of so many readers all are looked at, and of more so many by chance.
local crowd, chosen = 32, 8

-- A lease of fewer ms than that may be over before a waiter asks by itself how long it
-- lasts; one who has heard of a longer one is told.
local soon = 6000

-- about returns how near to what is left of the lock a lease is as good as that, in ms.
local function about(left)
  return left < soon and 5 or 1000
end

-- lasts returns for how many ms the longest timeout of a reader lasts, below 0 for one
-- that is dead. A timeout that we may not ask for is as good as what is left of the lock,
-- and so is one that may be at the other node of a slot on the move: there a command
-- with several keys is refused, in the words of each server. It is refused for any key
-- that may be there, so it is tried until one is missing for sure.
local moving = true
local function lasts(prefix, reader, holds, left)
  local longest = -2
  for n = 1, math.min(tonumber(holds) or 0, most) do
    local timeout = prefix .. reader .. ':rwlock_timeout:' .. n
    local ms = redis.pcall('PTTL', timeout)
    if ms == -2 and moving then
      local both = redis.pcall('EXISTS', KEYS[1], timeout)
      if type(both) == 'table' then
        ms = both
      else
        moving = false
      end
    end
    longest = math.max(longest, type(ms) == 'table' and left or ms)
  end
  return longest
end

-- look looks at readers, but for those of gone, a table of n. It returns the longest lease
-- among those that it has seen, those of them that are dead, and whether it has seen all.
-- Its work does not grow with the readers, but for n.
local function look(prefix, left, gone, n)
  local whole = call('HLEN', KEYS[1]) - n - 1 <= crowd
  local fields
  if whole then
    fields = call('HGETALL', KEYS[1])
  else
    fields = redis.pcall('HRANDFIELD', KEYS[1], n + chosen, 'WITHVALUES') -- not to be had: none
  end
  local longest, dead = -2, {}
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field ~= 'mode' and not gone[field] then
      local alive = lasts(prefix, field, fields[i + 1], left)
      if alive < 0 then
        dead[#dead + 1] = field
      end
      longest = math.max(longest, alive)
    end
  end
  return longest, dead, whole
end
