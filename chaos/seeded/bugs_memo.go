package seeded

// memoBugs are those of calls that are made once for many: flight and idem.
var memoBugs = []Bug{
	{
		Name: "memo/begins-without-the-lock", What: "who has lost the lock before the call begins makes it",
		File: "lua/memo/begin.lua",
		Old:  "if call('HEXISTS', lock, holder) == 0 then", New: "if false then",
		Package: "internal/memo", Run: "^TestLostBeforeBegin$",
	},
	{
		Name: "memo/lost-and-kept", What: "who has lost the lock keeps its value",
		File: "lua/memo/finish.lua",
		Old:  "if not has then", New: "if false then",
		Package: "internal/memo", Run: "^TestAtMost$",
	},
	{
		Name: "memo/of-another-call", What: "a call keeps its value under the note of another one",
		File: "lua/memo/finish.lua",
		Old:  "if got[1] ~= me then", New: "if not got[1] then",
		Package: "internal/memo", Run: "^TestNoteOfAnotherCall$",
	},
	{
		Name: "flight/called-though-kept", What: "who has found no value calls its function, though one is kept when it has the lock",
		File: "lua/memo/begin.lua",
		Old:  "if fresh and (fresh == 0 or fresh > now) then", New: "if false then",
		Package: "internal/memo", Run: "^TestKeep$",
	},
	{
		Name: "flight/last-one-leaves", What: "a function goes on when nobody waits for it any more",
		File: "flight/group.go",
		Old:  "if f.cancel != nil {", New: "if false {",
		Package: "flight", Run: "^TestGiveUp$",
	},
	{
		Name: "idem/another-request", What: "a key that was used for another request replays the response of that one",
		File: "idem/keys.go",
		Old:  "case rec.Call != \"\" && rec.Mark != mark:", New: "case false:",
		Package: "idem", Run: "^TestReused$",
	},
	{
		Name: "idem/ends-with-its-client", What: "a handler is stopped when its client goes away",
		File: "idem/keys.go",
		Old:  "m.Begin(context.WithoutCancel(ctx), \"do\", mark)", New: "m.Begin(ctx, \"do\", mark)",
		Package: "idem", Run: "^TestClientGoesAway$",
	},
	{
		Name: "idem/half-a-response", What: "a handler whose client has gone is told, and stops within its response",
		File: "idem/recorder.go",
		Old:  "err != nil && (r.large || r.unkept)", New: "err != nil",
		Package: "idem", Run: "^TestWriteErrors$",
	},
	{
		Name: "idem/keys-of-others", What: "two users have one key when their names and keys say the same behind each other",
		File: "idem/keys.go",
		Old:  "b = binary.AppendUvarint(b, uint64(len(s)))", New: "b = binary.AppendUvarint(b, uint64(len(s)))[:len(b)]",
		Package: "idem", Run: "^TestScope$",
	},
}
