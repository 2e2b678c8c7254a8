// Package countdownlatch implements the count-down latch: callers wait until a
// count, which the clients of one Redis share, Go and Java, has been counted
// down to 0. Its bytes in Redis are those of Redisson's RCountDownLatch.
//
// A Latch value is only a name on a client. Making one does no I/O and holds
// nothing, and goroutines may share it. TrySetCount begins a count. After that
// count has ended, the next one may begin.
//
// # What it promises
//
// When a count reaches 0 or is deleted, all waiters of all clients are
// released. A client that misses the message asks again within the recheck
// (WithRecheck, 5 s). A CountDown counts once, whatever requests are repeated
// or delayed and whatever replies are lost. After an error whose MaybeApplied
// is true, a CountDown may or may not have counted. After any other error it
// has not.
//
// Redis cannot distinguish a count that has ended from one that never began.
// Await returns at once in both cases, as Redisson's does, and also after Redis
// has lost its data. AwaitSet first waits for a count to begin.
//
// The end of a count releases its waiters even if the next count begins before
// they have asked, because Redis remembers the end for a minute. That holds if
// a Go client ended the count. If Java ends a count and begins the next within
// a round trip, the waiters may wait for the next one too, as in Redisson.
//
// # In Redis
//
//	name                                          string  the remaining count; absent when it has ended
//	redisson_countdownlatch__channel__{name}      Redis channel; "0" when a count ends, "1" when one begins; in a
//	                                              cluster, for a name with a hash tag, latchkey_latch_channel:name
//	latchkey_claim:{name}:<id>                    string  number of the last request under the claim; expires after a minute
//	latchkey_ended:{name}                         string  when a count last ended; expires after a minute
//
// The last two belong to latchkey and are invisible to Java. A CountDown is one
// round trip and one command. Waiters cost their client one subscription and
// one command each time they ask, however many they are. In a Redis Cluster, a
// latch whose name has a hash tag works for Go clients but not for Java, which
// fails on it.
//
// On redis-cli a latch with a count of 3 looks like this:
//
//	> GET started
//	"3"
package countdownlatch
