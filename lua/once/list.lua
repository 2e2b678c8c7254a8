-- once/list: read which fires were run last. It is a script so that it runs on the
-- primary, wherever the caller's client sends its reads.
--
-- Cost: O(n) for n of ARGV[1], at most 1,000, about 0.3 ms.
--
-- KEYS[1]  the list of runs, as in once/note
-- ARGV[1]  how many
--
-- Returns the fires, ms since the epoch, the last to be written last
return redis.call('ZRANGE', KEYS[1], -ARGV[1], -1)
