package seeded

// engineBugs are those of what all primitives share.
var engineBugs = []Bug{
	{
		Name: "engine/many-answers-mixed", What: "one caller of many takes the answer of another for its own",
		File: "internal/engine/many.go",
		Old:  "j.answer, _ = answers[i].(int64)", New: "j.answer, _ = answers[len(answers)-1-i].(int64)",
		Package: "rlock", Run: "^TestCrowdOfAllKinds$",
	},
	{
		Name: "engine/many-fail-for-one", What: "a key that one of many may not touch fails all of them",
		File: "internal/engine/many.go",
		Old:  "		err = nil\n		fallthrough", New: "		fallthrough",
		Package: "rlock", Run: "^TestCrowdWithoutRights$",
	},
	{
		Name: "engine/noscript", What: "a script that the server has forgotten is not sent again",
		File: "internal/engine/command.go",
		Old:  `if err != nil && isCode(err, "NOSCRIPT") {`, New: `if false && isCode(err, "NOSCRIPT") {`,
		Package: "rlock", Run: "^TestFaultScriptFlush$",
	},
	{
		Name: "engine/go-redis-retries", What: "go-redis sends scripts again by itself (go-redis #2339)",
		File: "internal/engine/command.go",
		Old:  "func (scriptCmd) NoRetry() bool { return true }", New: "func (scriptCmd) NoRetry() bool { return false }",
		Package: "rlock", Run: "^TestFaultReplay$/^single$|^TestFaultPatienceOfCaller$",
	},
	{
		Name: "engine/context-waits-for-the-socket", What: "the end of a context is seen when go-redis has stopped reading, 5 s later",
		File: "internal/engine/command.go",
		Old:  "	case <-ctx.Done():\n		return false, ctx.Err()\n	case <-closed:", New: "	case <-closed:",
		Package: "rlock", Run: "^TestFaultContextEndsAtEachStage$|^TestFaultWaitIsABound$",
	},
	{
		Name: "engine/no-undo", What: "what an acquire without an answer was granted is never taken back",
		File: "internal/engine/acquire.go",
		Old:  "\t\te.undo(c)\n", New: "\n",
		Package: "rlock", Run: "^TestFaultContextEndsAtEachStage$|^TestCancelledGrantIsTakenBack$|^TestAbandonedAcquireIsNotRenewed$",
	},
	{
		Name: "engine/undo-once", What: "an undo that finds nothing is taken for proof, and the request comes later",
		File: "internal/engine/release.go",
		Old:  "	case v == Late:\n		return false\n	}\n	return past", New: "	case v == Late:\n		return false\n	}\n	return true",
		Package: "rlock", Run: "^TestFaultRequestComesAfterTheRelease$|^TestFaultContextEndsAtEachStage$",
	},
	{
		Name: "engine/unlock-with-the-callers-context", What: "an Unlock under a cancelled context leaves the lock (blnk #354, ncps #913)",
		File: "internal/engine/release.go",
		Old:  "bounded := e.bounds.next(ctx, e.cfg.UnlockTimeout)\n", New: "bounded := cleanup{Context: ctx}\n",
		Package: "rlock", Run: "^TestFaultUnlockWithEndedContext$",
	},
	{
		Name: "engine/window-from-the-answer", What: "a grant is believed in from its answer on, not from its request",
		File: "internal/engine/acquire.go",
		Old:  "count+1, watchdog.NewWindow(sent, lease))", New: "count+1, watchdog.NewWindow(e.now(), lease))",
		Package: "rlock", Run: "^TestWindowBeginsWithTheRequest$",
	},
	{
		Name: "engine/late-release-hits-the-next-hold", What: "a release that comes late takes the next hold of its holder (etcd #22082)",
		File: "internal/engine/release.go",
		Old:  "if !ent.fresh && ret.Holder == ent.field {", New: "if false {",
		Package: "rlock", Run: "^TestFaultRepeatedReleaseSparesNextHoldOfItsHolder$",
	},
	{
		Name: "engine/clock-not-learned", What: "the server's clock is never learned: a client whose own is off gets nowhere",
		File: "internal/engine/clock.go",
		Old:  "c.offset.Store(serverMs - c.local(got))", New: "_ = serverMs - c.local(got)",
		Package: "internal/engine", Run: "^TestServerClock$", Fast: true,
	},
	{
		Name: "engine/lost-reply-not-in-doubt", What: "a lost answer is taken for a request that did not run",
		File: "internal/engine/outcome.go",
		Old:  "		return NotNow\n	}\n	return Maybe\n", New: "		return NotNow\n	}\n	return NotNow\n",
		Package: "internal/engine", Run: "^TestSortErrorsOfTheWay$|^TestSortRealErrorsOfTheWay$",
	},
	{
		Name: "engine/readonly-is-final", What: "a server that fails over is taken for one that refuses",
		File: "internal/engine/outcome.go",
		Old:  `"LOADING", "READONLY", "MASTERDOWN"`, New: `"LOADING", "MASTERDOWN"`,
		Package: "internal/engine", Run: "^TestSortReplies$",
	},
	{
		Name: "engine/one-holder-for-all", What: "two goroutines are one holder (a goroutine id, a shared token)",
		File: "internal/engine/identity.go",
		Old:  "return holders.Add(1) }", New: "return 1 }",
		Package: "rlock", Run: "^TestConformance$/^FakeTime$",
	},
	{
		Name: "engine/identity-of-the-dead", What: "the Context of a hold that has ended speaks for its holder yet",
		File: "internal/engine/hold.go",
		Old:  "return h.entry.key.holder, h.state == held", New: "return h.entry.key.holder, true",
		Package: "rlock", Run: "^TestConformance$/^FakeTime$",
	},
	{
		Name: "engine/close-leaves-at-once", What: "what a client is given while it is being closed, and nobody is inside, stays given",
		File: "internal/engine/gate.go",
		Old:  "	g.calls++\n	close(g.closed)", New: "	if g.calls == 0 {\n		close(g.idle)\n	}\n	close(g.closed)",
		Package: "internal/engine", Run: "^TestGateRemainsUntilTheDrain$",
	},
	{
		Name: "engine/close-forgets-permits", What: "Close gives up after a second what no lease ends, and says nothing",
		File: "internal/engine/want.go",
		Old:  "	e.laterSurely(d.spec, try)\n", New: "	e.later(try, func() {})\n",
		Package: "semaphore", Run: "^TestCloseUndoes$",
	},
	{
		Name: "engine/close-waits-for-pauses", What: "clean-up whose next try comes later than Close waits is not tried any more",
		File: "internal/engine/engine.go",
		Old:  "	e.chores.hurry(e)\n", New: "",
		Package: "rlock", Run: "^TestCloseTriesOnceMore$",
	},
	{
		Name: "engine/leap-taken-for-late", What: "Unlock says nothing of a lease that a step of the clock has ended, if it names somebody to go on with",
		File: "internal/engine/release.go",
		Old:  " && time.Since(at) > returnBound/2\n", New: "\n",
		Package: "rlock", Run: "^TestFaultClockLeapIsNoDoubt$",
	},
	{
		Name: "engine/late-permit-fails", What: "a permit whose grant comes when its lease is over is not asked for again",
		File: "internal/engine/want.go",
		Old:  "if voids == mostVoids || !errors.Is(err, ErrLeaseLost) {", New: "if voids > 0 || !errors.Is(err, ErrLeaseLost) {",
		Package: "permitsemaphore", Run: "^TestLateGrantIsAskedForAgain$",
	},
	{
		Name: "engine/late-taken-for-leap", What: "a lease is lost where a release was carried out, and was too late when it came again",
		File: "internal/engine/release.go",
		Old:  "v == Late && time.Since(at) > returnBound/2\n", New: "false && at.IsZero()\n",
		Package: "rlock", Run: "^TestFaultReleaseTooLateTheSecondTime$",
	},
	{
		Name: "engine/close-keeps-holds", What: "Close leaves what is held to its lease",
		File: "internal/engine/release.go",
		Old:  "if len(holds) > 0 {", New: "if false {",
		Package: "rlock", Run: "^TestConformance$/^FakeTime$",
	},
	{
		Name: "engine/slice-without-end", What: "waiters of one process hand the lock on for ever",
		File: "internal/engine/handover.go",
		Old:  "return s.HandsOn && e.cfg.HandOver > 0 && time.Now().Before(slice)", New: "return s.HandsOn && e.cfg.HandOver > 0",
		Package: "rlock", Run: "^TestHandOverEndsWithItsSlice$",
	},
	{
		Name: "engine/handover-past-a-fixed-lease", What: "a waiter that asked for a lease of its own gets what is left of another's",
		File: "internal/engine/handover.go",
		Old:  "return c.cfg.Lease == 0 && c.cfg.MaxHold == 0 && c.cfg.AtLeast == 0", New: "return c.cfg.MaxHold == 0 && c.cfg.AtLeast == 0",
		Package: "rlock", Run: "^TestHandOverByRedis$|^TestHandOverInMemory$",
	},
	{
		Name: "engine/one-token-for-two", What: "a fenced lock is handed on in memory with the token of the one who had it",
		File: "internal/engine/handover.go",
		Old:  "g.Token, g.more = ent.token+1, ent.more-1", New: "g.Token, g.more = ent.token, ent.more-1",
		Package: "rlock", Run: "^TestHandOverFenced$",
	},
	{
		Name: "engine/more-tokens-than-taken", What: "a fenced lock is handed on in memory with tokens that Redis may give to others",
		File: "internal/engine/handover.go",
		Old:  "ch.moves() || s.Fenced && ent.more == 0", New: "ch.moves() || s.Fenced && ent.token == 0",
		Package: "rlock", Run: "^TestHandOverFenced$|^TestTokensDoNotOutrunTheClock$",
	},
	{
		Name: "engine/tokens-from-before-a-reentry", What: "the next holder of a fenced lock has a token below that of a re-entry before it",
		File: "internal/engine/entry.go",
		Old:  "ent.token, ent.more = g.Token, g.more //", New: "if first {\n\t\tent.token, ent.more = g.Token, g.more\n\t} //",
		Package: "rlock", Run: "^TestHandOverFenced$",
	},
	{
		Name: "rlock/tokens-outrun-the-clock", What: "tokens of a busy fenced lock run ahead of the clock, and fall when Redis loses its data",
		File: "lua/rlock/pass.lua",
		Old:  "clock + tokens - token, ", New: "",
		Package: "rlock", Run: "^TestTokensDoNotOutrunTheClock$|^TestPassScriptFenced$",
	},
	{
		Name: "rlock/tokens-not-taken", What: "Redis gives out once more the tokens with which a lock is handed on in memory",
		File: "lua/rlock/pass.lua",
		Old:  "string.format('%.0f', token + more)", New: "string.format('%.0f', token)",
		Package: "rlock", Run: "^TestHandOverFenced$|^TestPassScriptFenced$",
	},
	{
		Name: "engine/reconnect-not-looked-at", What: "after a reconnect nobody looks whether holds are there yet (Redisson #5697)",
		File: "internal/engine/suspect.go",
		Old:  "	e.watchdog.Recheck()\n	e.cfg.Hooks.resubscribed(channels)", New: "	e.cfg.Hooks.resubscribed(channels)",
		Package: "rlock", Run: "^TestFaultLookedAtAfterReconnect$",
	},
	{
		Name: "engine/too-few-replicas", What: "the result of WAIT is not looked at (Redisson #4706)",
		File: "internal/engine/acks.go",
		Old:  "a.err == nil && a.got >= want.Min && (", New: "a.err == nil && (",
		Package: "internal/topology", Run: "^TestReplicaAck$",
	},
	{
		Name: "engine/failed-wait-keeps-the-hold", What: "what too few replicas have is not undone (Redisson #4822)",
		File: "internal/engine/acks.go",
		Old:  "		&Return{Holder: c.req.Holder, Count: base, Label: c.cfg.Label}, time.Now())", New: "		&Return{Holder: \"nobody\", Count: base, Label: c.cfg.Label}, time.Now())",
		Package: "internal/topology", Run: "^TestReplicaAck$",
	},
	{
		Name: "engine/used-ticket", What: "two requests of a semaphore have one number: the second counts as done",
		File: "internal/engine/ticket.go",
		Old:  "	t.Number++\n", New: "",
		Package: "semaphore", Run: "^TestPermits$|^TestOnlyTheCountIsLeft$",
	},
	{
		Name: "engine/slot-of-side-keys", What: "keys of one object lie in several slots",
		File: "internal/engine/name.go",
		Old:  `return prefix + ":{" + name + "}"`, New: `return prefix + ":" + name`,
		Package: "internal/engine", Run: "^TestSideKeysLieInTheSlotOfTheName$|^TestSideKeys$",
	},
	{
		Name: "engine/loss-not-told", What: "the Context of a lost hold goes on",
		File: "internal/engine/hold.go",
		Old:  "	h.state, h.cause = st, cause\n	if h.cancel != nil {", New: "	h.state, h.cause = st, cause\n	if h.cancel != nil && st != lost {",
		Package: "rlock", Run: "^TestKeyVanishes$|^TestSilentServer$",
	},
	{
		Name: "engine/lost-permit-not-told", What: "a permit that has vanished stays held on this side",
		File: "internal/engine/lease.go",
		Old:  "	if st == lost && l.gone != nil {\n		close(l.gone)\n	}\n	l.mu.Unlock()\n	l.leave()", New: "	l.mu.Unlock()\n	l.leave()",
		Package: "permitsemaphore", Run: "^TestVanished$|^TestLeases$",
	},
}

