package latchkey

import (
	"log/slog"
	"reflect"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/history"
	"github.com/latchkey-go/latchkey/pubsub"
)

type seam = engine.Seam // see internal/engine/seam.go

// A Client is what the primitives of one process share: the connection for
// wake-ups, the watchdog that renews leases, and the id under which Redis knows
// this process. Make one with New for each Redis and share it. It is safe for
// concurrent use.
//
// A Client has two long-lived goroutines, however many holds and waiters there
// are, and a third that only reads while anything is subscribed. They start on
// first use. WithHistory has one more. Close ends them.
type Client struct {
	seam
	history *history.Writer // nil without WithHistory
}

// New returns a Client that uses the caller's connection and never closes it.
// New does no I/O. It panics if rdb is nil or an option is invalid.
//
// Every command goes through rdb; in a cluster, commands that share a pipeline
// go through the client of their node. So the hooks, pool limits, limiter and
// metrics of go-redis apply to all commands. Subscriptions are those of
// go-redis, which runs no hooks for them. WithObserver reports what the client
// does.
//
// Set ContextTimeoutEnabled in the options of rdb: then a command is sent on
// its caller's goroutine. Without it, a command whose context may end runs on a
// goroutine of its own.
//
// rdb may be any redis.UniversalClient for a single server, Sentinel or
// Cluster, with these limits:
//
//   - With a redis.Ring every method of a primitive returns ErrUnsupported.
//   - A custom type that wraps a ClusterClient hides the servers of the
//     cluster. Waiters of this client and of others may then miss each other's
//     wake-ups, and find a release only by their recheck (WithRecheck).
//   - With neither ContextTimeoutEnabled nor a read timeout (ReadTimeout -1), a
//     call that was abandoned keeps its connection until the server replies.
//   - If the Dialer returns connections without deadlines, as through an SSH
//     tunnel, set ReadTimeout and WriteTimeout to -2. Otherwise go-redis fails
//     each command.
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
	c := new(Client)
	cfg.Taken = c.taken
	cfg.Slow = (&slowReporter{client: c, log: cfg.Logger, observe: cfg.Hooks.SlowWait}).report
	c.history = newHistory(&cfg)
	c.seam = engine.NewSeam(engine.New(rdb, cfg))
	if c.history != nil {
		c.history.Use(engine.Of(c))
	}
	return c
}

// ID returns the id that prefixes every holder of this client in Redis.
func (c *Client) ID() string { return engine.Of(c).ID() }

// Close releases everything that the client holds and ends the client. Waiting
// calls and later calls return ErrClosed. The Context of each Hold ends with
// the cause ErrClosed before its lock is given back. Its Lost channel stays
// open, because the hold was not lost.
//
// Close waits for the client's goroutines. If Redis does not answer, Close
// takes at most the unlock timeout plus two seconds, and its error says what
// could not be given back; those locks end with their leases. Acquires whose
// reply was lost are undone for up to one second. Permits of a semaphore have
// no lease, so they are undone for as long as Close may take, and the error
// names the semaphores that may have lost permits.
//
// Close does not close the connection to Redis. Further calls do nothing.
func (c *Client) Close() error {
	err := engine.Of(c).Close()
	c.history.Close() // after the last event
	return err
}

// Stats are numbers about a Client. The counters never decrease.
type Stats struct {
	Held          int // holds
	Waiting       int // calls that wait
	Subscriptions int // Redis channels subscribed to

	Renewals     uint64 // renewals of leases, successful or not
	Losses       uint64 // holds that ended without Unlock or Close
	Resubscribes uint64 // times the connection for wake-ups was replaced
	Rechecked    uint64 // releases that a recheck found because the wake-up was lost
	Undone       uint64 // acquires that failed, had been granted after all, and were taken back

	HistoryDropped uint64 // events of WithHistory that were dropped
}

// Stats returns the present numbers, without asking Redis.
func (c *Client) Stats() Stats {
	s := engine.Of(c).Stats()
	return Stats{
		Held: s.Held, Waiting: s.Waiting, Subscriptions: s.Subscriptions,
		Renewals: s.Renewals, Losses: s.Losses, Resubscribes: s.Resubscribes, Rechecked: s.Rechecked, Undone: s.Undone,
		HistoryDropped: c.history.Dropped(),
	}
}
