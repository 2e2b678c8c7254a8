// Package run sends scripts to Redis and reports what became of them. A Runner
// knows nothing of locks: its callers know what a script means.
package run

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/lua"
)

// A Config is what a Runner needs to know of its client.
type Config struct {
	Acks   Acks            // what a request with Options.Replicas waits for
	Closed <-chan struct{} // closed when the client is closed; ends every request except clean-up
	// Suspect is called when a reply may come from another server than before,
	// or from the same server without its earlier data.
	Suspect func()
}

// A Runner sends scripts through one go-redis client.
type Runner struct {
	Clock *Clock // the server's clock

	rdb     redis.UniversalClient
	cfg     Config
	cluster bool
	ring    bool
	sender  sender
	batcher batcher // used without a cluster
	nodes   nodes   // used in a cluster

	underway  atomic.Int32 // commands under way
	answered  atomic.Bool  // the server has answered, perhaps with an error
	readsOnly atomic.Bool  // the user may run EVALSHA_RO, but not EVALSHA
	// known are the scripts that Redis has run, by index.
	known [lua.Max]atomic.Bool
}

// New returns a Runner over rdb. It does no I/O and starts no goroutine.
func New(rdb redis.UniversalClient, cfg Config) *Runner {
	rn := &Runner{Clock: newClock(), rdb: rdb, cfg: cfg}
	switch rdb.(type) {
	case *redis.ClusterClient:
		rn.cluster = true
	case *redis.Ring:
		rn.ring = true
	}
	rn.sender.init(rdb)
	rn.cfg.Acks.Timeout = rn.sender.waits(cfg.Acks)
	rn.batcher.runner, rn.batcher.carry, rn.batcher.underway = rn, carrier(rdb), &rn.underway
	return rn
}

// Acks returns what a request with Options.Replicas waits for.
func (rn *Runner) Acks() Acks { return rn.cfg.Acks }

// Deadlines reports whether the deadline of a context bounds reads and writes:
// ContextTimeoutEnabled is set.
func (rn *Runner) Deadlines() bool { return rn.sender.deadlines }

// Unfit returns an error if the Redis client is not supported, and nil
// otherwise.
func (rn *Runner) Unfit() error {
	switch rn.rdb.(type) {
	case *redis.Client, *redis.ClusterClient:
	case *redis.Ring:
		return both{ErrUnsupported, errRing}
	default:
		if rn.cfg.Acks.On() {
			return both{ErrUnsupported, errWrapped}
		}
	}
	return nil
}

var (
	errRing = errors.New("a redis.Ring spreads keys over servers that know nothing of each other; use a ClusterClient")
	// WAIT through another type might go to any server.
	errWrapped = errors.New("WithReplicaAck needs a *redis.Client or *redis.ClusterClient itself, not a type around one")
)

// suspect reports an error that may mean that another server has taken over, or
// that the server has lost its data. All holds are then checked, so that a
// holder learns of it before its next renewal.
func (rn *Runner) suspect(err error) {
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		switch code, _ := codeOf(reply.Error()); code {
		case "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "UNBLOCKED":
		default:
			return
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed):
		return // nobody waited for the reply
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return // the command was not sent
	}
	rn.cfg.Suspect()
}
