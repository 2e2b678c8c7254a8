package seeded

// onceBugs are those of jobs that run once for each fire.
var onceBugs = []Bug{
	{
		Name: "once/done-is-run-again", What: "who has waited for the end of a run that is done runs the fire again",
		File: "lua/once/begin.lua",
		Old:  "if got[1] == 'done' or attempt", New: "if attempt",
		Package: "once", Run: "^TestRetryOfADoneFire$",
	},
	{
		Name: "once/retried-without-end", What: "a fire that fails is run again for more times than Retry says",
		File: "lua/once/begin.lua",
		Old:  " or attempt >= tonumber(ARGV[3]) then", New: " or attempt > tonumber(ARGV[3]) then",
		Package: "once", Run: "^TestRetry$",
	},
	{
		Name: "once/lost-and-done", What: "who has lost the lock notes that the fire is done",
		File: "lua/once/finish.lua",
		Old:  "if call('HEXISTS', lock, holder) == 0 then", New: "if false then",
		Package: "once", Run: "^TestLost$",
	},
	{
		Name: "once/of-another-attempt", What: "who has lost the run notes the end of the attempt of another",
		File: "lua/once/finish.lua",
		Old:  "if got[2] ~= ARGV[6] then", New: "if false then",
		Package: "once", Run: "^TestLost$",
	},
	{
		Name: "once/twice-on-a-lost-reply", What: "a begin whose reply is lost counts as two attempts",
		File: "lua/once/begin.lua",
		Old:  "if got[1] == 'running' and got[3] == ARGV[7] then", New: "if false then",
		Package: "once", Run: "^TestLostReplies$",
	},
	{
		Name: "once/attempt-not-counted", What: "an attempt that is handed the lock of one whose end is not noted passes for that one",
		File: "lua/once/begin.lua",
		Old:  "got[3] == ARGV[7] then", New: "call('HGET', run, 'holder') == holder then",
		Package: "once", Run: "^TestAttemptsOfOneHolder$",
	},
	{
		Name: "once/within-itself", What: "a holder that runs the job begins it again within itself",
		File: "lua/once/begin.lua",
		Old:  "if holds ~= 1 then", New: "if holds == 0 then",
		Package: "once", Run: "^TestReentry$",
	},
	{
		Name: "once/unseen-without-overlap", What: "a run of a job that never overlaps looks lost to who does not know that",
		File: "lua/once/read.lua",
		Old:  " or call('HEXISTS', KEYS[1], holder) == 1", New: "",
		Package: "once", Run: "^TestRunningSeenByOthers$",
	},
	{
		Name: "once/no-slot", What: "the keys of a job are not looked at for their slot, and a name without one is not refused",
		File: "once/job.go",
		Old:  `Keys: []string{runs, names.Fire(s.key, "")}`, New: "Keys: []string{runs}",
		Package: "once", Run: "^TestCluster$",
	},
}
