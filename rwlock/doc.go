// Package rwlock is the read-write lock: many readers or one writer, over all
// clients of one Redis, Go and Java. Its bytes in Redis are those of Redisson's
// RReadWriteLock.
//
// An [RWLock] has two halves, each a [Lock] with the methods of a reentrant lock.
// Values are only names on a client: making them does no I/O, they hold nothing,
// and goroutines may share them. What Lock returns is a Hold, and each
// acquisition has a holder of its own; see [latchkey.Hold.Context] and
// [latchkey.WithHolder] for re-entry. A Hold's Context speaks for both halves.
//
// # What it promises
//
// A writer is alone, for as long as the Redis server keeps its data and its
// clock; a holder that loses its lease is told by its Hold's Context before
// anybody else is let in. Each reader has a lease of its own, kept by a key of
// its own: a reader that crashes is dead at the end of it, 30 s unless set
// otherwise, however long others go on reading, and its end ends nobody else's.
//
// The holder of the write lock may take the read lock too, and keep it when it
// unlocks the write lock: so it goes on reading what it has written with no
// writer in between, and waiting readers start at once. The other way round is
// refused with ErrUpgrade: two readers that want to write would wait for each
// other for ever. Unlock the read lock, take the write lock, and look again.
//
// With several holds of one half by one holder the longest lease, or the
// watchdog, wins; no Unlock shortens a lease. But a write hold has no key of its
// own: while its holder reads as well, a write lease that ends early stays in
// Redis until the read lease ends. HoldAtLeast on a write hold ends where the
// holder keeps a read lock.
//
// # Readers and writers
//
// The release of a writer wakes all waiters. Among the waiting writers of one
// client the first to come is the first served; there is no order between
// clients.
//
// A stream of readers does not keep a writer out for ever. A writer that waits
// because of readers leaves a sign in Redis, and 100 ms later (so that readers
// come in who were waiting for a writer to leave) fresh readers begin to stand
// back: until the time set by [WriterPreference] is over, 2 s unless set
// otherwise, or the writer's wait. The same time must then pass before the next
// sign, so that readers are never kept out for ever either: one is kept back for
// at most that time for each writer that gets the lock, and for half of the time
// while none does. The bound for the writer: where read holds are shorter than
// that time by more than 100 ms, it gets the lock, or another writer does,
// within three times as long. Read holds that overlap and are all longer can
// starve it; set more. A sign ends when a writer gets the lock, or by itself.
//
// Re-entries, and the read lock of a writer, never stand back. TryLock does, by
// failing. Java's readers do not know the sign.
//
// # With Java
//
// Redisson's renewal of a reader sets the lease of the whole lock to 30 s. If
// that process then dies, a Go reader with a longer fixed Lease may lose the lock
// early and not know. Beside Java readers use holds that the watchdog renews.
// Redisson before 4.4.0 renews the leases of all readers, dead ones included.
//
// Otherwise than Redisson, re-entry does not add up the leases of a writer, a
// nested read unlock under a write lock does not shorten the lease, unlocking
// the write lock with a read lock kept wakes waiting readers, and ForceUnlock of
// one half leaves the other alone. Where more than 32 readers stay, the Unlock of a
// reader does not shorten the lease of the lock to the longest of theirs. It only
// matters when they all die: a Go writer finds that they are dead, a Java writer
// waits until that lease ends.
//
// # In Redis
//
//	name                                   hash  mode -> read or write,
//	                                       <holder> -> hold count of a reader,
//	                                       <holder>:write -> of the writer;
//	                                       expires with the longest lease
//	{name}:<holder>:rwlock_timeout:<n>     a reader's n-th hold; expires with its lease
//	redisson_rwlock:{name}                 Redis channel; "0" when the last reader
//	                                       has left, "1" when a writer has
//	latchkey_writer:{name}                 a writer waits; expires
//	latchkey_label:{name}:<field>          label (option Label); expires with the lease
//
// The field of a reader that died stays until the Unlock of another reader, or a writer,
// comes across it, or the lock is free.
//
// The names "x" and "{x}" are two locks that have the Redis channel and the timeouts
// {x}:<holder>:rwlock_timeout:<n> in common, as in Redisson. A message of either has those
// who wait for the other ask, which does nothing else. Timeouts are told apart by their
// holders, and each acquisition has one of its own. But where one holder reads under both
// names (by [latchkey.WithHolder], or a thread of Java), the Unlock of one read hold takes
// away what keeps the other alive: a writer may come in beside it, and its Hold hears of
// that by its next renewal or Unlock. Nothing refuses this; use one of the two names. What
// is latchkey's own, the sign of a writer and the labels, they do not share.
//
// Taking a free lock is one round trip and one command, giving it back another.
// A waiting client subscribes once, however many of its callers wait, and the
// first writer and the first reader in line ask again for each message. Waiting
// readers follow the first of them all at once. A held lock is renewed every
// 10 s, up to 100 locks by one command. What a writer asks, and the Unlock of a
// reader, look at no more than 32 readers, a writer at 500 at a time when none of
// those lives. Where many callers of one client read at once, one command serves up
// to 100 of them.
// On redis-cli a lock with two readers looks like this:
//
//	> HGETALL orders:42
//	1) "mode"
//	2) "read"
//	3) "0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51:17"
//	4) "1"
//	5) "5f1f7a52-71f8-4f0f-a3c7-6b7a3ad9b9c0:4"
//	6) "1"
package rwlock