// waitBugs are those of the wait loop and the lines.
var waitBugs = []Bug{
	{
		Name: "wait/hint-not-passed-on", What: "who gives up keeps the hint that it was given: the next one sleeps on",
		File: "internal/wait/wait.go",
		Old:  "		if err := w.sleep(ctx, ans); err != nil {\n			return turn{}, err", New: "		if err := w.sleep(ctx, ans); err != nil {\n			return turn{asleep: true}, err",
		Package: "internal/wait", Run: "^TestGivingUp$|^TestNoWakeUpIsLost$", Fast: true,
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
		Old:  "if ans.After > 0 && ans.After+slack < d {", New: "if false {",
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
		File: "internal/wait/party.go",
		Old:  "	case spoke:\n		p.first.nudge()", New: "	case spoke:",
		Package: "internal/wait", Run: "^TestTurnIsPassedOn$|^TestTurnOnlyTheFirstAsks$",
	},
	{
		Name: "wait/pledge-to-one-who-asks", What: "a lock is handed to one who is asking Redis for it",
		File: "internal/wait/line.go",
		Old:  "if l == nil || l.head.asks || l.head.pledged {", New: "if l == nil || l.head.pledged {",
		Package: "internal/wait", Run: "^TestPledgeHeadOnlyToWhoSleeps$",
	},
	{
		Name: "wait/group-not-dismissed", What: "those for whom the head has asked are not told that they have it",
		File: "internal/wait/line.go",
		Old:  "		case i < served:\n", New: "		case i < served-1:\n",
		Package: "internal/wait", Run: "^TestGroupServesThoseBehind$",
	},
}

