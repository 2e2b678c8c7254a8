-- publish: how the scripts tell those who listen. It is put before each of them that
-- does, and does nothing by itself.
--
-- Returns nothing; the script that follows does.

-- publish takes how to publish ('PUBLISH', 'SPUBLISH', 'BOTH', or anything else for not
-- at all), the Redis channel and the message. It returns how many connections were told,
-- as far as this server knows; what Redis refuses counts as nobody.
local function publish(verb, channel, message)
  local heard = 0
  if verb == 'PUBLISH' or verb == 'BOTH' then
    local n = redis.pcall('PUBLISH', channel, message)
    heard = type(n) == 'number' and n or 0
  end
  if verb == 'SPUBLISH' or verb == 'BOTH' then
    local n = redis.pcall('SPUBLISH', channel, message)
    if type(n) == 'number' and n > heard then
      heard = n
    end
  end
  return heard
end

