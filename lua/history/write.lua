-- history/write: append events to the stream of a history, and keep it for a week.
-- Asking twice appends them twice.
--
-- Cost: O(n) for n events, about 0.5 ms for 64.
--
-- KEYS[1]      the stream, which expires when nobody appends to it
-- ARGV[1]      about how many events are kept
-- ARGV[2]      ms for which the stream is kept
-- ARGV[3]      the names of the fields, one after the other, with a space between
-- ARGV[4...]   the values of the fields of each event
--
-- Returns 1
local stream, most, kept = KEYS[1], ARGV[1], ARGV[2]

redis.call('PEXPIRE', stream, kept) -- a user without this right may not append either
local fields, entry = {}, {}
for field in string.gmatch(ARGV[3], '%S+') do
  fields[#fields + 1] = field
  entry[2 * #fields - 1] = field
end
for i = 4, #ARGV, #fields do
  for j = 1, #fields do
    entry[2 * j] = ARGV[i + j - 1]
  end
  redis.call('XADD', stream, 'MAXLEN', '~', most, '*', unpack(entry))
end
redis.call('PEXPIRE', stream, kept)
return 1
