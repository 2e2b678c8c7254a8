-- inspect/labels: read the labels of holders. Its loop is as long as KEYS.
--
-- KEYS[1...]  the labels
--
-- Returns {label, ...}, one text for each key, empty where there is none
local out = {}
for i = 1, #KEYS do
  out[i] = redis.call('GET', KEYS[i]) or ''
end
return out
