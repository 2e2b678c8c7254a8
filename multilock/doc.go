// Package multilock makes one lock of several: of all those locks ([New]), of a
// majority of locks on independent servers ([NewRed], the algorithm that is known
// as Redlock), or of some values of a group on one server ([NewGroup]).
//
// Members may be of any kind, of several clients and servers, and be made of
// locks themselves. What Lock returns is one Hold for all of them. Its Context
// ends when it is no longer whole: with the first lost member, or, after NewRed,
// when fewer than a majority are left; the other members are held, and renewed,
// until Unlock, which is due after a loss as well. Unlock tries every member; its
// error joins theirs. Remaining is the least of the members' times, or, after
// NewRed, for how long a majority lasts. Its Context re-enters every member.
//
// # All or none
//
// New's Lock waits for one member while it holds none, and takes the others after
// it, in an order that is the same in every process. For a member that comes
// later in that order than all it holds it waits for up to 1.6 s; else it makes
// one attempt. When that fails it gives everything back and begins again with the
// member that was refused. So two multi-locks over the same members never wait for
// each other, and nobody holds some members for long because another is missing.
//
// Two clients of one server are two parties to it: a New of the same lock on both
// waits for itself.
//
// # A majority
//
// NewRed's Lock asks all members at once, and returns as soon as a majority has
// granted it; each try is bounded by 50 ms or a tenth of the lease, whichever is
// less, so servers that are slow or dead cost nothing as long as there is a
// majority of others. Where no majority has answered within it, the bound doubles
// for the next round, up to a second; when a majority answers in a quarter of it, it
// is halved. So a TryLock of servers that are further away than 50 ms may have no
// answer at first. A grant that comes later joins the Hold. What a majority
// gives is good for
//
//	lease − time since the requests were sent − lease/100 − 2 ms
//
// and if that is not more than nothing, or there is no majority, everything is
// given back, also to members that gave no answer, and the next round begins after
// a random delay of 200 ms at most. Each member renews its own lease, and members
// that are missing are asked again with every renewal, and then have a second, or a
// tenth of the lease. A member that did not answer
// in time is asked by one caller in half a second only, while there is a majority
// without it. Unlock returns nil when so many members are free that others can have
// the lock; the rest is given back in the background.
//
// Exclusion holds while each majority of servers keeps its data and a clock that
// runs at a normal rate. It breaks when a server forgets: one that restarts without
// its data must stay down for longer than the longest lease (docs/redlock.md says
// why, and how). A process that is paused beyond its lease, and writes before it
// looks at its Context, writes without the lock, as with any lease; and there are
// no fencing tokens, because nothing orders the grants of independent servers. Use
// NewRed for availability; where a stale writer does harm, use a fenced lock on one
// server and let the resource check the token.
//
// # A group
//
// NewGroup takes values of one group by one script: all or none, without waiting
// for one while it has another, at the price of one command. It is Redisson's
// getMultiLock(group, values), whose values Java must encode as they are
// (StringCodec). Expiry is by the server's clock; Java uses its own, so the clocks
// of Java machines must not be off by more than a small part of a lease.
//
// Two sets that one holder from [latchkey.WithHolder] has may share values. If the
// lease of the one is lost, the values that they share stay closed until the lease
// of the other ends.
//
// # In Redis
//
// New and NewRed have no keys of their own. A group has
//
//	group                                      hash, for each value that is held:
//	  <h>                                        holder
//	  <h>:<holder>:expire_time                   server ms
//	  <h>:<holder>:lock_count                    hold count
//	redisson_lock__channel:{group}             Redis channel; "0" on release
//	latchkey_group:{group}:<holder>:<set>      how often the holder has this set; ours
//	latchkey_label:{group}:<holder>            label (option Label); ours
//
// where <h> is the HighwayHash of the value, with Redisson's key, of 128 bits in
// base64. All of them expire with the leases, the hash a second later.
package multilock
