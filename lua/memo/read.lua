-- memo/read: read what is known of a call. It is a script so that it runs on the primary,
-- wherever the caller's client sends its reads.
--
-- KEYS[1]  the lock: a hash of holder -> hold count
-- 2 and 3  note and value: see memo/note
-- ARGV[1]  a call, or '': while it runs, the value is left out
--
-- Returns {server ms, left, call, mark, since, failed, mark of that, error, kept, value}
--         left is what is left of the lease of the lock in ms, as PTTL says it; the call
--         that runs is '' if there is none; what has failed is '' if nothing has; kept is
--         '1' while the error is for all; the value is '' if there is none
local lock = KEYS[1]

local got = call('HMGET', note, 'call', 'mark', 'since', 'failed', 'failedmark', 'error', 'until', 'holder')
local out = {now, call('PTTL', lock), '', '', '', '', '', '', '', ''}
if got[1] and call('HEXISTS', lock, got[8]) == 1 then
  out[3], out[4], out[5] = got[1], got[2], got[3]
end
if got[4] then
  out[6], out[7], out[8] = got[4], got[5], got[6]
  if tonumber(got[7] or 0) > now then
    out[9] = '1'
  end
end
if ARGV[1] == '' or out[3] ~= ARGV[1] then
  local _, _, wrong = head()
  if wrong then
    return wrong
  end
  out[10] = call('GETRANGE', value, 0, -1)
end
return out
