-- label/write: write labels, keep those that are there, or remove them.
-- Asking twice is the same as asking once.
--
-- Cost: O(n) for n of KEYS, about 0.2 ms for 100.
--
-- KEYS[1...]  the labels, each a text that expires with the lease
-- ARGV[1]     the text of all; empty to write none, and keep those that are there
-- ARGV[i+1]   lease for KEYS[i], ms; 0 to remove it
--
-- Returns 1. What a server at its memory limit refuses is left out: a label is for
--         people, and nothing depends on it
local text = ARGV[1]

for i = 1, #KEYS do
  local label, lease = KEYS[i], tonumber(ARGV[i + 1])
  if lease == 0 then
    redis.pcall('DEL', label)
  elseif text ~= '' then
    redis.pcall('SET', label, text, 'PX', lease)
  elseif redis.call('PTTL', label) < lease then
    redis.pcall('PEXPIRE', label, lease)
  end
end
return 1