// pubsubBugs are those of the notifier.
var pubsubBugs = []Bug{
	{
		Name: "pubsub/not-subscribed-again", What: "the channels of a lost connection are not subscribed anew",
		File: "pubsub/link.go",
		Old:  "			p.state = partQueued\n			l.enqueue(p, false)\n		}\n	}\n}", New: "			p.state = partQueued\n		}\n	}\n}",
		Package: "pubsub", Run: "^TestClientKill$",
	},
	{
		Name: "pubsub/half-open", What: "a connection that has gone silent is never replaced (pad #1195, kombu #2590)",
		File: "pubsub/link.go",
		Old:  "			if cn.pinged() {\n				c.lose(cn, now)", New: "			if cn.pinged() {\n				cn.wantPing(now)",
		Package: "pubsub", Run: "^TestHeartbeat$|^TestSilentConnectionIsReplaced$",
	},
	{
		Name: "pubsub/live-without-a-hint", What: "a confirmed subscription tells nobody: a release in between is not seen",
		File: "pubsub/answers.go",
		Old:  "		p.ch.state.Store(int32(Live))\n		p.ch.notifyLocked()", New: "		p.ch.state.Store(int32(Live))",
		Package: "pubsub", Run: "^TestLiveOnlyWhenConfirmed$|^TestClientKill$|^TestHintOnPublish$",
	},
	{
		Name: "pubsub/live-unconfirmed", What: "a subscription counts before Redis has confirmed it",
		File: "pubsub/answers.go",
		Old:  "		live = live && q.state == partAcked", New: "		live = live || q.state == partAcked",
		Package: "pubsub", Run: "^TestConclude$|^TestCluster$|^TestChaos$|^TestLiveOnlyWhenConfirmed$",
	},
	{
		Name: "pubsub/first-waiter-only", What: "of several who wait on one channel one is told (Redisson #5349)",
		File: "pubsub/subscription.go",
		Old:  "	for s := c.subs; s != nil; s = s.next {\n		s.notify()\n", New: "	if s := c.subs; s != nil {\n		s.notify()\n",
		Package: "pubsub", Run: "^TestManySubscriptionsOfOneName$|^TestHintOnPublish$",
	},
	{
		Name: "pubsub/one-denied-is-all", What: "one name that is denied takes those of its command with it",
		File: "pubsub/answers.go",
		Old:  "		case len(parts) > 1:\n", New: "		case false:\n",
		Package: "pubsub", Run: "^TestDeniedChannel$",
	},
	{
		Name: "pubsub/never-unsubscribes", What: "names that were used once stay subscribed for ever",
		File: "pubsub/control.go",
		Old:  "p.link.enqueue(p, true)\n", New: "_ = p.link.verb()\n",
		Package: "pubsub", Run: "^TestUnusedNameIsLeft$",
	},
	{
		Name: "pubsub/revoked-unnoticed", What: "a subscription that the server takes away counts as live",
		File: "pubsub/answers.go",
		Old:  "	p.again = true\n	c.carry++\n	c.unlive(p)\n	if p.sharded", New: "	p.again = true\n	c.carry++\n	if p.sharded",
		Package: "pubsub", Run: "^TestChannelRevokedAtRunTime$|^TestLostConfirmation$|^TestCluster$|^TestFailover$",
	},
	{
		Name: "pubsub/waiters-not-told-of-close", What: "who waits on a notifier that is closed sleeps on",
		File: "pubsub/subscription.go",
		Old:  "	c.state.Store(int32(Denied))\n	c.notifyLocked()", New: "	c.state.Store(int32(Denied))",
		Package: "pubsub", Run: "^TestClose$|^TestDeniedChannel$",
	},
}

