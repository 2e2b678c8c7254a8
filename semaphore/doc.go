// Package semaphore is the counting semaphore: a number of permits that the
// clients of one Redis share, Go and Java. Its bytes in Redis are those of
// Redisson's RSemaphore.
//
// A Semaphore value is only a name on a client: making one does no I/O, it holds
// nothing, and goroutines may share it. TrySetPermits makes the semaphore in
// Redis; before that it has no permits, and an Acquire waits.
//
// Permits have no owner. Any number may be released by anybody, and what a
// crashed process had taken is gone until somebody releases in its place or sets
// the number right with AddPermits. Where that will not do, use package
// permitsemaphore, whose permits have ids and leases.
//
// # What it promises
//
// A permit is taken once and given back once, whatever is repeated, delayed or
// answered into the void; what an Acquire that failed may have been granted is
// given back in the background. A Release that ends with an error whose
// MaybeApplied is true may or may not have given back, or in part; after any other
// error it has not.
//
// Within one client the first to come is the first served, so a large request is
// not starved by small ones. Between clients there is no order: a request for
// many permits may wait for as long as other clients snatch the few that are
// free at a time.
//
// # In Redis
//
//	name                          string  permits available, an integer
//	redisson_sc:{name}            Redis channel; the permits available, when some were added
//	latchkey_claim:{name}:<id>    string  number of the last request under the claim; expires after a minute
//
// The claims are ours, and Java sees nothing of them: by its claim a script
// knows a request that comes again. A client uses them over and over, so that
// there are about as many of them as it has had requests at once.
//
// Taking free permits is one round trip and one command, giving them back
// another. A waiter's client subscribes once, however many wait, and one command
// asks for up to 32 of them. Permits that are released while others of the same
// client wait go to them in memory, for up to 10 ms after Redis has granted them
// (latchkey.WithHandOver), and cost nothing. On redis-cli a semaphore with 3 permits looks like
// this:
//
//	> GET workers
//	"3"
package semaphore
