// Package countdownlatch is the count-down latch: callers wait until a count,
// which the clients of one Redis share, Go and Java, has been counted down to 0.
// Its bytes in Redis are those of Redisson's RCountDownLatch.
//
// A Latch value is only a name on a client: making one does no I/O, it holds
// nothing, and goroutines may share it. TrySetCount begins a count; when it has
// ended, the next one may begin.
//
// # What it promises
//
// When a count reaches 0, or is deleted, everybody who waits is released, in all
// clients; a client that misses the message looks again by itself within the
// recheck (WithRecheck, 5 s). A CountDown counts once, whatever is repeated,
// delayed or answered into the void; one that ends with an error whose
// MaybeApplied is true may or may not have counted, one with any other error has
// not.
//
// Redis cannot tell a count that has ended from one that was never begun: Await
// returns at once in both cases, as Redisson's does, and so it does after Redis
// has lost its data. AwaitSet waits for a count to be begun first.
//
// A caller who waits for one count is released by its end even if the next one
// is begun before it has looked: the end is remembered for a minute. That is so
// when the count was ended by a Go client; one that Java ends and begins anew
// within a round trip may hold its waiters for the next count, as in Redisson.
//
// # In Redis
//
//	name                                          string  the count that is left; none when it has ended
//	redisson_countdownlatch__channel__{name}      Redis channel; "0" when it ends, "1" when one begins; in a
//	                                              cluster, for a name with a hash tag, latchkey_latch_channel:name
//	latchkey_claim:{name}:<id>                    string  number of the last request under the claim; expires after a minute
//	latchkey_ended:{name}                         string  when a count last ended; expires after a minute
//
// The last two are ours, and Java sees nothing of them. To count down is one
// round trip and one command. Waiters cost their client one subscription and one
// command for each look, however many they are. In a Redis Cluster a latch whose
// name has a hash tag works for Go clients, but not for Java, which fails on it.
// On redis-cli a latch with a count of 3 looks like this:
//
//	> GET started
//	"3"
package countdownlatch