// watchdogBugs are those of the watchdog and its windows.
var watchdogBugs = []Bug{
	{
		Name: "watchdog/loss-not-told", What: "the end of a window is told to nobody",
		File: "internal/watchdog/watchdog.go",
		Old:  "			w.items.remove(it)\n			lost = append(lost, loss{it, WindowOver})", New: "			w.items.remove(it)",
		Package: "internal/watchdog", Run: "^TestFailureIsTriedAgainUntilTheEnd$", Fast: true,
	},
	{
		Name: "watchdog/one-failure-is-a-loss", What: "one renewal without an answer ends the hold",
		File: "internal/watchdog/watchdog.go",
		Old:  "		case NotOurs:\n			w.removeLocked(it)", New: "		case NotOurs, Failed:\n			w.removeLocked(it)",
		Package: "internal/watchdog", Run: "^TestTwoOfThreeFailAndNothingIsLost$",
	},
	{
		Name: "watchdog/window-from-the-answer", What: "a renewal is believed in from its answer on",
		File: "internal/watchdog/watchdog.go",
		Old:  "Later(NewWindow(f.sent, r.Lease), now)", New: "Later(NewWindow(now, r.Lease), now)",
		Package: "internal/watchdog", Run: "^TestBlockedRenewalHidesNothing$|^TestRenewalIsBounded$|^TestFullSlots$|^TestRandomOperations$",
	},
	{
		Name: "watchdog/no-margin", What: "a lease is trusted to its last millisecond",
		File: "internal/watchdog/window.go",
		Old:  "length: lease - lease/driftMargin - fixedMargin}", New: "length: lease}",
		Package: "internal/watchdog", Run: "^TestWindowMargins$",
	},
	{
		Name: "watchdog/suspend-not-noticed", What: "a machine that slept goes on where it stopped",
		File: "internal/watchdog/window.go",
		Old:  "return max(i.mono-earlier.mono, i.wall-earlier.wall)", New: "return i.mono - earlier.mono",
		Package: "internal/watchdog", Run: "^TestWindowIsOverByEitherClock$|^TestJumpIsNoticedWithinASecond$",
	},
	{
		Name: "watchdog/beyond-the-limit", What: "a hold is renewed beyond its MaxHold",
		File: "internal/watchdog/item.go",
		Old:  "lease = min(lease, -at.Since(it.until))", New: "lease = max(lease, -at.Since(it.until))",
		Package: "internal/watchdog", Run: "^TestMax$",
	},
	{
		Name: "watchdog/fixed-lease-renewed", What: "a fixed lease is renewed for ever",
		File: "internal/watchdog/watchdog.go",
		Old:  "	it.lease = plan.Lease\n", New: "	it.lease = max(plan.Lease, time.Second)\n",
		Package: "internal/watchdog", Run: "^TestFixedLeaseIsNeverRenewed$",
	},
	{
		Name: "watchdog/answers-mixed-up", What: "the answers of a batch go to the wrong holds",
		File: "internal/watchdog/watchdog.go",
		Old:  "		switch results[i] {", New: "		switch results[len(f.batch)-1-i] {",
		Package: "internal/watchdog", Run: "^TestResultsGoToTheirItems$",
	},
	{
		Name: "watchdog/renewed-after-removal", What: "a hold that was given back is renewed for ever (Redisson #7272)",
		File: "internal/watchdog/watchdog.go",
		Old:  "	w.items.remove(it)\n	return true", New: "	return true",
		Package: "internal/watchdog", Run: "^TestRemove$",
	},
	{
		Name: "watchdog/lost-item-renewed", What: "a hold whose window is over is taken along by a batch",
		File: "internal/watchdog/item.go",
		Old:  "return it.lease > 0 && left > 0 && it.renewal(at)-left > it.lease/20", New: "return it.lease > 0 && it.renewal(at)-left > it.lease/20",
		Package: "internal/watchdog", Run: "^TestWhatIsLostIsNotTakenAlong$",
	},
	{
		Name: "watchdog/long-before-due", What: "a renewal takes along what is due much later",
		File: "internal/watchdog/watchdog.go",
		Old:  "it.renewIn(now) > min(ahead, it.lease/aheadPart) || ", New: "",
		Package: "internal/watchdog", Run: "^TestSoonDueFollows$",
	},
	{
		Name: "watchdog/queue-forgotten", What: "what waits for a slot is not sent when there is one",
		File: "internal/watchdog/watchdog.go",
		Old:  "		if it.index > 0 && it.queued {\n			return w.boardLocked(l, it, now)", New: "		if it.index < 0 && it.queued {\n			return w.boardLocked(l, it, now)",
		Package: "internal/watchdog", Run: "^TestFullSlots$",
	},
	{
		Name: "watchdog/sleeps-through", What: "a shorter lease than the present ones does not wake the loop",
		File: "internal/watchdog/watchdog.go",
		Old:  "	early := due.before(w.armed)\n", New: "	early := due.before(w.armed) && w.closed\n",
		Package: "internal/watchdog", Run: "^TestShorterItemWakesTheLoop$",
	},
}
