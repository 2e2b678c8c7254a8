// Package flight has one caller do the work for a key, and gives its result to all, however
// many processes ask.
//
//	report, shared, err := flight.Do(ctx, client, "report:2027-01",
//		func(ctx context.Context) (Report, error) { return build(ctx) },
//		flight.TTL(time.Hour))
//
// A value is kept for its TTL, and until then Do takes it from Redis. When there is none,
// one caller has the lock of the key, which is renewed, and calls its function; the others
// wait. In each process one of them asks Redis, for all.
//
// # What is promised
//
// At most one function runs for a key at a time, and no value is kept of one that has lost
// the lock: a process that was paused for longer than its lease does not overwrite a newer
// value. If the process dies, the others know it when the lease has ended, and one of them
// calls its function. This holds while Redis keeps its data; after a failover that has
// lost some, two may run (docs/guarantees.md). So let the function bear being called twice.
//
// If Redis cannot be reached, Do returns an error and does not call the function.
//
// # Beside x/sync/singleflight
//
//	                        singleflight          here
//	shares with             its process           all processes
//	a later call            calls fn again        gets the value, until its TTL is over
//	a caller that gives up  leaves with DoChan    leaves when its ctx ends
//	fn when all give up     goes on               its ctx ends
//	the value               is one for all        is a copy for each, but for fn's caller
//	an error                is one for all        the same in a process, an Error in others
//	a panic                 goes on in all        goes on in one caller of the process
//	Forget                  calls fn beside it    calls fn behind it
//	shared                  v went to several     v came from another call
//
// # Keys and round trips
//
// All keys have the hash slot of the key:
//
//	{key}:latchkey_flight        the lock of a call: that of package rlock
//	{key}:latchkey_flight_call   a hash: the call under way, with its process; or, for some
//	                             seconds or the ErrorTTL, how it has failed. It expires, of
//	                             a process that has died soon after AtMost
//	{key}:latchkey_flight_value  a text: the value, until TTL and Stale are over
//
// A Do that finds a value takes one command, which is no script. One that calls its function
// takes five (look, acquire, begin, keep, release), and one more with ErrorTTL. One that
// waits looks, tries to acquire, subscribes to the Redis channel of the lock
// (redisson_lock__channel:{key}:latchkey_flight), and reads what came of it.
package flight
