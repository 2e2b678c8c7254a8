package seeded

// lockBugs are those of the reentrant lock: its scripts and how they are used.
var lockBugs = []Bug{
	{
		Name: "rlock/exclusion-hole", What: "acquire does not look whose the lock is",
		File: "lua/rlock/acquire.lua",
		Old:  "  if left ~= -2 then\n    if list", New: "  if false then\n    if list",
		Package: "rlock", Run: "^TestConformance$/^FakeTime$",
	},
	{
		Name: "rlock/lock-without-lease", What: "a new lock never expires",
		File: "lua/rlock/acquire.lua",
		Old:  "if left < lease then", New: "if false then",
		Package: "rlock", Run: "^TestFixedLease$",
	},
	{
		Name: "rlock/ghost-hold", What: "a request that a frozen server carries out late takes the lock for nobody",
		File: "lua/rlock/acquire.lua",
		Old:  "if late > 0 or -late > tonumber(ARGV[5]) then", New: "if -late > tonumber(ARGV[5]) then",
		Package: "rlock", Run: "^TestScriptsRefuseToActOutOfTime$|^TestFaultFrozenServerMakesNoGhosts$",
	},
	{
		Name: "rlock/step-not-state", What: "a repeated acquire counts twice, as any INCR does when go-redis sends it again",
		File: "lua/rlock/acquire.lua",
		Old:  "call('HSET', lock, holder, ARGV[2])", New: "call('HINCRBY', lock, holder, 1)",
		Package: "rlock", Run: "^TestFaultReplay$/^single$",
	},
	{
		Name: "rlock/reentry-of-a-lost-hold", What: "re-entry makes a lock that the holder has lost",
		File: "lua/rlock/acquire.lua",
		Old:  "  if count > 1 then\n", New: "  if false then\n",
		Package: "rlock", Run: "^TestAcquireScript$",
	},
	{
		Name: "rlock/token-grows-on-reentry", What: "a repeated or nested acquire takes another token (Redisson's fenced lock)",
		File: "lua/rlock/acquire.lua",
		Old:  "if tonumber(mine) ~= count then", New: "if true then",
		Package: "rlock", Run: "^TestAcquireScriptFenced$",
	},
	{
		Name: "rlock/token-restarts", What: "after a loss of data tokens begin at 1 again, below those of before",
		File: "lua/rlock/acquire.lua",
		Old:  "token = math.max(token + 1, time[1] * 1000000 + time[2])", New: "token = token + 1",
		Package: "rlock", Run: "^TestAcquireScriptFenced$|^TestWireFencedTokens$",
	},
	{
		Name: "rlock/release-without-compare", What: "a late release frees the successor's lock",
		File: "lua/rlock/release.lua",
		Old:  "if call('HDEL', lock, holder) == 0 then", New: "if call('DEL', lock) == 0 then",
		Package: "rlock", Run: "^TestFaultRepeatedReleaseSparesSuccessor$",
	},
	{
		Name: "rlock/no-publish", What: "a release tells nobody: waiters sleep until their recheck",
		File: "lua/rlock/release.lua",
		Old:  "heard = try('PUBLISH', channel, '0')", New: "heard = 0",
		Package: "rlock", Run: "^TestWireMessage$|^TestNotGivenWhereOthersListen$|^TestReleaseScript$",
	},
	{
		Name: "rlock/many-take-what-is-held", What: "who asks with many others is given a lock that another has",
		File: "lua/rlock/acquire_many.lua",
		Old:  "if left == -2 then", New: "if left ~= 0 then",
		Package: "rlock", Run: "^TestAcquireManyScript$|^TestFaultCrowd$",
	},
	{
		Name: "rlock/many-past-the-list", What: "who frees a lock with many others passes over those who wait to be given it",
		File: "lua/rlock/release_many.lua",
		Old:  "if not list or try('EXISTS', list) == 0 then", New: "if true then",
		Package: "rlock", Run: "^TestReleaseManyScript$",
	},
	{
		Name: "rlock/many-late", What: "a request for many that comes late takes locks for those who have gone",
		File: "lua/rlock/acquire_many.lua",
		Old:  "if late > 0 or", New: "if false or",
		Package: "rlock", Run: "^TestManyScriptsRefuseToActOutOfTime$",
	},
	{
		Name: "rwlock/many-past-a-writer", What: "many readers come in while a writer has the lock",
		File: "lua/rwlock/acquire_read_many.lua",
		Old:  "if closed > 0 then", New: "if false then",
		Package: "rwlock", Run: "^TestAcquireReadManyScript$|^TestFaultCrowdOfReaders$",
	},
	{
		Name: "rwlock/many-in-the-last-millisecond", What: "many readers come in beside a writer in the last millisecond of its lease",
		File: "lua/rwlock/acquire_read_many.lua",
		Old:  "closed = math.max(left, 1)", New: "closed = left",
		Package: "rwlock", Run: "^TestAcquireReadManyAtTheEndOfAWriter$",
	},
	{
		Name: "rwlock/many-end-the-lock", What: "many readers that leave together free the lock of those who stay",
		File: "lua/rwlock/release_read_many.lua",
		Old:  "local freed = not same and longest < 0", New: "local freed = not same",
		Package: "rwlock", Run: "^TestReleaseReadManyScript$",
	},
	{
		Name: "rwlock/many-late", What: "a request for many readers that comes late takes the lock for those who have gone",
		File: "lua/rwlock/acquire_read_many.lua",
		Old:  "if late > 0 or", New: "if false or",
		Package: "rwlock", Run: "^TestReadManyScriptsRefuseToActOutOfTime$",
	},
	{
		Name: "rwlock/one-by-one", What: "once readers have waited they come in one by one for as long as others come",
		File: "internal/engine/acquire.go",
		Old:  "p.Interrupt, p.Apart = taken, c.spec.Shared", New: "p.Interrupt, p.Apart = taken, false",
		Package: "rwlock", Run: "^TestReadersGoInTogether$",
	},
	{
		Name: "rlock/list-without-end", What: "the list of those who wait never expires once its last entry was put back",
		File: "lua/rlock/release.lua",
		Old:  "            call('PEXPIRE', list, stale / 1000)\n", New: "",
		Package: "rlock", Run: "^TestReleaseScriptGives$",
	},
	{
		Name: "rlock/release-needs-memory", What: "at the memory limit a nested release is refused",
		File: "lua/rlock/release.lua",
		Old:  "if left > 0 then\n  call('PEXPIRE', lock, left)", New: "if false then\n  call('PEXPIRE', lock, left)",
		Package: "rlock", Run: "^TestScriptsAtTheMemoryLimit$",
	},
	{
		Name: "rlock/release-step-not-state", What: "a repeated nested release takes the outer hold as well",
		File: "lua/rlock/release.lua",
		Old:  "if held <= count then\n  return {2, held, now}\nend", New: "count = held - 1",
		Package: "rlock", Run: "^TestReleaseScript$|^TestFaultReplay$/^single$",
	},
	{
		Name: "rlock/renew-of-anybody", What: "a renewal extends a lock that is somebody else's",
		File: "lua/rlock/renew.lua",
		Old:  "answer = held and 1 or 0", New: "answer = 1",
		Package: "rlock", Run: "^TestRenewScript$",
	},
	{
		Name: "rlock/renew-shortens", What: "a renewal cuts a longer lease (Redisson #1110)",
		File: "lua/rlock/renew.lua",
		Old:  "elseif left < tonumber(lease) and type(", New: "elseif type(",
		Package: "rlock", Run: "^TestRenewScript$|^TestNestedLeases$",
	},
	{
		Name: "rlock/nested-lease-shortens", What: "a nested acquire cuts the lease of the outer one (Redisson #2144)",
		File: "lua/rlock/acquire.lua",
		Old:  "if left < lease then\n  -- A lock", New: "if true then\n  -- A lock",
		Package: "rlock", Run: "^TestNestedLeases$|^TestAcquireScript$",
	},
	{
		Name: "rlock/given-to-the-dead", What: "an unlock gives the lock to a client that does not hear of it",
		File: "lua/rlock/release.lua",
		Old:  " and listen[4] > 0) then", New: ") then",
		Package: "rlock", Run: "^TestNotGivenToTheDead$|^TestReleaseScriptGives$",
	},
	{
		Name: "rlock/given-past-others", What: "an unlock gives the lock on although Java's waiters listen, who never get it",
		File: "lua/rlock/release.lua",
		Old:  "if others < 0 or others > known or time[2] % turn == turn - 1 then", New: "if false then",
		Package: "rlock", Run: "^TestNotGivenWhereOthersListen$|^TestReleaseScriptGives$",
	},
	{
		Name: "rlock/pass-of-nothing", What: "a lock is passed on by one who has lost it",
		File: "lua/rlock/pass.lua",
		Old:  "if not has[2] then", New: "if false then",
		Package: "rlock", Run: "^TestPassScript$",
	},
	{
		Name: "rlock/force-is-silent", What: "a forced unlock wakes nobody",
		File: "lua/rlock/force.lua",
		Old:  "redis.pcall('PUBLISH', channel, '0')", New: "redis.pcall('EXISTS', lock)",
		Package: "rlock", Run: "^TestForceScript$|^TestWireMessage$",
	},
	{
		Name: "rlock/stale-re-entry-waits", What: "a re-entry into what another has by now waits for it",
		File: "lua/rlock/acquire.lua",
		Old:  "  if count > 1 then\n    return {-1", New: "  if count > 1 and left == -2 then\n    return {-1",
		Package: "rlock", Run: "^TestAcquireScript$",
	},
	{
		Name: "rlock/linger-is-silent", What: "who waits is not told that HoldAtLeast ends before the lease that it was shown",
		File: "lua/rlock/release.lua",
		Old:  "  -- Who waits has been told of a longer lease, and looks again.\n", New: "  verb = 'NONE'\n",
		Package: "rlock", Run: "^TestConformance$/^FakeTime$",
	},
	{
		Name: "rlock/pass-is-silent", What: "who waits is not told of a hand-over to a shorter lease",
		File: "lua/rlock/pass.lua",
		Old:  "if verb and (left > lease + 1000 or left == -1 and lease ~= -1) then", New: "if false then",
		Package: "rlock", Run: "^TestPassScriptTellsOfAShorterLease$",
	},
}

