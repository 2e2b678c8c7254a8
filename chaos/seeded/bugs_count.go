package seeded

// countBugs are those of semaphores, permits and latches.
var countBugs = []Bug{
	{
		Name: "permitsemaphore/shorter-lease-not-told", What: "who waits does not hear that a permit ends sooner than it knows",
		File: "lua/permitsemaphore/update.lua",
		Old:  "if ends < was then", New: "if false then",
		Package: "tests/topology", Run: "^TestLeaseThatIsMadeShorter$",
	},
	{
		Name: "countdownlatch/head-forgets", What: "who looks next for all does not know when a count last ended",
		File: "countdownlatch/latch.go",
		Old:  "	w.looked, w.ended = b.looked, b.ended\n", New: "	_ = b\n",
		Package: "countdownlatch", Run: "^TestNextCountBehindOneWhoGaveUp$",
	},
	{
		Name: "semaphore/over-capacity", What: "permits are taken that are not there",
		File: "lua/semaphore/acquire.lua",
		Old:  "if left < 0 then", New: "if have < 0 then",
		Package: "semaphore", Run: "^TestPermits$|^TestWait$",
	},
	{
		Name: "semaphore/acquire-counted-twice", What: "a repeated acquire takes its permits twice",
		File: "lua/semaphore/acquire.lua",
		Old:  "if last and math.abs(last) >= tonumber(number) then", New: "if false then",
		Package: "semaphore", Run: "^TestClaim$",
	},
	{
		Name: "semaphore/release-counted-twice", What: "a repeated release gives permits that were never there",
		File: "lua/semaphore/release.lua",
		Old:  "if last and math.abs(last) >= tonumber(number) then", New: "if false then",
		Package: "semaphore", Run: "^TestReleaseScript$",
	},
	{
		Name: "semaphore/blind-undo", What: "an undo gives back what was never taken",
		File: "lua/semaphore/undo.lua",
		Old:  "if last ~= number or not have then", New: "if not have then",
		Package: "semaphore", Run: "^TestClaim$",
	},
	{
		Name: "semaphore/undo-before-the-request", What: "a request that comes behind its undo takes permits for nobody",
		File: "lua/semaphore/undo.lua",
		Old:  "call('SET', claim, -number, 'PX', keep)", New: "call('DEL', claim)",
		Package: "semaphore", Run: "^TestClaim$",
	},
	{
		Name: "semaphore/release-is-silent", What: "released permits wake nobody (Redisson #5762)",
		File: "lua/semaphore/release.lua",
		Old:  "if total > 0 and tonumber(n) > 0 then", New: "if false then",
		Package: "semaphore", Run: "^TestTwoAndOne$|^TestWhateverAddsWakes$",
	},
	{
		Name: "semaphore/group-served-short", What: "one question for many serves more than there are permits",
		File: "lua/semaphore/acquire_many.lua",
		Old:  "elseif have - taken < n then", New: "elseif have < n then",
		Package: "semaphore", Run: "^TestAcquireManyScript$",
	},
	{
		Name: "permitsemaphore/late-release-keeps-the-rest", What: "a Release that comes too late leaves the permit to what is left of its lease",
		File: "internal/engine/lease.go",
		Old:  "if !asks {", New: "if true {",
		Package: "permitsemaphore", Run: "^TestLateReleaseGivesBackTheRest$",
	},
	{
		Name: "permitsemaphore/leak", What: "permits whose lease is over do not come back",
		File: "lua/permitsemaphore/acquire.lua",
		Old:  "have = have + lapsed\n", New: "\n",
		Package: "permitsemaphore", Run: "^TestAcquireScript$|^TestFixedLease$|^TestNearestDeadline$",
	},
	{
		Name: "permitsemaphore/acquire-counted-twice", What: "a repeated acquire takes another permit",
		File: "lua/permitsemaphore/acquire.lua",
		Old:  "if not call('ZSCORE', out, ARGV[at + 2]) then", New: "if true then",
		Package: "permitsemaphore", Run: "^TestAcquireScript$",
	},
	{
		Name: "permitsemaphore/not-all-or-none", What: "of several ids those that are out are released though one is unknown",
		File: "lua/permitsemaphore/release.lua",
		Old:  "local back = known > 0 and (not all or known == #ARGV - 4)", New: "local back = known > 0",
		Package: "permitsemaphore", Run: "^TestReleaseScript$|^TestPermits$",
	},
	{
		Name: "permitsemaphore/release-counted-twice", What: "a release of an unknown id adds a permit",
		File: "lua/permitsemaphore/release.lua",
		Old:  "  call('INCRBY', permits, reply[1])\n", New: "  call('INCRBY', permits, #ARGV - 4)\n",
		Package: "permitsemaphore", Run: "^TestReleaseScript$|^TestPermits$",
	},
	{
		Name: "permitsemaphore/asks-behind-the-last", What: "a release that has given back the last permit asks for one that is unknown, and fails, in a slot on the move",
		File: "lua/permitsemaphore/release.lua",
		Old:  "if reply[i - 3] == 1 then", New: "if true then",
		Package: "permitsemaphore", Run: "^TestCloseWhileTheSlotMoves$",
	},
	{
		Name: "permitsemaphore/label-stays", What: "a permit that is given back by its id leaves its label for the rest of the lease",
		File: "lua/permitsemaphore/release.lua",
		Old:  "if back or reply[i - 3] == 0 then", New: "if reply[i - 3] == 0 then",
		Run: "^TestLabelOfAPermit$",
	},
	{
		Name: "permitsemaphore/renew-revives", What: "a renewal brings a permit back whose lease is over",
		File: "lua/permitsemaphore/renew.lua",
		Old:  "elseif not present or tonumber(present) <= now then", New: "elseif not present then",
		Package: "permitsemaphore", Run: "^TestOtherScripts$|^TestVanished$",
	},
	{
		Name: "permitsemaphore/lapsed-is-silent", What: "waiters are not told of permits that have lapsed",
		File: "lua/permitsemaphore/acquire.lua",
		Old:  "if lapsed > 0 and total > 0 then", New: "if false then",
		Package: "permitsemaphore", Run: "^TestRawPeer$",
	},
	{
		Name: "latch/counted-twice", What: "a repeated count-down counts two",
		File: "lua/countdownlatch/countdown.lua",
		Old:  "if last == number then", New: "if false then",
		Package: "countdownlatch", Run: "^TestCountsOnce$|^TestScripts$",
	},
	{
		Name: "latch/opens-early", What: "the count ends one too early",
		File: "lua/countdownlatch/countdown.lua",
		Old:  "if left > 1 then", New: "if left > 2 then",
		Package: "countdownlatch", Run: "^TestCount$",
	},
	{
		Name: "latch/never-opens", What: "the end of the count is told to nobody",
		File: "lua/countdownlatch/countdown.lua",
		Old:  "publish(verb, channel, '0')\n", New: "",
		Package: "countdownlatch", Run: "^TestCount$|^TestManyWaiters$",
	},
	{
		Name: "latch/next-count-holds-waiters", What: "who waited for a count that has ended waits for the next one, too",
		File: "lua/countdownlatch/countdown.lua",
		Old:  "call('SET', ended, string", New: "call('GET', ended, string",
		Package: "countdownlatch", Run: "^TestNextCount$|^TestScripts$",
	},
	{
		Name: "latch/clock-set-back", What: "the end of a count is missed when the server's clock was set back since the last one",
		File: "countdownlatch/latch.go",
		Old:  "st.ended != w.ended", New: "st.ended > w.ended",
		Package: "countdownlatch", Run: "^TestClockSetBack$",
	},
	{
		Name: "multilock/red-granted-by-close", What: "a Close grants a Redlock to all who wait in its client",
		File: "internal/wait/line.go",
		Old:  "if ls.ended && l.head.follows {", New: "if ls.ended {",
		Package: "multilock", Run: "^TestRedCloseWhileOthersWait$",
	},
	{
		Name: "semaphore/late-repeat", What: "a request that has taken permits and comes again too late is told that it has not",
		File: "lua/semaphore/acquire.lua",
		Old:  "return {call('GET', claim) == number and 1 or -2, 0, now}", New: "return {-2, 0, now}",
		Package: "semaphore", Run: "^TestLateRepeats$",
	},
	{
		Name: "latch/behind-a-sleeping-head", What: "one who comes when others wait misses a count that ends and is followed by another",
		File: "internal/wait/wait.go",
		Old:  "if p.Together && pl.turn != nil {", New: "if false {",
		Package: "countdownlatch", Run: "^TestNextCountForOneWhoComesLater$",
	},
	{
		Name: "latch/delete-is-silent", What: "waiters of a latch that is deleted sleep on, as Redisson's do",
		File: "lua/countdownlatch/delete.lua",
		Old:  "publish(verb, channel, '0')", New: "publish(verb, channel, '1')",
		Package: "countdownlatch", Run: "^TestRawPeer$",
	},
	{
		Name: "countdownlatch/blind-between-waits", What: "AwaitSet sees no end between its two waits",
		File: "countdownlatch/latch.go",
		Old:  "&look{latch: l, looked: true, ended: begin.ended}", New: "&look{latch: l}",
		Package: "countdownlatch", Run: "^TestAwaitSetBetweenItsWaits$",
	},
}

