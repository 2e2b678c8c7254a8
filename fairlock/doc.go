// Package fairlock implements a lock that is granted in the order in which
// callers asked for it, across all clients of one Redis, Go and Java. Its bytes
// in Redis are those of Redisson's RFairLock.
//
// A Lock value is only a name on a client. Making one does no I/O and holds
// nothing, and goroutines may share it. Lock returns a Hold. Two goroutines
// that share a Lock exclude each other. The context carries re-entry, as with
// package rlock; a re-entry does not queue.
//
// # What it promises
//
// A fair lock promises everything that rlock does. In addition, waiters are
// served in the order in which Redis has queued them, whichever client they
// belong to. An acquire that can have the lock at once, with nobody before it,
// does not queue. An acquire that gives up, because of its context, its Wait or
// the client's Close, has left the queue when it returns. It leaves in the
// background only if one of its requests is still on its way or Redis does not
// answer.
//
// A living waiter keeps its place for as long as it waits, even if the holder
// works for hours. A dead waiter costs nothing until it is the next one. Then
// it is removed at most 15 s after its client fell silent, or after
// [QueueTimeout] if that is shorter. A dead Java waiter costs what is left of
// its deadline, as in Redisson.
//
// # What it does not promise
//
// Other clients take a client that is cut off from Redis for more than 15 s for
// dead. Its waiters lose their places when they become the next ones, and queue
// again at the end. The same happens to all waiters if somebody deletes the
// queue or Redis loses it.
//
// A fairlock and an rlock with the same name are one lock: they exclude each
// other. But the Unlock of the rlock does not wake the waiters here, which
// notice at their next recheck ([latchkey.WithRecheck], 5 s). Use one kind for
// one name.
//
// A Java client removes waiters by its own clock and by deadlines that all
// clients share. Therefore the clocks of machines that run Java should agree
// within a minute. QueueTimeout should equal Redisson's fairLockWaitTimeout,
// and be no less than the longest wait that Java callers pass to tryLock. A
// Java waiter with a longer wait moves the deadlines of the waiters behind it
// too far, and they may have to queue again. (Java waiters themselves lose
// their places if a holder works for longer than their deadline, as in
// Redisson.)
//
// # The price
//
// A free lock costs what an rlock costs: one command to take it and one to
// release it. A waiter needs one command to join the queue. The release grants
// it the lock: in the reply if both are of one client, otherwise by a message.
// A hand-over between Go clients is thus two commands, as a push to a waiting
// BLPOP is, though with longer scripts. If Java takes part, it is three
// commands.
//
// Every 5 s the first waiter of each client asks for all waiters of the client,
// whatever their number, and reports that they are alive. That is one command,
// plus one for each hundred waiters that it looks at: those in front each time,
// and all within half a minute. The work of a hand-over does not grow with the
// queue. Giving up a place in the middle of the queue scans the list inside
// Redis. Use rlock where order does not matter.
//
// # In Redis
//
//	name                                     hash  holder -> hold count; expires with the lease
//	redisson_lock_queue:{name}               list of waiting holders, the next one first
//	redisson_lock_timeout:{name}             sorted set  holder -> deadline, ms since the epoch
//	redisson_lock__channel:{name}:<holder>   Redis channel of a waiter; "0" when it is its turn
//	redisson_lock__channel:{name}:<client>   the same for all waiters of a latchkey client; also
//	                                         "+<number> <ms> <server ms> <tag>": the client's holder
//	                                         of that number is granted the lock, for so long
//	latchkey_queue:{name}                    hash  client id -> end of its life, ms since the epoch,
//	                                         and its proof
//	latchkey_label:{name}:<holder>           label (option Label) of a holder or waiter; expires with
//	                                         the lease or the place
//	latchkey_waits:{name}:<holder>           what the holder waits for (WithWaitGraph); expires
//
// The queue and its two companions are removed with the last waiter. If nobody
// ever comes, the queue and the deadlines expire a day after the last deadline
// in them, and latchkey_queue, which Java does not know, with the last
// deadline.
//
// A waiter that is granted the lock by a message has it only until the time up
// to which its client was known to be alive, unless the watchdog extends the
// lease before then. So a client that dies at that moment keeps the lock closed
// no longer than one that dies waiting. The waiter trusts that lease from
// before the last request, its own or its client's, that found it in the queue.
// The tag of the message is made with the client's proof, which only clients
// that can read the keys can read. A message from anybody else grants nothing;
// it is a hint to ask.
//
// A client with waiters listens on its own channel, where a Go client that
// releases the lock publishes. After 20 ms the first of its waiters also
// listens on the waiter's channel, where Java publishes. In latchkey_queue a
// client reports that it is alive, which distinguishes a dead Go waiter from a
// Java waiter. A waiter whose client is in latchkey_queue is alive until the
// time given there, whatever its deadline. Any other waiter is alive until its
// deadline.
//
// The names "x" and "{x}" share one queue, as in Redisson: waiters for one
// stand behind waiters for the other, and a free lock may stay free for up to
// the recheck. No waiter is granted the wrong lock, and messages grant nothing
// for these names.
//
// Deadlines are there for Java. Redisson chains them: each waiter adds its wait
// to the deadline before it, and each acquisition lowers them all. Here a
// deadline follows from the place: (place + 1) × QueueTimeout from now, plus
// what is left of the lease, which is the same sum. Each hand-over corrects the
// next two deadlines. Every few seconds the client corrects the first hundred
// and all of its own. A release that grants the lock lowers no deadline that is
// at or below that sum. All times are the server's.
package fairlock
