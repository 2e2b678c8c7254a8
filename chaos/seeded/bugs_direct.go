package seeded

// directBugs are those of the connections of the library's own.
var directBugs = []Bug{
	{
		Name: "direct/late-answer", What: "a connection whose answer has not come is used again, and the next one takes that answer",
		File: "internal/direct/conn.go",
		Old:  "	if err != nil && timedOut(err) {\n		c.broken = true\n	}", New: "",
		Package: "internal/direct", Run: "^TestNoAnswerSoon$",
	},
	{
		Name: "direct/answer-behind", What: "what a server says behind an answer is the next one's answer, or nobody's",
		File: "internal/direct/conn.go",
		Old:  "case rest > 0:", New: "case false:",
		Package: "internal/direct", Run: "^TestAnswers$",
	},
	{
		Name: "direct/replica-for-ever", What: "a connection to a primary that was demoted is kept (go-redis closes it)",
		File: "internal/direct/conn.go",
		Old:  "c.broken = true // the next connection may", New: "// the next connection may",
		Package: "internal/direct", Run: "^TestAnswers$",
	},
	{
		Name: "direct/closed-meanwhile", What: "a connection that the server has closed fails the next command",
		File: "internal/direct/conn.go",
		Old:  "alive(sys)", New: "sys != nil",
		Package: "internal/direct", Run: "^TestPoolLooksAtWhatItHas$",
	},
	{
		Name: "direct/context-waits-for-the-socket", What: "who sends much waits for a silent server for as long as it is read from",
		File: "internal/engine/straight.go",
		Old:  "	answered, err := e.await(ctx, done, closed)", New: "	_ = closed\n	answered, err := e.await(context.WithoutCancel(ctx), done, nil)",
		Package: "rlock", Run: "^TestFaultDirect$|^TestFaultCloseAtSilentServer$",
	},
	{
		Name: "direct/left-open", What: "Close leaves connections open",
		File: "internal/engine/engine.go",
		Old:  "		e.own.Close()", New: "		_ = e.own",
		Package: "rlock", Run: "^TestDirectConnections$",
	},
	{
		Name: "direct/no-deadline", What: "who sends at a silent server waits as long as the one before him might have",
		File: "internal/direct/conn.go",
		Old:  "left < Soon/2 || left > Soon", New: "left < Soon/2",
		Package: "internal/direct", Run: "^TestNoAnswerSoon$",
	},
	{
		Name: "direct/short-read", What: "a command is given up, and asked again, before go-redis's read timeout is over",
		File: "internal/direct/conn.go",
		Old:  "c.sent.Add(most)", New: "time.Now().Add(most - Soon)",
		Package: "internal/direct", Run: "^TestNoAnswerSoon$",
	},
	{
		Name: "direct/sent-twice", What: "what has been written of a command before the deadline was set is written once more",
		File: "internal/direct/conn.go",
		Old:  "c.net.Write(c.out[n:])", New: "c.net.Write(c.out)",
		Package: "internal/direct", Run: "^TestLongCommand$",
	},
	{
		Name: "direct/answer-ahead", What: "the answer to what is sent ahead of an Unlock is taken for that to the Unlock",
		File: "internal/direct/conn.go",
		Old:  "c.ahead && n > 0", New: "c.ahead && n > 0 && err != nil",
		Package: "internal/direct", Run: "^TestAnswers$",
	},
	{
		Name: "direct/caller-first", What: "Redis answers an Unlock before it tells those who wait for it",
		File: "internal/engine/release.go",
		Old:  "e.contested.note(s.Key, e.toldOthers(s, ret))", New: "e.contested.note(s.Key, false)",
		Package: "rlock", Run: "^TestUnlockHasOthersToldFirst$",
	},
	{
		Name: "direct/pings-for-ever", What: "a lock that others have waited for once costs a command more for ever",
		File: "internal/engine/contested.go",
		Old:  "b.Load() != told", New: "told && !b.Load()",
		Package: "rlock", Run: "^TestUnlockHasOthersToldFirst$",
	},
	{
		Name: "direct/handshake-deadline", What: "the subscriber's connection is given up when the deadline of its handshake is over",
		File: "internal/direct/listener.go",
		Old:  "l.conn != nil && l.conn.SetReadDeadline(time.Time{}) == nil", New: "l.conn != nil && !time.Time{}.After(time.Now())",
		Package: "internal/direct", Run: "^TestListenerHasNoDeadline$",
	},
	{
		Name: "direct/second-frame", What: "of two messages that come at once the second waits for a third",
		File: "internal/direct/listener.go",
		Old:  "		if l.at < len(l.in) {", New: "		if l.at == 0 && len(l.in) > 0 {",
		Package: "internal/direct", Run: "^TestListenerReadsFrames$",
	},
	{
		Name: "direct/unlock-for-ever", What: "an Unlock that Redis does not answer goes on for ever",
		File: "internal/engine/bounds.go",
		Old:  "	if time.Now().Before(b.at) {", New: "	if b.timed == nil {",
		Package: "internal/engine", Run: "^TestBoundEnds$",
	},
	{
		Name: "direct/polls-for-ever", What: "who sends at a server that is far away keeps a processor busy for each command",
		File: "internal/direct/poll.go",
		Old:  "p.misses.Load()+1", New: "0",
		Package: "internal/direct", Run: "^TestPollingKnowsWhereItPays$",
	},
	{
		Name: "direct/network-starves", What: "who sends all the time keeps Go from looking at the network for others",
		File: "internal/direct/poll.go",
		Old:  "p.asked.Add(1)%sleepsOnce != 0 &&", New: "p.asked.Add(1) != 0 &&",
		Package: "internal/direct", Run: "^TestPollingKnowsWhereItPays$",
	},
	{
		Name: "direct/all-poll", What: "as many callers as there are keep a processor busy",
		File: "internal/direct/poll.go",
		Old:  "p.busy.CompareAndSwap(false, true)", New: "!p.busy.Swap(false)",
		Package: "internal/direct", Run: "^TestPollingKnowsWhereItPays$",
	},
	{
		Name: "direct/polls-while-others-sleep", What: "of a few callers one has all the answers, and the others sleep on beside theirs",
		File: "internal/direct/poll.go",
		Old:  "p.sleepers.Load() > besides", New: "false",
		Package: "internal/direct", Run: "^TestPollingKnowsWhereItPays$",
	},
	{
		Name: "direct/silence-stops-polling", What: "nobody polls for as long as one connection is silent",
		File: "internal/direct/conn.go",
		Old:  "	if sent {\n		c.pool.polling.sleepers", New: "	if sent || !sent {\n		c.pool.polling.sleepers",
		Package: "internal/direct", Run: "^TestAnswerIsPolledFor$",
	},
	{
		Name: "direct/polled-answer-lost", What: "an answer that was polled for is waited for once more",
		File: "internal/direct/conn.go",
		Old:  "		if errors.Is(err, errNothing) {", New: "		if err != nil || n > 0 {",
		Package: "internal/direct", Run: "^TestAnswerIsPolledFor$",
	},
}
