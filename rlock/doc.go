// Package rlock is the reentrant lock: one holder at a time, over all clients of
// one Redis, Go and Java. (It is not the read half of a read-write lock; that is
// in package rwlock.) Its bytes in Redis are those of Redisson's RLock,
// RFencedLock and RSpinLock.
//
// A Lock value is only a name on a client: making one does no I/O, it holds
// nothing, and goroutines may share it. What Lock returns is a Hold; two
// goroutines that share a Lock exclude each other, because each acquisition has
// a holder of its own. Re-entry travels in the context: see
// [latchkey.Hold.Context] and [latchkey.WithHolder].
//
// # What it promises
//
// At most one holder at a time, for as long as the Redis server keeps its data
// and its clock; a holder that loses its lease is told by its Hold's Context
// before anybody else is let in. A holder that crashes blocks others for the
// rest of its lease, 30 s unless set otherwise. A release gives the lock to one
// waiting client, or, where it is open to all, wakes one waiter of each; among the
// waiters of one client the first to come is the first served. Clients that wait
// are mostly served in the order in which they asked ([latchkey.WithDirectGrants]),
// but that is no promise: use package fairlock for one.
//
// It is one lock with the fairlock of the same name: they exclude each other. But an
// Unlock here tells nobody who waits there; the fair waiter finds out as it looks again
// ([latchkey.WithRecheck], 5 s). Use one kind for one name.
//
// A failover to a replica that has not heard of the lock, a restart without
// data, and a process that is paused beyond its lease and writes before it looks
// at its Context break exclusion, as with any lease. Fenced locks give out
// tokens by which the protected resource can tell.
//
// # In Redis
//
//	name                             hash  holder -> hold count; expires with the lease
//	redisson_lock__channel:{name}    Redis channel; "0" on release. With ":" and a
//	                                 random text behind, what one client is given
//	latchkey_next:{name}             sorted set; clients that wait. It expires
//	redisson_lock_token:{name}       fencing token counter (Fenced); never expires
//	latchkey_label:{name}:<holder>   label (option Label); expires with the lease
//
// Taking a free lock is one round trip and one command, giving it back another;
// where dozens of goroutines do so at once, one command serves many of them.
// A waiter's client subscribes once, to both Redis channels, however many wait.
// It is given the lock by the release, one command each time. Where Redisson listens
// too it has to ask, and wherever else [latchkey.WithDirectGrants] says that a release
// is open to all; so has a waiter with a holder in its context, a label or a lease of
// its own. A held lock is renewed every 10 s, up to 100 locks by one command.
//
// On redis-cli a held lock looks like this:
//
//	> HGETALL orders:42
//	1) "0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51:17"
//	2) "1"
package rlock
