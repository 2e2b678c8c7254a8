package latchkey

import (
	"log/slog"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/pubsub"
)

// An Option configures a Client. An invalid option panics: its own function
// does, or New.
type Option interface{ apply(*engine.Config) }

type optionFunc func(*engine.Config)

func (f optionFunc) apply(c *engine.Config) { f(c) }

// WithID sets the id that prefixes every holder in Redis. Two clients that live
// at the same time must not share an id. An id is 1 to 256 bytes of UTF-8 and
// consists of letters, digits, punctuation and symbols, without spaces and
// control characters: "worker-1", "10.0.0.7:8080" and "eu/web.3" are valid.
// Default: a random UUID.
func WithID(id string) Option {
	if err := names.CheckID(id); err != nil {
		badOption("WithID: %v", err)
	}
	return optionFunc(func(c *engine.Config) { c.ID, c.FixedID = id, true })
}

// WithWatchdogTimeout sets the lease of holds that are acquired without a
// Lease. The watchdog renews the lease every third of d. After a crash of its
// holder a lock stays closed for up to d. At least 100 ms. Default: 30 s, as
// Redisson's lockWatchdogTimeout.
func WithWatchdogTimeout(d time.Duration) Option {
	positive("WithWatchdogTimeout", d, 100*time.Millisecond)
	if err := engine.CheckLease("a lease", d); err != nil {
		badOption("WithWatchdogTimeout: %v", err)
	}
	return optionFunc(func(c *engine.Config) { c.WatchdogTimeout = d.Truncate(time.Millisecond) })
}

// WithUnlockTimeout sets how long Unlock tries while Redis does not answer,
// whatever its context says. At least 1 ms. Default: 3 s.
func WithUnlockTimeout(d time.Duration) Option {
	between("WithUnlockTimeout", d, time.Millisecond)
	return optionFunc(func(c *engine.Config) { c.UnlockTimeout = d })
}

// WithAnswerTimeout sets how long a call tries while the server does not
// answer, cannot be reached, is loading or is failing over. Then the call
// returns the error. A request that may have been applied without a reply is
// still undone in the background. From 1 ms to 30 s. Default: 3 s.
//
// The timeout applies to every method except those that give back, which have
// [WithUnlockTimeout], and calls that are already waiting for a lock, a permit
// or a count, which outlive an outage of 30 s.
//
// A server refuses a connection if nothing listens, if the host does not exist,
// or if the TLS handshake fails. A server that has answered this client before
// may be restarting, so a refusal is retried within the timeout. Before the
// first answer, a refusal is returned at once; of several nodes or sentinels,
// all must refuse. go-redis itself tries 5 times to connect, which takes 0.4 s
// (DialerRetries in its options; with 1 it takes less than 1 ms), and writes a
// line to standard error for each failed connection (redis.SetLogger).
//
// Without ContextTimeoutEnabled in the options of go-redis, a timeout below its
// ReadTimeout costs a goroutine for each command. With the default timeout, a
// call whose first connection goes silent may take 0.3 s longer, during which
// another connection is tried. The time that [WithReplicaAck] allows for
// replicas comes on top.
func WithAnswerTimeout(d time.Duration) Option {
	positive("WithAnswerTimeout", d, time.Millisecond)
	if d > mostAnswerTimeout {
		badOption("WithAnswerTimeout of %v: the most is %v", d, mostAnswerTimeout)
	}
	return optionFunc(func(c *engine.Config) { c.AnswerTimeout = d })
}

const mostAnswerTimeout = 30 * time.Second

// WithKeyPrefix puts p before every name, as Redisson's NameMapper does: the
// key of the object foo is p+"foo", and all its side keys and Redis channels
// are derived from that key. Name methods return the name without the prefix.
// Default: none.
func WithKeyPrefix(p string) Option {
	return optionFunc(func(c *engine.Config) { c.KeyPrefix = p })
}

// A PubSubMode selects how waiters learn of releases.
type PubSubMode int

// The modes of pub/sub.
const (
	// PubSubAuto is PubSubSharded in a Redis Cluster that supports sharded
	// pub/sub, as is Redisson's AUTO, and PubSubPlain everywhere else. The
	// client asks the masters of the cluster when it first needs to know. If
	// only some of them support it, or the user may not run PUBSUB SHARDNUMSUB,
	// PubSubAuto is PubSubBoth.
	PubSubAuto PubSubMode = iota
	// PubSubPlain uses PUBLISH and SUBSCRIBE.
	PubSubPlain
	// PubSubSharded uses SPUBLISH and SSUBSCRIBE, with one connection for each
	// shard in use. It needs Redis 7.
	PubSubSharded
	// PubSubBoth publishes and subscribes both ways, for fleets whose clients
	// do not all use the same mode. It needs Redis 7.
	PubSubBoth
	// Polling subscribes to nothing. Waiters ask again and again, at intervals
	// that grow from 10 ms to 250 ms. Releases are still published, for other
	// clients.
	Polling
)

// WithPubSub sets how waiters learn of releases. Default: PubSubAuto.
func WithPubSub(m PubSubMode) Option {
	var mode pubsub.Mode
	switch m {
	case PubSubAuto:
		mode = pubsub.Auto
	case PubSubPlain:
		mode = pubsub.Plain
	case PubSubSharded:
		mode = pubsub.Sharded
	case PubSubBoth:
		mode = pubsub.Both
	case Polling:
		mode = pubsub.Off
	default:
		badOption("WithPubSub: there is no mode %d", int(m))
	}
	return optionFunc(func(c *engine.Config) { c.PubSub = mode })
}

