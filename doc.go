// Package latchkey coordinates workers on many machines through Redis. It
// implements the locks and synchronizers of Java's Redisson and stores the same
// bytes, so a Go worker and a Java service that use the same name share one
// lock.
//
// Make one [Client] for each Redis and share it. Each primitive is a package of
// its own whose constructor takes the Client:
//
//	c := latchkey.New(rdb)
//	defer c.Close()
//	lock := rlock.New(c, "orders:42")
//
//	hold, err := lock.Lock(ctx)             // waits; renewed until Unlock
//	if err != nil {
//		return err
//	}
//	defer func() { _ = hold.Unlock(ctx) }() // works although ctx is cancelled by then
//	return ship(hold.Context(), order)      // done the moment the lease is lost
//
// [Do] cannot forget the Unlock:
//
//	err := latchkey.Do(ctx, lock, func(ctx context.Context) error { … })
//
// Inside the function, [HoldFrom] returns the Hold. [DoValue] also returns a
// value. Semaphores have a Do for their permits.
//
// The caller holds the lock if, and only if, the error is nil. Code that takes
// a [Locker] also runs without Redis: a lock made by [NewLocal] excludes within
// one process, for development.
//
// # What is promised
//
//   - At most one holder at a time, for as long as Redis keeps its data and its
//     clock. When a lease ends, the Context and Lost of its Hold say so before
//     Redis lets another holder in.
//   - Each call takes effect once. A request that is repeated or delayed, or
//     whose reply is lost, does nothing twice. What a failed acquire left in
//     Redis is taken back, or ends with its lease.
//   - A lost wake-up delays a waiter by the recheck (WithRecheck, 5 s) at most.
//   - A blocking call returns within 100 ms of the end of its context, whatever
//     Redis does. Unlock continues without its context, for 3 s at most.
//   - A call whose server does not answer returns after 3 s
//     (WithAnswerTimeout). It returns at once if the server refuses the
//     connection and has never answered before. Calls that are already waiting
//     outlive an outage of 30 s.
//   - Nothing stays behind: no goroutine, no subscription, and no key except
//     the fencing token counters, the records of packages once and elect, the
//     results that flight and idem keep, and the events of WithHistory.
//
// # What is not promised
//
// A lock that frees itself after a crash cannot tell a dead holder from a slow
// one. Exclusion breaks when Redis loses data (a failover to a replica that
// lags behind, a restart without persistence, eviction, FLUSHALL), when the
// server's clock steps forward, and when a process is paused beyond its lease
// and then writes before it checks its Context. Where that matters, use a lock
// with rlock.Fenced, and let the protected resource refuse a token smaller than
// the greatest it has seen.
//
// # Words
//
//   - lease: how long a hold lasts unless it is renewed; the expiry of a key in
//     Redis
//   - holder: the party that holds a lock, "<client id>:<number>" in Redis;
//     carried by a context, never a goroutine
//   - hold: one acquisition, from grant to release or loss; a [Hold]
//   - hold count: how often a holder has taken a reentrant lock without giving
//     it back
//   - watchdog: the part of a client that renews leases, every third of a lease
//   - trust window: how long this process may believe that it holds a lock,
//     counted from before the request was sent
//   - lost: said of a hold whose lease ended, or whose lock was taken over,
//     before it was released
//   - hint: a wake-up from Redis, which may be late, merged or missing
//   - fencing token: a number that grows with each acquisition, for the
//     protected resource to check
package latchkey