// multiBugs are those of locks that are made of others.
var multiBugs = []Bug{
	{
		Name: "multilock/unlocks-the-same", What: "two goroutines of a holder give one hold back, and leave another",
		File: "multilock/lock.go",
		Old:  "w.unlock(ctx, false)", New: "w.unlock(ctx, true)",
		Package: "multilock", Run: "^TestAllReenters$",
	},
	{
		Name: "multilock/no-rollback", What: "members stay held when another one is refused",
		File: "multilock/all.go",
		Old:  "\t\tgiveBack(t.over, holds)\n", New: "\n",
		Package: "multilock", Run: "^TestAllOrNone$|^TestAllHoldsNothingForLong$",
	},
	{
		Name: "multilock/group-overlap", What: "two sets that meet are held at once",
		File: "lua/multilock/acquire.lua",
		Old:  "if busy > 0 then", New: "if false then",
		Package: "multilock", Run: "^TestGroupWakes$|^TestGroupSets$|^TestGroupConformance$/^FakeTime$",
	},
	{
		Name: "multilock/group-silent-while-the-slot-moves", What: "a release that has freed the last value of a group asks for one that is not there, and fails, in a slot on the move",
		File: "lua/multilock/release.lua",
		Old:  "redis.pcall('HGET', group, value)", New: "call('HGET', group, value)",
		Package: "multilock", Run: "^TestGroupUnlockWhileTheSlotMoves$",
	},
	{
		Name: "multilock/group-short-key", What: "the key of a group ends with its first value",
		File: "lua/multilock/acquire.lua",
		Old:  "if left < longest then", New: "if true then",
		Package: "multilock", Run: "^TestGroupKeyOutlivesAllLeases$",
	},
	{
		Name: "multilock/red-quorum", What: "half of the servers are enough",
		File: "multilock/lock.go",
		Old:  `newLock("red", members, len(members)/2+1)`, New: `newLock("red", members, len(members)/2)`,
		Package: "multilock", Run: "^TestRedMinorityDown$|^TestRedExcludes$|^TestRedValidity$",
	},
	{
		Name: "multilock/red-no-repair", What: "members beyond the majority are never taken again (redsync #186)",
		File: "multilock/red.go",
		Old:  "\t\tif len(missing) == 0 {", New: "\t\tif true {",
		Package: "multilock", Run: "^TestRedRepairs$",
	},
	{
		Name: "multilock/red-far-servers", What: "a majority that is further away than the first bound never answers in time",
		File: "multilock/red.go",
		Old:  "l.slower(missed, min(2*bound, tryMost))", New: "l.slower(missed, 0)",
		Package: "multilock", Run: "^TestRedFarServers$",
	},
	{
		Name: "multilock/red-keeps-a-minority", What: "members that were granted are not given back without a majority",
		File: "multilock/red.go",
		Old:  "\tgiveBack(soon, held)\n", New: "\t_ = soon\n",
		Package: "multilock", Run: "^TestRedGivesBackAMinority$",
	},
}
