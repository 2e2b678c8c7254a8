package latchkey

import (
	"log/slog"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/pubsub"
)

// An Option changes a Client. Options that make no sense panic in New.
type Option interface{ apply(*engine.Config) }

type optionFunc func(*engine.Config)

func (f optionFunc) apply(c *engine.Config) { f(c) }

// WithID sets the id that prefixes every holder in Redis. Two clients that live
// at the same time must not share one. Default: a random UUID.
func WithID(id string) Option {
	if id == "" {
		badOption("WithID: the id is empty")
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
	positive("WithUnlockTimeout", d, time.Millisecond)
	return optionFunc(func(c *engine.Config) { c.UnlockTimeout = d })
}

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
	positive("WithHandOver", slice, 0)
	return optionFunc(func(c *engine.Config) { c.HandOver = slice })
}

// WithReplicaAck makes every acquire wait until at least min replicas of its
// server have confirmed the grant (Redis's WAIT), for at most timeout. If fewer
// do, that one acquisition is given back, and the error is ErrNotReplicated.
//
// With min as high as the number of replicas that may be promoted, a failover
// cannot lose a grant that was returned; with less, one may be promoted that has
// not confirmed. Renewals and releases do not wait. An acquire takes one round
// trip to the replicas longer, and locks are not handed over within the process
// (WithHandOver). It holds for locks, semaphores and permits; a count-down latch
// does not wait. min is at least 1 and timeout at least 1 ms, and both the
// watchdog timeout and a Lease should be far longer. Default: off.
func WithReplicaAck(min int, timeout time.Duration) Option {
	if min < 1 {
		badOption("WithReplicaAck: min of %d: the least is 1", min)
	}
	positive("WithReplicaAck", timeout, time.Millisecond)
	return optionFunc(func(c *engine.Config) { c.Acks = engine.Acks{Min: min, Timeout: timeout} })
}

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
