// Package engine is what one client lends to its primitives: the path by which every
// lock is acquired, kept and released, and the one for permits, counts and latches.
//
// It imports neither the root package nor a primitive. Package run sends its scripts,
// package wait has the lines in which its callers wait, package watchdog renews.
//
// # An attempt
//
// An attempt is one call of Lock, or of whatever else acquires: a lockAttempt or a
// wantAttempt. Its caller's goroutine moves it from state to state. Only the one who
// reserves something for it does anything else with it, under the ops of its holding.
//
//	state      what it is
//	following  it stands in a line behind others of its client, has no holding and asks nothing
//	asking     a request is under way; the ops of the holding are taken
//	resting    the last answer was a refusal; it is the head of its line, or polls, and sleeps
//	reserved   it rests, and a release of its client is about to hand it the lock
//	granted    it has a Hold, or what it wants
//	over       it has failed; its caller has the error
//
//	from       to         when                                             shown by
//	(begin)    following  somebody of its client waits for the lock        TestWhoNeedNotFollow
//	(begin)    asking     nobody does, or it is a try, or a re-entry       TestWhoNeedNotFollow
//	following  asking     it has become the head of the line               TestFollow
//	following  granted    the head left, and the lock was handed to it     TestFollowerHasAReservation
//	following  over       its context or its Wait ended, or Close          TestFollowersGiveUp
//	asking     granted    Redis granted it, within the lease               TestFreeCostsOneAsk
//	asking     asking     the grant came too late to be believed in        TestLateGrantIsAskedForAgain
//	asking     asking     no answer: it asks again, after a while          TestAgain
//	asking     resting    Redis refused it                                 TestAskListenAsk
//	asking     over       the error is final, or its patience is over      TestFaultPatienceOfCaller
//	resting    asking     a hint, the end of a lease, or the recheck       TestRecheck
//	resting    granted    another client's release granted it the lock     TestGivenToAnotherClient
//	resting    reserved   a release of its client reserves the lock        TestReservation
//	reserved   granted    the reservation is committed                     TestReservationKept
//	reserved   resting    it is cancelled                                  TestReservation
//	reserved   asking     what became of it is unknown                     TestReservationInDoubt
//	resting    over       its context or its Wait ended, or Close          TestFaultCloseEndsWaiters
//
// # In doubt
//
// A request without an answer may have been carried out, or may be until its deadline.
// An attempt that has sent one is in doubt beside its state, until a later answer shows
// what happened (TestFaultReplay). Three things in Redis can be in an attempt's name, and
// each ends with it, whichever way it ends:
//
//	what               ended by                                              shown by
//	a grant in doubt   undo, in the background, until the deadline is over   TestFaultContextEndsAtEachStage
//	a waitlist entry   the request that grants, or undo, or the next         TestListedUntilProvedGone
//	                   release of the client                                 TestEntriesOfThoseWhoWait
//	a place in a queue withdraw, before the caller has its error             TestWaitLeaves
//
// An attempt that is granted while an earlier request of its own is in doubt leaves the
// doubt to its holding, which resolves it after the release
// (TestFaultRequestComesAfterTheRelease). One that is handed the lock in memory leaves it
// to the holder that it had (TestHandOverLeavesADoubtBehind). What is granted to a holder
// that neither has the lock nor waits for it is given back (TestGivenToNobody).
//
// # A holding
//
// A holding is one holder's part in one lock: a field of a hash in Redis. Whoever sends a
// script that changes its hold count takes its ops first (TestOps). Its counts and holds
// are guarded by its mu.
//
//	state     what it is
//	entered   somebody uses it; the hold count is 0
//	held      the hold count is positive, and the watchdog has its item
//	given up  the last Hold has ended on this side, and its release is under way
//
//	from      to        when                                              shown by
//	entered   held      a grant                                           TestFreeCostsOneAsk
//	held      held      a re-entry, or the Unlock of an inner Hold        TestNestedLeases
//	held      given up  the Unlock of the last Hold                       TestWireOfHeldAndReleasedLock
//	given up  entered   Redis has answered                                TestWireOfHeldAndReleasedLock
//	given up  held      a waiter of the client takes the holding over     TestHandOverInMemory
//	given up  entered   no answer: the release is in doubt for a time,    TestFaultLateReleaseSparesNextHoldOfItsHolder
//	                    and the holder asks for nothing meanwhile
//	held      entered   it was lost                                       TestUnlockAfterLossSparesTheNextHold
//
// # A Hold
//
// A Hold is one acquisition. Its state is guarded by the mu of its holding. Its Context
// ends when it leaves the state held.
//
//	from      to        when                                              shown by
//	held      released  Unlock: Redis has answered, or a waiter has it    TestHandOverEndsTheHoldBefore
//	held      unknown   Unlock: no answer within the unlock timeout       TestFaultUnlockAtSilentServer
//	unknown   released  Unlock again: Redis has answered                  TestFaultUnlockByHolderAgain
//	held      lost      its window is over                                TestHandOverThenLost
//	held      lost      Redis says that the lock is not its holder's      TestFaultForcedUnlock
//	held      closed    Close                                             TestHandOverThenClose
package engine
