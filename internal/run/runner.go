// Package run sends scripts to Redis, and says what has become of them. A Runner knows
// nothing of locks: what a script means is for those who run it.
package run

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/lua"
)

// A Config is what a Runner must know of its client.
type Config struct {
	Acks   Acks            // what a request with Options.Replicas waits for
	Closed <-chan struct{} // closed when the client is: it ends what is no clean-up
	// Suspect is called when another server may have answered than before, or the same
	// one without what it knew.
	Suspect func()
}

// A Runner sends scripts through one go-redis client.
type Runner struct {
	Clock *Clock // the server's

	rdb     redis.UniversalClient
	cfg     Config
	cluster bool
	ring    bool
	sender  sender
	batcher batcher // but in a cluster
	nodes   nodes   // in a cluster

	underway  atomic.Int32 // commands
	answered  atomic.Bool  // the server has answered, be it with an error
	onlyLooks atomic.Bool  // the user may not run EVALSHA, but EVALSHA_RO
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

// Deadlines reports whether a context's deadline bounds reads and writes: with
// ContextTimeoutEnabled.
func (rn *Runner) Deadlines() bool { return rn.sender.deadlines }

// Unfit says why the client of Redis does not do, or nil.
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
	// Through another type nobody knows which server a WAIT would go to.
	errWrapped = errors.New("WithReplicaAck needs a *redis.Client or *redis.ClusterClient itself, not a type around one")
)

// suspect has every hold looked at when err may mean that another server is
// there now, or the same one without what it knew: a holder is not to wait for
// its next renewal to learn that.
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
		return // it was not waited for
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return // it was not sent
	}
	rn.cfg.Suspect()
}
