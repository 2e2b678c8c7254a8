package seeded

// waitBugs are those of the wait loop and the lines.
var waitBugs = []Bug{
	{
		Name: "wait/nudge-takes-the-grant", What: "who is given the thing as it lies down is nudged instead, and waits for ever",
		File: "internal/wait/line.go",
		Old:  "	if p.gone {\n		return // its turn says so", New: "	if p.gone {\n		_ = p // its turn says so",
		Package: "internal/wait", Run: "^TestReservationKeptAtANudge$", Fast: true,
	},
	{
		Name: "wait/hint-lost-with-a-gift", What: "the hint of one who is given something else is nobody's",
		File: "internal/wait/wait.go",
		Old:  "if !p.Exclusive {\n					ls.Nudge", New: "if false {\n					ls.Nudge",
		Package: "internal/wait", Run: "^TestGiveToOneWhoHasHeardAHint$", Fast: true,
	},
	{
		Name: "wait/hint-not-passed-on", What: "who gives up keeps the hint that it was given: the next one sleeps on",
		File: "internal/wait/wait.go",
		Old:  "		if err := w.rest(ctx, ans); err != nil {\n			return turn{}, err", New: "		if err := w.rest(ctx, ans); err != nil {\n			return turn{asleep: true}, err",
		Package: "internal/wait", Run: "^TestGivingUp$|^TestNoWakeUpIsLost$",
	},
	{
		Name: "wait/no-recheck", What: "a message that is lost is waited for for ever",
		File: "internal/wait/wait.go",
		Old:  "d, recheck = jitter(p.Recheck), true", New: "d, recheck = time.Hour, true",
		Package: "internal/wait", Run: "^TestRecheck$",
	},
	{
		Name: "wait/deaf-and-trusting", What: "a waiter whose subscription is not confirmed sleeps as if it heard",
		File: "internal/wait/wait.go",
		Old:  "d = jitter(p.Unconfirmed)", New: "d = jitter(p.Recheck)",
		Package: "internal/wait", Run: "^TestUnconfirmedIsAskedMoreOften$",
	},
	{
		Name: "wait/lease-end-ignored", What: "nobody asks at the end of a dead holder's lease",
		File: "internal/wait/wait.go",
		Old:  "if ans.After > 0 && ans.After-slack < d {", New: "if false {",
		Package: "internal/wait", Run: "^TestAfterBoundsTheSleep$",
	},
	{
		Name: "wait/late-comers-admitted", What: "who came after the question is let in by its answer",
		File: "internal/wait/line.go",
		Old:  "q != nil && q.number <= upTo;", New: "q != nil;",
		Package: "internal/wait", Run: "^TestTogether$|^TestTogetherWithThoseOfBefore$",
	},
	{
		Name: "wait/everybody-asks", What: "a grant to one makes the next one ask at once: two scripts for each release",
		File: "internal/wait/wait.go",
		Old:  "return turn{asleep: p.Exclusive || ans.Last, after: ans.After}, nil", New: "return turn{after: ans.After}, nil",
		Package: "internal/wait", Run: "^TestNextSleepsAfterAGrant$",
	},
	{
		Name: "wait/party-without-speaker", What: "when the first of a client's queue leaves, nobody speaks for the others",
		File: "internal/wait/fairgroup.go",
		Old:  "	case spoke:\n		p.first.nudge()", New: "	case spoke:",
		Package: "internal/wait", Run: "^TestTurnIsPassedOn$|^TestTurnOnlyTheFirstAsks$",
	},
	{
		Name: "wait/reservation-to-one-who-asks", What: "a lock is handed to one who is asking Redis for it",
		File: "internal/wait/line.go",
		Old:  "if l == nil || l.head.asks || l.head.reserved {", New: "if l == nil || l.head.reserved {",
		Package: "internal/wait", Run: "^TestReserveHeadOnlyToWhoSleeps$",
	},
	{
		Name: "wait/group-not-dismissed", What: "those for whom the head has asked are not told that they have it",
		File: "internal/wait/line.go",
		Old:  "		case i < served:\n", New: "		case i < served-1:\n",
		Package: "internal/wait", Run: "^TestGroupServesThoseBehind$",
	},
	{
		Name: "wait/end-of-a-gift-forgotten", What: "who is next in a queue sleeps past the end of the lease that one before it was given",
		File: "internal/wait/fairgroup.go",
		Old:  "	fw.group.held(after)", New: "	_ = after",
		Package: "internal/wait", Run: "^TestNextAsksAtTheEndOfWhatIsGiven$",
	},
	{
		Name: "wait/told-last", What: "a waiter that is given a lock goes on when the subscriptions that nobody needs any more are closed",
		File:    "internal/wait/line.go",
		Old:     "	know()\n	p.tell(turn{granted: true})\n	if hints != nil {\n		hints.Close()\n	}\n",
		New:     "	if hints != nil {\n		hints.Close()\n	}\n	know()\n	p.tell(turn{granted: true})\n",
		Package: "internal/wait", Run: "^TestKeepTellsFirst$",
	},
}
