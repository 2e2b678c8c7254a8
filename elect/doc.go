// Package elect makes one of many candidates the leader, under a context that ends with
// its term.
//
//	e := elect.New(client, "reconciler", elect.Identity(host), elect.Lease(15*time.Second))
//	err := e.Run(ctx, func(ctx context.Context, t elect.Term) error {
//		return reconcile(ctx, t.Number) // until ctx is done
//	})
//
// Run stands for the election and calls the function for each term that it wins. The
// function's context is done when the term ends. Everybody can read who leads (Leader)
// and follow each change (Observe), without standing.
//
// # What is promised
//
// The lead is a fenced lock of package rlock. So the context of a term is done before
// the term of another candidate begins, and the numbers of terms grow, as long as Redis
// keeps its state and its clock (docs/guarantees.md). The clocks of the candidates may
// differ. A process that is paused beyond its lease may be at work when the next leader
// is: let the store that it writes to refuse a number less than the greatest it has seen.
//
// A leader that stops (its function returns, ctx is done, Resign, the client's Close) is
// succeeded within some milliseconds. One that dies is succeeded within the lease and a
// second. One that cannot reach Redis loses its term by the end of its lease. While Redis
// is down nobody leads, and every Run goes on trying.
//
// With Transfer a leader names its successor. The successor first says that it is there;
// then the lock passes to it in one command, and is at no time free. Otherwise the
// candidates of one client lead in the order in which they stood, and those of different
// clients in no order.
//
// Identities are for people and for Transfer: the lock decides who leads. Nothing checks
// that identities differ.
//
// # Keys and round trips
//
// All keys of an election have the hash slot of its name:
//
//	{name}:latchkey_elect   the lock: that of package rlock, with its token
//	{name}:latchkey_leader  a hash: the identity, term, value and process of the leader,
//	                        and an offer of Transfer; it expires a day after it was last
//	                        written, and a leader writes it every minute
//
// and the Redis channel redisson_lock__channel:{name}:latchkey_leader, which says that
// there is something to read. In a shell, latchkey leaders NAME says who leads. The record
// outlives its leader: redis-cli HGETALL '{name}:latchkey_leader' says who was the last.
//
// A leader begins with two commands (acquire, begin) and stops with two (release, tell).
// However many candidates and observers a client has, they share one subscription to that
// channel, and read the record with one command at each change and at the recheck (5 s).
// Those that wait share one more, to the channel of the lock. A Transfer takes seven
// commands, one after the other: offer, read, accept, read, pass, acquire, begin. The last
// three come between the return of one leader's function and the call of the next one's.
//
// # What others have
//
//	Curator LeaderLatch              here
//	  start, await, close            Run: its function is called, and returns
//	  hasLeadership                  the function's context
//	  isLeader, notLeader            the function, and the end of its context
//	  getLeader, getId               Leader, Identity
//	  getParticipants                missing: those who wait stand in a line in memory,
//	                                 and Redis knows one of each client
//	  CloseMode                      the end of the context always says so
//	Curator LeaderSelector
//	  takeLeadership                 the function of Run
//	  autoRequeue                    Run, after a loss, Resign and Transfer
//	  requeue                        Run again, after the function has returned
//	  interruptLeadership            Resign
//	  stateChanged, CancelLeadership the end of the context
//	etcd concurrency.Election
//	  Campaign, Resign               Run, Resign
//	  Leader, Observe                Leader, Observe
//	  Proclaim                       missing: what changes in a term belongs in a key of
//	                                 the user's, written with the number of the term
//	  Key, Rev                       Term.Number
//	  ResumeElection                 missing: a term ends with its process
//	Kubernetes leaderelection
//	  LeaseDuration                  Lease
//	  RenewDeadline, RetryPeriod     follow from Lease
//	  ReleaseOnCancel                always
//	  OnStartedLeading, OnStopped…   the function of Run, and its return
//	  OnNewLeader, GetLeader         Observe, Leader
//	  IsLeader                       the function's context
//	  HealthzAdaptor                 missing: a leader that cannot renew has lost its
//	                                 context by the end of the lease
//	  leader transitions             Term.Number, which grows but does not count
//
// None of them has Transfer.
package elect
