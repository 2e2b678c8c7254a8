package latchkey

import (
	"log/slog"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/pubsub"
)

// An Option changes a Client. Options that make no sense panic in New.
type Option interface{ apply(*engine.Config) }

type optionFunc func(*engine.Config)

func (f optionFunc) apply(c *engine.Config) { f(c) }

// WithID sets the id that prefixes every holder in Redis. Two clients that live
// at the same time must not share one. It has 1 to 256 bytes of UTF-8, all of them
// letters, digits, punctuation or symbols: no spaces and no control characters.
// "worker-1", "10.0.0.7:8080" and "eu/web.3" will do. Default: a random UUID.
func WithID(id string) Option {
	if err := names.CheckID(id); err != nil {
		badOption("WithID: %v", err)
	}
	return optionFunc(func(c *engine.Config) { c.ID, c.FixedID = id, true })
}

// WithWatchdogTimeout sets the lease of holds that are taken without one. The
// watchdog renews it every third of it, and it is how long a lock stays closed
// after its holder has crashed. At least 100 ms. Default: 30 s, as Redisson's
// lockWatchdogTimeout.
func WithWatchdogTimeout(d time.Duration) Option {
	positive("WithWatchdogTimeout", d, 100*time.Millisecond)
	if err := engine.CheckLease("a lease", d); err != nil {
		badOption("WithWatchdogTimeout: %v", err)
	}
	return optionFunc(func(c *engine.Config) { c.WatchdogTimeout = d.Truncate(time.Millisecond) })
}

// WithUnlockTimeout sets how long Unlock tries when Redis does not answer,
// whatever its context says. Default: 3 s.
func WithUnlockTimeout(d time.Duration) Option {
	between("WithUnlockTimeout", d, time.Millisecond)
	return optionFunc(func(c *engine.Config) { c.UnlockTimeout = d })
}

// WithAnswerTimeout sets for how long a call asks a server that does not answer, cannot
// be reached, is loading or failing over, before it returns the error. What may have
// been applied without an answer is undone in the background all the same. It holds for
// every method but those that give back, which have [WithUnlockTimeout], and those
// who wait already for a lock, a permit or a count, who outlive an outage of 30 s. 1 ms
// to 30 s. Default: 3 s.
//
// A server that refuses (nobody listens, there is no such host, TLS does not come about)
// is asked again as well, once it has answered this client: it may be on its way
// back. Before its first answer a refusal is returned at once. Of several nodes or
// sentinels all must refuse. go-redis itself tries 5 times to connect, which takes 0.4 s
// (DialerRetries in its options; 1 makes it less than 1 ms), and writes a line to standard
// error for each connection that it cannot make (redis.SetLogger).
//
// Without ContextTimeoutEnabled in the options of go-redis, a timeout below its
// ReadTimeout costs a goroutine a command; and a call with the default, whose first
// connection goes silent, may take 0.3 s longer, for which another one is tried. The
// time that [WithReplicaAck] gives to replicas comes on top.
func WithAnswerTimeout(d time.Duration) Option {
	positive("WithAnswerTimeout", d, time.Millisecond)
	if d > mostAnswerTimeout {
		badOption("WithAnswerTimeout of %v: the most is %v", d, mostAnswerTimeout)
	}
	return optionFunc(func(c *engine.Config) { c.AnswerTimeout = d })
}

const mostAnswerTimeout = 30 * time.Second

// WithKeyPrefix puts p before every name, as Redisson's NameMapper does: the key
// of the object foo is p+"foo", and every side key and Redis channel is built
// from that. Name methods return the name as given. Default: none.
func WithKeyPrefix(p string) Option {
	return optionFunc(func(c *engine.Config) { c.KeyPrefix = p })
}

// A PubSubMode is how waiters hear of releases.
type PubSubMode int

// The ways to hear of releases.
const (
	// PubSubAuto is PubSubSharded in a Redis Cluster that has sharded pub/sub, as
	// Redisson's AUTO is, and PubSubPlain everywhere else. The masters of the
	// cluster are asked when it first matters; where some have it and some do not,
	// or the user may not ask (PUBSUB SHARDNUMSUB), it is PubSubBoth.
	PubSubAuto PubSubMode = iota
	// PubSubPlain uses PUBLISH and SUBSCRIBE.
	PubSubPlain
	// PubSubSharded uses SPUBLISH and SSUBSCRIBE, with one connection for each
	// shard in use. It needs Redis 7.
	PubSubSharded
	// PubSubBoth publishes both ways and subscribes both ways, for fleets in
	// which some use the one and some the other. It needs Redis 7.
	PubSubBoth
	// Polling subscribes to nothing: waiters ask again and again, from every
	// 10 ms to every 250 ms. Releases are published all the same, for others.
	Polling
)

