-- inspect/sides: read side keys: labels, and what keeps read holds alive. It
-- changes nothing.
--
-- Cost: O(n) for n of KEYS, about 1 ms for 500, which are asked for at a time.
--
-- KEYS[1...]  side keys, each a text that expires
--
-- Returns {text, lease left ms, ...}, for each key; the text has 2048 bytes at
--         most, and is empty where there is none; the lease is -2 then, and -1
--         where the key has no expiry
local out = {}
for i = 1, #KEYS do
  local there = redis.call('TYPE', KEYS[i]).ok == 'string'
  out[2 * i - 1] = there and redis.call('GETRANGE', KEYS[i], 0, 2047) or ''
  out[2 * i] = there and redis.call('PTTL', KEYS[i]) or -2
end
return out
