// Package multilock makes one lock of several: of all the given locks ([New]),
// of a majority of locks on independent servers ([NewRed], the Redlock
// algorithm), or of some values of a group on one server ([NewGroup]).
//
// The members may be of any kind, may belong to several clients and servers,
// and may be multi-locks themselves. Lock returns one Hold for all of them. The
// Hold's Context ends with the first lost member; with NewRed it ends when
// fewer than a majority are left. The other members stay held, and renewed,
// until Unlock, so call Unlock after a loss too. Unlock tries every member and
// joins their errors. Remaining returns the least of the members' times; with
// NewRed it returns how long a majority lasts. The Context re-enters every
// member.
//
// # All or none
//
// Lock of New waits without a bound only for its first member, while it holds
// none. It takes the others after it, in an order that is the same in every
// process. For a member that comes after all held members in that order it
// waits for up to 1.6 s; for any other member it makes one attempt. If that
// fails, it gives everything back and begins again with the member that was
// refused. So two multi-locks over the same members never wait for each other,
// and no caller holds some members for long because another is missing.
//
// Two clients of one server count as two parties: a New over the same lock on
// both clients waits for itself.
//
// # A majority
//
// Lock of NewRed asks all members at once and returns as soon as a majority has
// granted it. A member has 50 ms to answer, or a tenth of the lease if that is
// less, so slow or dead servers cost nothing as long as there is a majority of
// others. If no majority answers within that bound, the bound doubles for the
// next round, up to a second. If a majority answers within a quarter of it, it
// is halved. A TryLock whose servers are further away than 50 ms may therefore
// get no answer at first. A grant that comes later joins the Hold.
//
// A majority of grants is valid for
//
//	lease − time since the requests were sent − lease/100 − 2 ms
//
// If nothing of that is left, or there is no majority, everything is given
// back, also at members that have not answered. The next round begins after a
// random delay of at most 200 ms. A member that did not answer in time is asked
// by only one caller each half second, while there is a majority without it.
//
// Each member renews its own lease. Members that are missing from a Hold are
// asked again at every renewal, and then have a second to answer, or a tenth of
// the lease if that is less. Unlock returns nil when so many members are free
// that others can have the lock; the rest is given back in the background.
//
// Exclusion holds as long as each majority of servers keeps its data and a
// clock that runs at a normal rate. It breaks if a server loses its data: a
// server that restarts without it must stay down for longer than the longest
// lease (docs/redlock.md says why, and how). As with any lease, a process that
// is paused beyond its lease, and writes before it checks its Context, writes
// without the lock. There are no fencing tokens, because nothing orders the
// grants of independent servers. Use NewRed for availability. Where a stale
// writer does harm, use a fenced lock on one server and let the resource check
// the token.
//
// # A group
//
// NewGroup takes values of one group with one script and one command: all or
// none, and never waiting for one value while holding another. It is Redisson's
// getMultiLock(group, values); Java must encode the values as they are
// (StringCodec). Leases expire by the server's clock. Java uses its own clock,
// so the clocks of Java machines must not be wrong by more than a small part of
// a lease.
//
// Two sets of one holder from [latchkey.WithHolder] may share values. If the
// lease of one set is lost, the shared values stay closed until the lease of
// the other ends.
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
//	latchkey_group:{group}:<holder>:<set>      how often the holder has this set; latchkey's own
//	latchkey_label:{group}:<holder>            label (option Label); latchkey's own
//	latchkey_waits:{group}:<holder>            what the holder waits for (WithWaitGraph); latchkey's own
//
// where <h> is the base64 of the 128-bit HighwayHash of the value, with
// Redisson's key. All keys expire with the leases, the hash one second later.
package multilock
