package latchkey

import (
	"log/slog"
	"reflect"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/pubsub"
)

type seam = engine.Seam // see internal/engine/seam.go

// A Client is what the primitives of one process share: the connection for
// wake-ups, the watchdog that renews leases, and the id under which Redis knows
// this process. Make one with New for each Redis, and share it: goroutines may.
//
// It has two long-lived goroutines, however much is held or waited for (and one
// more that only reads, while anything is subscribed). They start with the first
// use, and Close ends them.
type Client struct{ seam }

// New returns a Client on a connection of the caller's, which it never closes.
// It does no I/O. It panics when rdb is nil or an option makes no sense.
//
// Every command goes through rdb, in a cluster through the client of a node where
// commands share a pipeline: hooks, pool limits, a limiter and metrics hold for all.
// Subscriptions are go-redis's and have no hooks. WithObserver tells what happens.
//
// With ContextTimeoutEnabled set in the options of rdb, which is recommended, a command
// is sent on its caller's goroutine. Without it, a command whose context may end
// has a goroutine of its own.
//
// Any redis.UniversalClient will do: single, Sentinel, Cluster. A redis.Ring has
// no meaning here, and every method of a primitive on one returns
// ErrUnsupported. A type of your own around a ClusterClient does not do as well as
// that itself: which servers there are cannot be seen through it, so that its
// waiters and those of others may not hear of each other, and find out by asking
// again (WithRecheck). A client with neither ContextTimeoutEnabled nor a read timeout
// (ReadTimeout -1) keeps a connection for a call whose caller has gone until its
// server says something. Connections of a Dialer that know no deadlines, as through an
// SSH tunnel, need ReadTimeout and WriteTimeout of -2, or go-redis fails each command.
func New(rdb redis.UniversalClient, opts ...Option) *Client {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		badOption("New: the Redis client is nil")
	}
	cfg := engine.Config{
		WatchdogTimeout: 30 * time.Second,
		UnlockTimeout:   3 * time.Second,
		AnswerTimeout:   engine.AnswerTimeout,
		Recheck:         5 * time.Second,
		HandOver:        10 * time.Millisecond,
		PubSub:          pubsub.Auto,
		Logger:          slog.New(slog.DiscardHandler),
		Wrap:            newError,
	}
	for _, o := range opts {
		o.apply(&cfg)
	}
	if cfg.ID == "" {
		cfg.ID = uuid.NewString()
	}
	return &Client{engine.NewSeam(engine.New(rdb, cfg))}
}

// ID returns the id that prefixes every holder of this client in Redis.
func (c *Client) ID() string { return engine.Of(c).ID() }

// Close gives back whatever is held, and ends the client. Every waiting call and
// every later one returns ErrClosed. The Context of each Hold ends with the
// cause ErrClosed before its lock is given back; its Lost stays open, for it was
// not lost.
//
// Close waits for the client's goroutines. When Redis does not answer, it takes
// no longer than the unlock timeout and two seconds; then leases end what could
// not be given back, and the error says so. What an acquire without an answer may
// have taken it takes back for a second, and permits of a semaphore, which no lease
// ends, for as long as it may; the error names the semaphores that may miss some. It
// does not close the connection to Redis. Closing again does nothing.
func (c *Client) Close() error { return engine.Of(c).Close() }

// Stats are numbers about a Client. The counters never fall.
type Stats struct {
	Held          int // holds
	Waiting       int // calls that wait for something
	Subscriptions int // Redis channels subscribed to

	Renewals     uint64 // leases renewed, or tried to
	Losses       uint64 // holds that ended without Unlock
	Resubscribes uint64 // times the connection for wake-ups was replaced
	Rechecked    uint64 // wake-ups that a message missed and a recheck found
	Undone       uint64 // failed acquires that had been granted, and were taken back
}

// Stats returns the present numbers. It asks nobody.
func (c *Client) Stats() Stats { return Stats(engine.Of(c).Stats()) }
