// Package permitsemaphore is the semaphore whose permits have ids and leases: a
// number of permits that the clients of one Redis share, Go and Java, each of
// which comes back by itself when its holder has crashed. Its bytes in Redis are
// those of Redisson's RPermitExpirableSemaphore.
//
// A Semaphore value is only a name on a client: making one does no I/O, it holds
// nothing, and goroutines may share it. TrySetPermits or SetPermits makes the
// semaphore in Redis; before that it has no permits, and an Acquire waits. What
// Acquire returns is a Permit.
//
// # What it promises
//
// The permits available and the permits out are as many as were set, at every
// moment and whatever is repeated, delayed, answered into the void or killed. A
// permit that is not renewed any more is available again when its lease is over:
// 30 s after a crash, unless set otherwise. Whoever asks reclaims it, and a
// waiter asks when the next lease ends.
//
// A permit that is taken without the option Lease is renewed by the watchdog
// until it is released. One with Lease is not, and one with Permanent, as all of
// Redisson's are by default, has no end: if its holder crashes it is gone until
// somebody releases its id. A holder that loses its permit is told by the Context
// of the Permit before anybody else gets it, as far as clocks can be trusted.
// Leases are kept by the server's clock; a Java client judges and sets them by
// its own.
//
// Within one client the first to come is the first served, so a large request is
// not starved by small ones. Between clients there is no order.
//
// # In Redis
//
//	name                          string  permits available, an integer
//	{name}:timeout                zset    16 random bytes for each permit that is out -> end of its lease, ms since the epoch
//	redisson_sc:{name}            Redis channel; a number above 0 when permits have become available
//	latchkey_claim:{name}:<id>    string  number of the last request under the claim; expires after a minute
//	latchkey_label:{name}:<id>    string  label (option Label) of the permit; expires with the lease
//
// The names "x" and "{x}" have one set of permits that are out, as in Redisson: what has
// not been given back in time comes to either, so only one of them can be used.
//
// The claims are ours, and Java sees nothing of them: whatever changes the number
// of permits, or a lease, leaves one.
//
// Taking a free permit is one round trip and one command, giving it back another.
// A waiter's client subscribes once, however many wait, and one command asks for
// up to 32 of them. Permits are renewed every 10 s, up to 100 by one command. A
// label is one command more for each of these. On
// redis-cli a semaphore with 3 permits, one of which is out, looks like this:
//
//	> GET licences
//	"2"
//	> ZRANGE {licences}:timeout 0 -1 WITHSCORES
//	1) "\x8f\x02..."
//	2) "1700000030000"
package permitsemaphore
