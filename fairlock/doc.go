// Package fairlock is a lock that is given in the order in which it was asked
// for, over all clients of one Redis, Go and Java. Its bytes in Redis are those of
// Redisson's RFairLock.
//
// A Lock value is only a name on a client: making one does no I/O, it holds
// nothing, and goroutines may share it. What Lock returns is a Hold; two
// goroutines that share a Lock exclude each other. Re-entry travels in the
// context, as with package rlock, and stands in no queue.
//
// # What it promises
//
// All that rlock promises. Besides, those who wait are served in the order in
// which Redis has put them into the queue, whatever client they are of. An acquire
// that can be had at once and waits for nobody does not queue. One that gives up,
// by its context, its Wait or the client's Close, has left the queue when it
// returns. Only where a request of it is on its way yet, or Redis does not answer,
// does it leave in the background.
//
// A waiter that lives keeps its place for as long as it waits, also when the one
// before it holds the lock for hours. A waiter that has died costs nothing until
// it is the next one; then 15 s at most after its client fell silent, or
// [QueueTimeout] if that is shorter. A Java waiter that has died costs what is
// left of its deadline, as in Redisson.
//
// # What it does not promise
//
// A client that is cut off from Redis for longer than 15 s is taken for dead by
// others: its waiters lose their places as they become the next ones, and queue
// again at the end. The same happens to all when somebody deletes the queue, or
// Redis loses it.
//
// It is one lock with the rlock of the same name: they exclude each other. But the
// Unlock of an rlock tells no waiter here; who waits finds out as it looks again
// ([latchkey.WithRecheck], 5 s). Use one kind for one name.
//
// A Java client sweeps by its own clock, and by deadlines that are shared. Clocks
// of machines that run Java should agree within a minute, and QueueTimeout should
// be Redisson's fairLockWaitTimeout, and no less than the longest wait that Java
// callers give to tryLock: a Java waiter with a longer one moves the deadlines of
// those behind it further than they can bear, and they may have to queue again.
// (Java waiters themselves lose their places under a holder that works for longer
// than their deadline; that is Redisson's way.)
//
// # The price
//
// A free lock costs what an rlock costs: one command to take, one to give back. Who
// has to wait has one command to stand in the queue, and is given the lock by the
// one that gives it back: in the answer, when both are of one client, else by a
// message. So a hand-over between Go clients is two commands, as a push to a
// waiting BLPOP is, though with longer scripts; where Java has a part in it, it is three. The first waiter of each client asks every 5 s for all
// of them, whatever their number, and says that they are alive: one command, and
// one for each hundred that it looks at, those in front each time and all within
// half a minute. The work of a hand-over does not grow with the queue. To give up
// a place in the middle of a queue is a scan of the list inside Redis. Use rlock
// where order does not matter.
//
// # In Redis
//
//	name                                     hash  holder -> hold count; expires with the lease
//	redisson_lock_queue:{name}               list of holders that wait, the next one first
//	redisson_lock_timeout:{name}             sorted set holder -> deadline, ms since the epoch
//	redisson_lock__channel:{name}:<holder>   Redis channel of a waiter; "0" when it is its turn
//	redisson_lock__channel:{name}:<client>   the same for all waiters of a client of latchkey; "+<number> <ms>
//	                                         <server ms> <tag>" when its holder of that number was given the lock, for so long
//	latchkey_queue:{name}                    hash client id -> until when it is alive, ms since the epoch, and its proof
//	latchkey_label:{name}:<holder>           label (option Label) of who holds or waits; expires with the lease or the place
//
// The queue and its two companions go with the last waiter. They expire a day
// after the last deadline in them, should nobody ever come; latchkey_queue, which
// Java does not know, with the last deadline.
//
// A waiter that was given the lock by a message has it for no longer than its
// client was known to be alive, until the watchdog makes the lease longer: a
// client that dies just then keeps nobody out for longer than one that dies
// waiting. It believes in that lease from before its last request, or its client's
// last question, that found it in the queue. The tag of the message takes the proof
// of the client to make, which only those can read who can read the keys: a message
// of anybody else gives nothing, and is a hint to ask.
//
// A client with waiters listens on its own channel; a Go client that gives the lock
// back publishes there. The first of its waiters listens on the waiter's channel as
// well, after 20 ms, because that is where Java publishes. In latchkey_queue a
// client says that it is alive, which is how a dead Go waiter is told from a Java
// one: whose client is in it is alive until the time it says, whatever its
// deadline; whose is not, until its deadline.
//
// The names "x" and "{x}" have one queue, as in Redisson: who waits for either stands
// behind who waits for the other, and what is free may stay so for up to the recheck. None
// is given the wrong one, and messages give nothing there.
//
// Deadlines are what Java must find. Redisson chains them, each one wait behind the
// one before, and each acquisition lowers them all. Here they follow the place:
// (place + 1) × QueueTimeout from now, and what is left of the lease. That is the
// same sum; it is put right for the next two at each hand-over, and for the first
// hundred and for all of our own every few seconds. Who is given the lock by the one
// who had it lowers no score that is no higher than that. All times are the server's.
package fairlock
