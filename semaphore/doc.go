// Package semaphore implements the counting semaphore: a number of permits that
// the clients of one Redis share, Go and Java. Its bytes in Redis are those of
// Redisson's RSemaphore.
//
// A Semaphore value is only a name on a client. Making one does no I/O and
// holds nothing, and goroutines may share it. TrySetPermits creates the
// semaphore in Redis. Before that it has no permits, and Acquire waits.
//
// Permits have no owner: anybody may release any number of them. The permits of
// a crashed process are gone until somebody releases in its place or corrects
// the number with AddPermits. Where that will not do, use package
// permitsemaphore, whose permits have ids and leases.
//
// # What it promises
//
// A permit is taken once and given back once, whatever requests are repeated or
// delayed and whatever replies are lost. Permits that a failed Acquire may have
// been granted are given back in the background. After an error whose
// MaybeApplied is true, a Release may or may not have given back all or some of
// the permits. After any other error it has given back none.
//
// Waiters of one client are served in the order in which they came, so a large
// request is not starved by small ones. Between clients there is no order: a
// request for many permits may wait for as long as other clients take the few
// that are free at a time.
//
// # In Redis
//
//	name                          string  permits available, an integer
//	redisson_sc:{name}            Redis channel; the permits available, when some were added
//	latchkey_claim:{name}:<id>    string  number of the last request under the claim; expires after a minute
//
// The claims belong to latchkey and are invisible to Java. By its claim a
// script recognizes a repeated request. A client reuses its claims, so there
// are about as many of them as it has had requests at once.
//
// Taking free permits is one round trip and one command; giving them back is
// another. A client with waiters subscribes once, however many waiters it has,
// and one command asks for up to 32 of them. Permits that are released while
// other callers of the same client wait go to them in memory, at no cost, for
// up to 10 ms after Redis has granted them (latchkey.WithHandOver).
//
// On redis-cli a semaphore with 3 permits looks like this:
//
//	> GET workers
//	"3"
package semaphore
