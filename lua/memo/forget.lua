-- memo/forget: forget what was kept, and let nothing be kept of the call that runs.
-- Asking twice is the same as asking once, but for calls that begin in between.
--
-- KEYS[1]  the note, and
-- KEYS[2]  the value, as in memo/note
--
-- Returns how many of the two there were
return redis.call('DEL', KEYS[1], KEYS[2])