// rwBugs are those of the read-write lock.
var rwBugs = []Bug{
	{
		Name: "rwlock/force-of-the-other-half", What: "the read half takes the hold of a writer for a reader's",
		File: "internal/engine/force.go",
		Old:  "	if s.Other != \"\" {", New: "	if false {",
		Package: "rwlock", Run: "^TestForceUnlockHolderOfTheOtherHalf$",
	},
	{
		Name: "rwlock/reader-deletes-writer", What: "a read unlock under a write lock deletes both (Redisson #891)",
		File: "lua/rwlock/release_read.lua",
		Old:  "local freed = count == 0 and mode == 'read' and longest < 0", New: "local freed = count == 0",
		Package: "rwlock", Run: "^TestNestedReadUnderWrite$|^TestDowngrade$",
	},
	{
		Name: "rwlock/writer-beside-readers", What: "a writer does not look for readers",
		File: "lua/rwlock/acquire_write.lua",
		Old:  "  if longest >= 0 then\n    local signed", New: "  if false then\n    local signed",
		Package: "rwlock", Run: "^TestReadersShareAndWritersDoNot$",
	},
	{
		Name: "rwlock/reader-beside-writer", What: "a reader does not look for a writer",
		File: "lua/rwlock/acquire_read.lua",
		Old:  "local closed = mode == 'write' and call('HEXISTS', lock, writer) == 0", New: "local closed = false",
		Package: "rwlock", Run: "^TestReadersShareAndWritersDoNot$",
	},
	{
		Name: "rwlock/dead-reader-stays", What: "a writer waits for readers whose leases are over",
		File: "lua/rwlock/acquire_write.lua",
		Old:  "  if longest >= 0 then\n    local signed", New: "  if mode then\n    local signed",
		Package: "rwlock", Run: "^TestDeadReadersWhoseHashLives$|^TestDeadReaderBesideLiveOnes$|^TestAcquireWriteScript$",
	},
	{
		Name: "rwlock/last-reader-is-silent", What: "the last reader to leave wakes no writer (Redisson #3891)",
		File: "lua/rwlock/release_read.lua",
		Old:  "if freed or count == 0", New: "if false or count == 0",
		Package: "rwlock", Run: "^TestLastReaderWakesWriter$",
	},
	{
		Name: "rwlock/downgrade-is-silent", What: "a write unlock that leaves own read holds does not wake readers",
		File: "lua/rwlock/release_write.lua",
		Old:  "publish() -- when it stays", New: "if longest < 0 then publish() end -- when it stays",
		Package: "rwlock", Run: "^TestDowngrade$|^TestReleaseWriteScript$",
	},
	{
		Name: "rwlock/shorter-reader-wins", What: "a reader with a shorter lease cuts that of all",
		File: "lua/rwlock/acquire_read.lua",
		Old:  "if left < lease then", New: "if true then",
		Package: "rwlock", Run: "^TestLeasesOfReaders$|^TestWireLongestLease$",
	},
	{
		Name: "rwlock/starved-writer", What: "readers never heed the sign of a waiting writer",
		File: "lua/rwlock/acquire_read.lua",
		Old:  "if own < 0 and mode ~= 'write' then", New: "if false then",
		Package: "rwlock", Run: "^TestWriterIsNotStarved$|^TestSignOfAWriter$",
	},
	{
		Name: "rwlock/starved-readers", What: "the sign of a waiting writer has no end",
		File: "lua/rwlock/acquire_write.lua",
		Old:  "from .. ' ' .. now + back", New: "from .. ' ' .. now + 1000 * back",
		Package: "rwlock", Run: "^TestReadersAreNotStarved$|^TestSignOfAWriter$",
	},
	{
		Name: "rwlock/read-hold-not-renewed", What: "of a reader's keys only the lock is renewed (Redisson #1604)",
		File: "lua/rwlock/renew.lua",
		Old:  "answer = extend(KEYS[key + i], lease)", New: "answer = 1",
		Package: "rwlock", Run: "^TestRenewal$|^TestRenewScript$",
	},
	{
		Name: "rwlock/upgrade", What: "a reader that asks to write waits for itself",
		File: "internal/engine/acquire.go",
		Old:  "case count == 0 && s.NoUpgrade && e.otherCount(ent.key.holder, s) > 0:", New: "case count == 0 && s.NoUpgrade && e.otherCount(ent.key.holder, s) > 99:",
		Package: "rwlock", Run: "^TestUpgradeIsRefused$",
	},
}

