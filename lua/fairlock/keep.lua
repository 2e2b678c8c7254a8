-- fairlock/keep: say that a client is alive, and that its waiters are: their
-- scores are raised to what Redisson takes for alive, also when all who stand
-- before them have taken the lock and lowered them. Scores at the head of the
-- queue that have run away, whosever they are, are cut down. Where there are many
-- clients, some by chance are looked at, and those that are dead are removed. It goes on
-- at the memory limit.
--
-- Cost: O(n log m) for n holders in ARGV and m waiters, about 3 ms for 1,000; and about
-- 0.3 ms for the head of the queue.
--
-- KEYS[1]    queue: a list of holders
-- KEYS[2]    scores: a sorted set of holder -> ms since the epoch
-- KEYS[3]    clients: see fairlock/queue
-- ARGV[1]    client id
-- ARGV[2]    for how long that client is alive from now on, ms
-- ARGV[3]    timeout: for how long a dead head may keep its place, ms
-- ARGV[4]    for how long queue and scores are kept beyond the last score, ms
-- ARGV[5]    proof of the client, or '': see fairlock/queue
-- ARGV[6...] its holders that wait
--
-- Returns {server ms, a1, a2, ...}, one answer per holder:
--         1 it has a place, 0 it has none
local queue, scores, clients = KEYS[1], KEYS[2], KEYS[3]
local client, fresh, timeout, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local call = redis.call

-- How many scores at the head of the queue are put right.
local first = 100

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local n = call('LLEN', queue)
local known = call('HLEN', clients)
local out = {now}
if n == 0 then
  for i = 6, #ARGV do
    out[i - 4] = 0
  end
  return out
end
local last = (n + 2) * timeout
local till, proof = string.match(call('HGET', clients, client) or '0', '^(%d*) ?(.*)$')
local none = proof == '' and (tonumber(till) or 0) > now -- it stays so
-- PEXPIRE is allowed at the memory limit, and once it has run the rest is too.
call('PEXPIRE', queue, last + keep)
call('HSET', clients, client, string.format('%.0f ', now + fresh) .. (none and '' or ARGV[5]))
call('PEXPIRE', clients, last + fresh)
-- The first ones have the scores that are right for their places. Of those behind
-- them only ours have, by their rank among the scores, which is near enough.
local place = {}
for i, holder in ipairs(call('LRANGE', queue, 0, first - 1)) do
  place[holder] = i
  local score = call('ZSCORE', scores, holder)
  if score and tonumber(score) > now + (i + 2) * timeout then
    call('ZADD', scores, now + (i + 1) * timeout, holder)
  end
end
for i = 6, #ARGV do
  local score = call('ZSCORE', scores, ARGV[i])
  out[i - 4] = score and 1 or 0
  if score then
    local due = place[ARGV[i]]
    if not due then
      due = math.max(call('ZRANK', scores, ARGV[i]) + 1, first)
    end
    due = now + due * timeout
    if tonumber(score) < due - timeout / 3 then
      call('ZADD', scores, due, ARGV[i])
    end
  end
end
call('PEXPIRE', scores, last + keep)
if known > 200 then
  -- Clients that died so long ago that their waiters are gone by their scores. One that
  -- comes says so every few seconds, and looks at more than one.
  local some = redis.pcall('HRANDFIELD', clients, 20, 'WITHVALUES') -- not to be had: none
  for i = 1, #some, 2 do
    if tonumber(string.match(some[i + 1], '^%d+') or 0) + last < now then
      call('HDEL', clients, some[i])
    end
  end
end
return out
