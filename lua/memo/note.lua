-- memo/note: what the scripts know of a call and of what came of it. It is put before
-- each of them and does nothing by itself.
--
-- KEYS[2]  the note: a hash that expires, of call, mark, holder, since (server ms) and who
--          of the call that runs; and of failed, failedmark, error and until (server ms)
--          of the last call that has failed
-- KEYS[3]  the value: a text that expires, of a head and what was kept; the head is
--          'fresh made call length' and a line feed, and the mark of that length behind:
--          fresh is until when it is fresh (server ms; 0: as long as it is there), made is
--          when it was made (server ms)
--
-- Returns nothing; the script that follows does.
local note, value = KEYS[2], KEYS[3]
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- head returns until when the value is fresh, and its call; nothing if there is no value,
-- and an error if it is none of ours.
local function head()
  local text = call('GETRANGE', value, 0, 99)
  if text == '' then
    return nil
  end
  local fresh, of = string.match(text, '^(%d+) %d+ (%w+) %d+\n')
  if not fresh then
    return nil, nil, redis.error_reply('WRONGTYPE the value is none that latchkey has kept')
  end
  return tonumber(fresh), of
end

