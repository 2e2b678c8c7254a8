// Package rlock implements the reentrant lock: one holder at a time, across all
// clients of one Redis, Go and Java. (The read half of a read-write lock is in
// package rwlock.) Its bytes in Redis are those of Redisson's RLock,
// RFencedLock and RSpinLock.
//
// A Lock value is only a name on a client. Making one does no I/O and holds
// nothing, and goroutines may share it. Lock returns a Hold. Two goroutines
// that share a Lock exclude each other, because each hold has a holder of
// its own. The context carries re-entry: see [latchkey.Hold.Context] and
// [latchkey.WithHolder].
//
// # What it promises
//
// There is at most one holder at a time, for as long as the Redis server keeps
// its data and its clock. A holder that loses its lease is told by its Hold's
// Context before Redis lets another holder in. A holder that crashes blocks
// others for the rest of its lease, 30 s by default.
//
// A release grants the lock to one waiting client, or leaves it free and wakes
// one waiter of each client. Waiters of one client are served in the order in
// which they came. Waiting clients are mostly served in the order in which they
// asked ([latchkey.WithDirectGrants]), but that is not promised: use package
// fairlock for that.
//
// An rlock and a fairlock with the same name are one lock: they exclude each
// other. But an Unlock here does not wake the waiters of the fairlock, which
// notice at their next recheck ([latchkey.WithRecheck], 5 s). Use one kind for
// one name.
//
// As with any lease, exclusion breaks after a failover to a replica that has
// not received the lock, after a restart without data, and when a process is
// paused beyond its lease and writes before it checks its Context. Fenced locks
// give tokens by which the protected resource can detect that.
//
// # In Redis
//
//	name                             hash  holder -> hold count; expires with the lease
//	redisson_lock__channel:{name}    Redis channel; "0" on release. With ":" and a
//	                                 random text appended: grants to one client
//	latchkey_next:{name}             sorted set, the waitlist of clients; expires
//	redisson_lock_token:{name}       fencing token counter (Fenced); never expires
//	latchkey_label:{name}:<holder>   label (option Label); expires with the lease
//	latchkey_waits:{name}:<holder>   what the holder waits for (WithWaitGraph); expires
//
// Taking a free lock is one round trip and one command; releasing it is
// another. When dozens of goroutines do so at once, one command serves many of
// them.
//
// A client with waiters subscribes once, to both Redis channels, however many
// waiters it has. A release grants the lock to a waiter, so a hand-over is one
// command. Two kinds of waiters have to ask Redis instead: all waiters, if the
// release leaves the lock free because a Redisson client listens or for another
// reason that [latchkey.WithDirectGrants] gives; and a waiter that has a holder
// in its context, a label, or a lease of its own. A held lock is renewed every
// 10 s, up to 100 locks by one command.
//
// On redis-cli a held lock looks like this:
//
//	> HGETALL orders:42
//	1) "0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51:17"
//	2) "1"
package rlock
