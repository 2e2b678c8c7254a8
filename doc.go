// Package latchkey coordinates workers on many machines through Redis, with the
// objects of Java's Redisson and with its bytes: a Go worker and a Java service
// that use the same name share the same lock.
//
// A [Client] is made once for each Redis and shared. Each primitive is a package
// of its own that takes one:
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
// or, impossible to forget,
//
//	err := latchkey.Do(ctx, lock, func(ctx context.Context) error { … })
//
// in which [HoldFrom] gives the Hold at hand. [DoValue] returns a value too, and
// semaphores have a Do for their permits.
//
// A nil error means held, and nothing else does. What takes a [Locker] runs without
// Redis, too: [NewLocal] excludes within one process, for development.
//
// # What is promised
//
//   - At most one holder at a time, for as long as Redis keeps its data and its
//     clock. A holder whose lease ends hears of it, by its Hold's Context and
//     Lost, before Redis lets another in.
//   - Each call takes effect once. A request that is repeated, delayed or
//     answered into the void does nothing twice; what a failed acquire has left
//     is taken back, or ends with its lease.
//   - No wake-up is lost for longer than the recheck (WithRecheck, 5 s).
//   - A blocking call returns within 100 ms of the end of its context, whatever
//     Redis does. Unlock goes on without its context, for 3 s at most.
//   - A call whose server does not answer returns after 3 s (WithAnswerTimeout),
//     and at once when it refuses and has never answered. Those who wait already
//     outlive an outage of 30 s.
//   - Nothing stays behind: no goroutine, no subscription, and no key but the
//     fencing token counters.
//
// # What is not promised
//
// A lock that frees itself after a crash cannot tell a dead holder from a slow
// one. Exclusion breaks when Redis loses data (a failover to a replica that had
// not heard, a restart without persistence, eviction, FLUSHALL), when its clock
// steps forward, and when a process is paused beyond its lease and writes before
// it looks at its Context. Where that matters, take a lock with rlock.Fenced and
// let the resource refuse a token that is less than one it has seen.
//
// # Words
//
//   - lease: for how long a hold is good unless it is renewed; kept by the expiry
//     of a key in Redis
//   - holder: who has it, "<client id>:<number>" in Redis; carried by a context,
//     never a goroutine
//   - hold: one acquisition, from grant to release or loss; a [Hold]
//   - hold count: how often a holder has taken a reentrant lock and not given back
//   - watchdog: the part of a client that renews leases, every third of a lease
//   - trust window: for how long this process may go on believing that it holds,
//     counted from before the request was sent
//   - lost: the lease ended, or somebody took over, while we thought we held
//   - hint: a wake-up from Redis, which may be late, merged or missing
//   - fencing token: a number that grows with each acquisition, for the protected
//     resource to check
package latchkey