// fairBugs are those of the fair lock.
var fairBugs = []Bug{
	{
		Name: "fairlock/force-tells-nobody", What: "the next one of the same client is not told that a holder was ousted",
		File: "internal/engine/force.go",
		Old:  "		e.turn(s, ret.Next)\n", New: "",
		Package: "fairlock", Run: "^TestForceUnlockHolderWakesOwnWaiter$",
	},
	{
		Name: "fairlock/gift-outlasts-the-lease", What: "who is given the lock keeps it closed for longer than it asked for",
		File: "internal/engine/bequest.go",
		Old:  "			e.mayCut(s, g)\n", New: "",
		Package: "fairlock", Run: "^TestGivenWithAShortLease$",
	},
	{
		Name: "fairlock/barging", What: "who comes when the lock is free overtakes the queue",
		File: "lua/fairlock/acquire.lua",
		Old:  "if head and head ~= holder then", New: "if false then",
		Package: "fairlock", Run: "^TestTryLockDoesNotQueueOrBarge$|^TestFirstComeFirstServed$",
	},
	{
		Name: "fairlock/stray-meets-one-who-comes-again", What: "the place of one who is gone is given up when he has come again, and has the lock",
		File: "internal/engine/queue.go",
		Old:  "		if ent.lockOps(ctx) != nil {\n			return\n		}\n		defer ent.unlockOps()\n		if ent.counted() > 0 ||", New: "		if ent.counted() > 0 ||",
		Package: "fairlock", Run: "^TestStrayPlaceOfOneWhoComesAgain$",
	},
	{
		Name: "fairlock/dead-head-stays", What: "a dead waiter at the head keeps all behind it (Redisson #1104, #2278)",
		File: "lua/fairlock/queue.lua",
		Old:  "if alive == 0 and score > now then", New: "if alive == 0 then",
		Package: "fairlock", Run: "^TestDeadClients$",
	},
	{
		Name: "fairlock/dead-client-stays", What: "waiters of a client that has died are never swept",
		File: "lua/fairlock/queue.lua",
		Old:  "if alive > now then", New: "if alive > 0 then",
		Package: "fairlock", Run: "^TestDeadClients$|^TestDeadHeads$",
	},
	{
		Name: "fairlock/place-not-given-up", What: "who gives up stays in the queue",
		File: "lua/fairlock/leave.lua",
		Old:  "local places = call('LREM', queue, side, holder)", New: "local places = 0",
		Package: "fairlock", Run: "^TestWaitLeaves$|^TestLeave$",
	},
	{
		Name: "fairlock/leaving-head-is-silent", What: "a head that gives up does not wake the next one (Redisson #3730)",
		File: "lua/fairlock/leave.lua",
		Old:  "if left == -2 then", New: "if false then",
		Package: "fairlock", Run: "^TestHeadThatLeavesWakesTheNext$|^TestLeave$",
	},
	{
		Name: "fairlock/two-places", What: "a repeated request stands in the queue twice",
		File: "lua/fairlock/acquire.lua",
		Old:  "if added == 0 then\n    return", New: "added = 1\n  if false then\n    return",
		Package: "fairlock", Run: "^TestFaultsOfAcquire$|^TestVectors$|^TestReentryAndCounts$",
	},
	{
		Name: "fairlock/release-is-silent", What: "a release does not tell the next one",
		File: "lua/fairlock/release.lua",
		Old:  "  elseif head then\n    poke(prefix, head, whose, verb)", New: "  elseif false then\n    poke(prefix, head, whose, verb)",
		Package: "fairlock", Run: "^TestJavaHeadAsleep$|^TestReleaseToHeir$|^TestVectors$|^TestJavaInTheQueue$",
	},
	{
		Name: "fairlock/given-to-the-dead", What: "a release gives the lock to a client that has not been heard of lately",
		File: "lua/fairlock/release.lua",
		Old:  "if gives and head and whose and good >= sure and give(head, good) then", New: "if gives and head and whose and give(head, 30000) then",
		Package: "fairlock", Run: "^TestGivenToADeadClient$|^TestGivenToAnotherClient$|^TestGivenWithALeaseOfItsOwn$",
	},
	{
		Name: "fairlock/runaway-scores", What: "scores of the queue are only ever raised (Redisson #3004)",
		File: "lua/fairlock/queue.lua",
		Old:  "if score > now + 2 * timeout then", New: "if false then",
		Package: "fairlock", Run: "^TestRunawayScores$",
	},
	{
		Name: "fairlock/leave-lowers-too-far", What: "one who leaves lowers scores so far that Java drops one who lives",
		File: "lua/fairlock/leave.lua",
		Old:  "lower(behind, n, wait", New: "lower(behind, rank or 0, wait",
		Package: "fairlock", Run: "^TestLeaveOutOfOrder$",
	},
	{
		Name: "fairlock/lost-unlock-is-silent", What: "an Unlock that comes too late wakes nobody",
		File: "internal/engine/release.go",
		Old:  "if h.spec.Queue != nil && errors.Is(err, ErrLeaseLost) {", New: "if h.spec.Queue != nil && err == nil {",
		Package: "fairlock", Run: "^TestUnlockAfterLossWakesTheNext$",
	},
}
