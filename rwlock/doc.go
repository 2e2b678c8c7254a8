// Package rwlock implements the read-write lock: many readers or one writer,
// across all clients of one Redis, Go and Java. Its bytes in Redis are those of
// Redisson's RReadWriteLock.
//
// An [RWLock] has two halves. Each is a [Lock] with the methods of a reentrant
// lock. The values are only names on a client: making them does no I/O and
// holds nothing, and goroutines may share them. Lock returns a Hold, and each
// acquisition has a holder of its own; see [latchkey.Hold.Context] and
// [latchkey.WithHolder] for re-entry. A Hold's Context carries the holder for
// both halves.
//
// # What it promises
//
// A writer is alone, for as long as the Redis server keeps its data and its
// clock. A holder that loses its lease is told by its Hold's Context before
// Redis lets another in. Each reader has a lease of its own, kept by a key of
// its own. A reader that crashes therefore stops counting when its lease ends,
// 30 s by default, however long other readers go on, and its end does not end
// their holds.
//
// The holder of the write lock may also take the read lock, and keep it after
// it unlocks the write lock. It then goes on reading what it has written with
// no writer in between, and waiting readers start at once. The reverse is
// refused with ErrUpgrade, because two readers that want to write would wait
// for each other for ever. Unlock the read lock, take the write lock, and check
// again.
//
// If one holder has several holds of one half, the longest lease counts, or the
// watchdog if it renews one of them. No Unlock shortens a lease. But a write
// hold has no key of its own: if its holder also reads, a write lease that ends
// early stays in Redis until the read lease ends. The HoldAtLeast of a write
// hold ends at its Unlock if its holder keeps a read lock.
//
// # Readers and writers
//
// The release of a writer wakes all waiters. Waiting writers of one client are
// served in the order in which they came. There is no order between clients.
//
// A stream of readers does not keep a writer out for ever. A writer that waits
// because of readers leaves a sign in Redis. 100 ms later, which lets in
// readers that were waiting for a writer to leave, fresh readers begin to stand
// back. They stand back for the time set by [WriterPreference], 2 s by default,
// or for the rest of the writer's wait. The sign ends when a writer gets the
// lock, or by itself.
//
// The same time must pass before the next sign, so readers are not kept out for
// ever either. A reader stands back for at most that time for each writer that
// gets the lock, and for half of the time while none does.
//
// If read holds are more than 100 ms shorter than that time, a waiting writer,
// or another writer, gets the lock within three times that time. Overlapping
// read holds that are all longer can starve a writer; set a longer
// WriterPreference.
//
// Re-entries, and the read lock of a writer, never stand back. TryLock does, by
// failing. Java readers do not know the sign.
//
// # With Java
//
// When Redisson renews a reader, it sets the lease of the whole lock to 30 s.
// If that process then dies, a Go reader with a longer fixed Lease may lose the
// lock early without notice. Beside Java readers, use holds that the watchdog
// renews. Redisson before 4.4.0 renews the leases of all readers, including
// dead ones.
//
// Differences from Redisson:
//
//   - Re-entry does not add up the leases of a writer.
//   - A nested read unlock under a write lock does not shorten the lease.
//   - Unlocking the write lock while keeping a read lock wakes waiting readers.
//   - ForceUnlock of one half leaves the other half alone.
//   - If more than 32 readers remain, the Unlock of a reader does not shorten
//     the lease of the lock to the longest of theirs. This matters only if they
//     all die: a Go writer detects that they are dead, whereas a Java writer
//     waits until that lease ends.
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
//	latchkey_waits:{name}:<field>          what the holder waits for (WithWaitGraph); expires
//
// The field of a dead reader stays until a writer or the Unlock of another
// reader comes across it, or until the lock is free.
//
// The names "x" and "{x}" are two locks that share the Redis channel and the
// timeouts {x}:<holder>:rwlock_timeout:<n>, as in Redisson. A message of either
// makes the waiters of the other ask, which does no harm. Timeouts of different
// holders do not clash, and each acquisition has a holder of its own. But if
// one holder reads under both names (by [latchkey.WithHolder], or a thread of
// Java), the Unlock of one read hold removes the timeout of the other. A writer
// may then come in beside that hold, which learns of it at its next renewal or
// Unlock. Nothing refuses this; use one of the two names. The two locks do not
// share latchkey's own keys, the sign of a writer and the labels.
//
// Taking a free lock is one round trip and one command; releasing it is
// another. A client with waiters subscribes once, however many waiters it has.
// The first waiting writer and the first waiting reader ask again at each
// message; if that reader is granted the lock, the other waiting readers follow
// at once. A held lock is renewed every 10 s, up to 100 locks by one command.
// The request of a writer and the Unlock of a reader look at no more than 32
// readers; if none of those is alive, a writer looks at 500 at a time. If many
// callers of one client read at once, one command serves up to 100 of them.
//
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