// WithRecheck sets the longest time that a waiter sleeps before it asks Redis
// again, with or without a wake-up. It bounds the delay that a lost message
// causes. At least 10 ms. Default: 5 s.
func WithRecheck(d time.Duration) Option {
	positive("WithRecheck", d, 10*time.Millisecond)
	return optionFunc(func(c *engine.Config) { c.Recheck = d })
}

// WithHandOver sets the slice: how long a lock may pass between waiters of this
// client before the waiters of other clients have their turn. A lock that is
// unlocked while other callers of the process wait goes to the next of them, if
// possible without a request to Redis. Then it has the holder of the caller
// before it, with a Hold of its own. The slice counts from the grant by Redis. At its end the lock is unlocked for everybody, and if other clients
// listen, this client leaves the lock to them for one and a half slices. The
// same holds for permits of a semaphore. Fair locks and spin locks are never
// handed over this way. 0 turns handing over off. Default: 10 ms.
func WithHandOver(slice time.Duration) Option {
	between("WithHandOver", slice, 0)
	return optionFunc(func(c *engine.Config) { c.HandOver = slice })
}

// WithDirectGrants sets whether the Unlock of a lock of package rlock grants
// the lock to a waiting client in the same step, instead of leaving it free for
// whoever asks first. With direct grants, clients are mostly served in the
// order in which they asked, and none is woken in vain.
//
// An Unlock leaves the lock free all the same
//
//   - unless all clients that listen for the lock use latchkey with this option
//     on; a listening Redisson client does not
//   - once in 32 times, as the turn of clients that ask only now and then
//   - for up to 100 ms while a client that has stopped waiting still listens
//   - with [WithReplicaAck], in a cluster, and with any pub/sub mode but plain
//
// Default: on.
func WithDirectGrants(on bool) Option {
	return optionFunc(func(c *engine.Config) { c.Open = !on })
}

// WithReplicaAck makes every acquire wait until at least min replicas of its
// server have confirmed the grant (Redis's WAIT), for at most timeout. If fewer
// confirm, that acquisition is given back and the error is ErrNotReplicated. It
// applies to locks, semaphores and permits. Renewals and releases wait if opts
// say so.
//
// If min is the number of replicas that may be promoted, a failover cannot lose
// a grant that was returned. If min is smaller, a replica that has not
// confirmed may be promoted.
//
// An acquire takes one round trip to the replicas longer, and locks are not
// handed over within the process (WithHandOver). min is at least 1, or 0 with
// AckDisk. timeout is at least 1 ms. The watchdog timeout and every Lease
// should be much longer than timeout. The wait for replicas takes at most three
// quarters of the connection's read timeout. If a custom type wraps the
// go-redis client, every method returns ErrUnsupported. Default: off.
func WithReplicaAck(min int, timeout time.Duration, opts ...AckOption) Option {
	acks := run.Acks{Min: min, Timeout: timeout}
	for _, o := range opts {
		switch o {
		case AckRenewals:
			acks.Renewals = true
		case AckReleases:
			acks.Releases = true
		case AckDisk:
			acks.Disk = true
		default:
			badOption("WithReplicaAck: there is no AckOption %d", int(o))
		}
	}
	if min < 0 || min == 0 && !acks.Disk {
		badOption("WithReplicaAck: min of %d: the least is 1, or 0 with AckDisk", min)
	}
	between("WithReplicaAck", timeout, time.Millisecond)
	return optionFunc(func(c *engine.Config) { c.Acks = acks })
}

// An AckOption makes WithReplicaAck require more.
type AckOption int

// What WithReplicaAck can require beyond the grant.
const (
	// AckRenewals makes renewals and Extend wait for replicas too. A renewal
	// that too few replicas confirm is not a loss; it counts as a failed
	// renewal. The hold is then trusted only for the lease that the replicas
	// know of, and the watchdog tries again every tenth of the lease. The hold
	// is lost only when that trust ends. An Extend that too few replicas
	// confirm returns ErrNotReplicated.
	AckRenewals AckOption = iota + 1
	// AckReleases makes Unlock, Release and CountDown wait for replicas too. If
	// too few confirm, the error is ErrNotReplicated, and the release has still
	// been made: do not repeat it. After a failover the release may be undone.
	// A lock, or a permit with a lease, then stays taken until the lease ends;
	// a permit of a semaphore or a count stays until somebody corrects it. The
	// unlock timeout grows by timeout.
	AckReleases
	// AckDisk uses WAITAOF instead of WAIT: the primary and min replicas must
	// have the change on disk, so that even a power cut cannot lose it. It
	// needs Redis 7.2 or later with appendonly on; elsewhere every acquire
	// fails with ErrNotReplicated and the error of Redis. Use appendfsync
	// always: with everysec some servers confirm too early
	// (docs/guarantees.md).
	AckDisk
)

// WithLogger sets the logger for events that no error can report: a renewal
// that failed and is retried, a Redis channel that is denied. Default: none.
func WithLogger(l *slog.Logger) Option {
	if l == nil {
		badOption("WithLogger: the logger is nil")
	}
	return optionFunc(func(c *engine.Config) { c.Logger = l })
}

// WithObserver sets functions that the client calls when something happens, for
// metrics and traces. Default: none.
func WithObserver(o Observer) Option {
	return optionFunc(func(c *engine.Config) { c.Hooks = o.hooks() })
}

// positive panics if d is less than least.
func positive(option string, d, least time.Duration) {
	if d < least {
		badOption("%s of %v: the least is %v", option, d, least)
	}
}

// between panics if d is less than least or more than engine.MaxLease, so that
// d can be added to other times.
func between(option string, d, least time.Duration) {
	positive(option, d, least)
	if d > engine.MaxLease {
		badOption("%s of %v: the most is %v", option, d, engine.MaxLease)
	}
}
