package seeded

// electBugs are those of elections.
var electBugs = []Bug{
	{
		Name: "elect/begins-without-the-lock", What: "a candidate that has lost the lock before it begins its term leads",
		File: "lua/elect/begin.lua",
		Old:  "if not call('HGET', lock, holder) then", New: "if false then",
		Package: "elect", Run: "^TestBeginScript$",
	},
	{
		Name: "elect/terms-go-back", What: "a term begins after one with a greater number",
		File: "lua/elect/begin.lua",
		Old:  "if not mine and term >= tonumber(ARGV[2]) then", New: "if false then",
		Package: "elect", Run: "^TestBeginScript$",
	},
	{
		Name: "elect/passed-to-anybody", What: "a Transfer leaves the lock free for whoever comes first",
		File: "elect/election.go",
		Old:  "	if passes {", New: "	if passes && false {",
		Package: "elect", Run: "^TestTransfer$",
	},
	{
		Name: "elect/accepted-without-an-answer", What: "a candidate that has no answer to its acceptance forgets it: the lock is passed to nobody",
		File: "elect/candidate.go",
		Old:  "case err == nil && got == refused:", New: "case err != nil || got == refused:",
		Package: "elect", Run: "^TestTransferToOneWhoStopsAccepting$",
	},
	{
		Name: "elect/resigner-first", What: "who resigns stands again at once, before those who wait",
		File: "elect/election.go",
		Old:  "c.resigned = number", New: "c.resigned = 0",
		Package: "elect", Run: "^TestResign",
	},
	{
		Name: "elect/ends-at-a-loss", What: "what a leader returns after the end of its term ends Run",
		File: "elect/election.go",
		Old:  "if cause == errReturned {", New: "if cause != nil {",
		Package: "elect", Run: "^TestResign",
	},
	{
		Name: "elect/record-expires", What: "the record of a leader that leads for a day expires",
		File: "elect/script.go",
		Old:  "again = time.Minute", New: "again = 400 * time.Hour",
		Package: "elect", Run: "^TestLongTerm$",
	},
	{
		Name: "elect/lease-handed-on", What: "a candidate with a short lease is handed the long one of another candidate of its client",
		File: "internal/engine/handover.go",
		Old:  " || e.renewed(c.cfg) != e.renewed(h.cfg) {", New: " {",
		Package: "elect", Run: "^TestLeasesDiffer$",
	},
	{
		Name: "elect/offer-of-a-term-before", What: "a late request offers the lead of a term that its sender knows nothing of",
		File: "lua/elect/offer.lua",
		Old:  " or got[4] ~= ARGV[2]", New: "",
		Package: "elect", Run: "^TestBeginScript$",
	},
}
