// Package permitsemaphore implements the semaphore whose permits have ids and
// leases: a number of permits that the clients of one Redis share, Go and Java.
// A permit whose holder has crashed becomes available again by itself. Its
// bytes in Redis are those of Redisson's RPermitExpirableSemaphore.
//
// A Semaphore value is only a name on a client. Making one does no I/O and
// holds nothing, and goroutines may share it. TrySetPermits or SetPermits
// creates the semaphore in Redis. Before that it has no permits, and Acquire
// waits. Acquire returns a Permit.
//
// # What it promises
//
// Available permits and permits that are out add up to the number that was set,
// at every moment, whatever is repeated, delayed, lost or killed. A permit that
// is no longer renewed becomes available when its lease ends: 30 s after a
// crash, by default. The next request reclaims it, and a waiter asks when the
// next lease ends.
//
// The watchdog renews a permit that is taken without the option Lease until it
// is released. A permit with Lease is not renewed. A permit with Permanent, as
// all of Redisson's are by default, has no end: if its holder crashes, it is
// gone until somebody releases its id. A holder that loses its permit is told
// by the Context of the Permit before anybody else gets the permit, as far as
// clocks can be trusted. Leases are kept by the server's clock, but a Java
// client sets and checks them by its own.
//
// Waiters of one client are served in the order in which they came, so a large
// request is not starved by small ones. Between clients there is no order.
//
// # In Redis
//
//	name                          string  permits available, an integer
//	{name}:timeout                zset    16 random bytes for each permit that is out -> end of its lease, ms since the epoch
//	redisson_sc:{name}            Redis channel; a number above 0 when permits have become available
//	latchkey_claim:{name}:<id>    string  number of the last request under the claim; expires after a minute
//	latchkey_label:{name}:<id>    string  label (option Label) of the permit; expires with the lease
//
// The names "x" and "{x}" share one set of permits that are out, as in
// Redisson. A reclaimed permit goes to either of them, so use only one of the
// two names.
//
// The claims belong to latchkey and are invisible to Java. Every request that
// changes the number of permits, or a lease, leaves one.
//
// Taking a free permit is one round trip and one command; giving it back is
// another. A client with waiters subscribes once, however many waiters it has,
// and one command asks for up to 32 of them. Permits are renewed every 10 s, up
// to 100 by one command. A label costs one more command for each of these.
//
// On redis-cli a semaphore with 3 permits, one of which is out, looks like
// this:
//
//	> GET licences
//	"2"
//	> ZRANGE {licences}:timeout 0 -1 WITHSCORES
//	1) "\x8f\x02..."
//	2) "1700000030000"
package permitsemaphore