// WithPubSub sets how waiters hear of releases. Default: PubSubAuto.
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

// WithRecheck sets the longest sleep of a waiter, whatever it hears: what a lost
// message costs. Default: 5 s.
func WithRecheck(d time.Duration) Option {
	positive("WithRecheck", d, 10*time.Millisecond)
	return optionFunc(func(c *engine.Config) { c.Recheck = d })
}

// WithHandOver sets how long a lock may pass between waiters of this client
// before those of others have their turn. A lock that is unlocked while others
// of its process wait goes to the next of them, without a word to Redis where
// that can be; at the end of the slice, counted from the grant by Redis, it is
// unlocked for everybody, and if others listen, this client leaves it to them for
// one slice and a half. So do permits of a semaphore. Fair and spinning locks
// are never passed on like that. 0 turns it off. Default: 10 ms.
func WithHandOver(slice time.Duration) Option {
	between("WithHandOver", slice, 0)
	return optionFunc(func(c *engine.Config) { c.HandOver = slice })
}

// WithDirectGrants sets whether a lock of package rlock that is unlocked goes to a
// waiting client at once, in one step, rather than being free for whoever asks
// first. Clients are mostly served in the order in which they asked, and none is
// woken for nothing. It is done only while all who listen for the lock wait with
// latchkey and with this on: where Redisson waits too, each Unlock is open to all.
// So is one in 32 in any case, which is the turn of those who only ask now and then,
// and one that comes while a client that has stopped waiting still listens, for up
// to 100 ms. It is not done with [WithReplicaAck], in a cluster, or with any pub/sub
// but plain. Default: on.
func WithDirectGrants(on bool) Option {
	return optionFunc(func(c *engine.Config) { c.Open = !on })
}

// WithReplicaAck makes every acquire wait until at least min replicas of its
// server have confirmed the grant (Redis's WAIT), for at most timeout. If fewer
// do, that one acquisition is given back, and the error is ErrNotReplicated.
//
// With min as high as the number of replicas that may be promoted, a failover
// cannot lose a grant that was returned; with less, one may be promoted that has
// not confirmed. Renewals and releases wait where opts say so. An acquire takes
// one round trip to the replicas longer, and locks are not handed over within the
// process (WithHandOver). It holds for locks, semaphores and permits. min is at
// least 1, or 0 with AckDisk, and timeout at least 1 ms, and both the watchdog
// timeout and a Lease should be far longer. The wait for replicas ends within three
// quarters of the connection's read timeout. Through a type of your own around a
// go-redis client every method returns ErrUnsupported. Default: off.
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

// An AckOption makes WithReplicaAck ask for more.
type AckOption int

// What WithReplicaAck can ask for beyond the grant.
const (
	// AckRenewals makes renewals and Extend wait too. One that too few replicas
	// have confirmed is no loss by itself: it counts as one that has failed, so
	// the hold is believed in for no longer than they know of, the watchdog tries
	// again every tenth of the lease, and only the end of that time is a loss. An
	// Extend that too few confirm is an ErrNotReplicated.
	AckRenewals AckOption = iota + 1
	// AckReleases makes whatever gives back wait too: Unlock, Release, CountDown.
	// If too few confirm, the error is ErrNotReplicated, and it has been given back
	// all the same: do not do so again. After a failover it may be taken once more,
	// a lock or a permit with a lease until that ends, a permit of a semaphore or a
	// count until somebody puts that right. The unlock timeout is longer by
	// timeout.
	AckReleases
	// AckDisk asks for WAITAOF instead of WAIT: the primary and min replicas must
	// have it on disk, so that not even a power cut can lose it. It needs Redis
	// 7.2 or later with appendonly on; elsewhere every acquire fails with
	// ErrNotReplicated and Redis's own error. Use appendfsync always: with
	// everysec some servers say too early that it is done (docs/guarantees.md).
	AckDisk
)

// WithLogger sets where the client logs what no error can carry: a renewal that
// failed and is tried again, a Redis channel that is denied. Default: nowhere.
func WithLogger(l *slog.Logger) Option {
	if l == nil {
		badOption("WithLogger: the logger is nil")
	}
	return optionFunc(func(c *engine.Config) { c.Logger = l })
}

// WithObserver sets functions that hear what happens, for metrics and traces.
// Default: none.
func WithObserver(o Observer) Option {
	return optionFunc(func(c *engine.Config) { c.Hooks = o.hooks() })
}

// positive panics when d is less than least.
func positive(option string, d, least time.Duration) {
	if d < least {
		badOption("%s of %v: the least is %v", option, d, least)
	}
}

// between is positive for what is added to other times: there is a most, too.
func between(option string, d, least time.Duration) {
	positive(option, d, least)
	if d > engine.MaxLease {
		badOption("%s of %v: the most is %v", option, d, engine.MaxLease)
	}
}
