package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/lifecycle"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/pubsub"
)

// Config is the result of the root's options.
type Config struct {
	ID              string
	FixedID         bool // the user set ID, so it may have been used before
	WatchdogTimeout time.Duration
	UnlockTimeout   time.Duration
	AnswerTimeout   time.Duration // how long a call asks a server that does not answer
	KeyPrefix       string
	PubSub          pubsub.Mode
	Recheck         time.Duration
	HandOver        time.Duration // the slice in which a lock is handed over; 0 for never
	Open            bool          // a release leaves the lock free for whoever asks first
	Acks            run.Acks      // what a grant has to wait for
	Logger          *slog.Logger
	Hooks           Hooks
	Clock           watchdog.Clock // nil for this machine's
	History         int            // about how many events are kept in Redis; 0 for none
	Event           func(ev Event) // receives the events of the history; nil without one

	// Taken returns the reason of a refusal, an ErrNotAcquired that says who has the
	// object. left is what remains of the present lease, or 0 if unknown.
	Taken        func(ctx context.Context, kind, name string, left time.Duration, details bool) error
	TakenDetails bool // details are wanted
	// SlowWait is how long a call waits before Slow hears of it; 0 for never. Then it
	// hears at twice that, and so on. ctx ends when the client is closed for good.
	SlowWait time.Duration
	Slow     func(ctx context.Context, w SlowWait)
	Leaks    Leaks
	// WaitGraph publishes what callers wait for that hold something.
	WaitGraph bool
	// Wrap returns the root's *Error.
	Wrap func(op, kind, name string, maybe bool, err error) error
}

// An Engine is the state of one client.
type Engine struct {
	*run.Runner

	rdb     redis.UniversalClient
	cfg     Config
	cluster bool
	offset  uint64 // added to holder numbers; not 0 if the ID may have been used before

	now      watchdog.Clock
	notifier *pubsub.Notifier
	watchdog *watchdog.Watchdog
	lines    *wait.Lines
	holdings holdings
	leases   leases
	shares   shares
	waitlist waitlist
	tickets  tickets
	waitings waitings
	gate     *lifecycle.Gate
	cleanup  *lifecycle.Cleanup

	nonces atomic.Uint64 // number of nonces made; see ownEntry

	reticence Reticence
	proof     string // see Proof
	secret    string // key of the nonces; see ownEntry
	inbox     string // suffix of the Redis channels of which only this client knows; see waitlist.go

	failing atomic.Pointer[time.Time] // since when no acquire was answered; nil while they are

	counters struct {
		renewals, losses, rechecked, undone atomic.Uint64
	}
}

// New returns an Engine over rdb. It does no I/O and starts no goroutine.
func New(rdb redis.UniversalClient, cfg Config) *Engine {
	if cfg.Acks.On() {
		cfg.HandOver = 0 // each grant must come from Redis
	}
	if cfg.Acks.Releases {
		cfg.UnlockTimeout += cfg.Acks.Timeout
	}
	e := &Engine{rdb: rdb, cfg: cfg, now: cfg.Clock, lines: wait.NewLines(), proof: rand.Text(), secret: rand.Text(), inbox: rand.Text()}
	if e.now == nil {
		e.now = watchdog.SystemClock()
	}
	_, e.cluster = rdb.(*redis.ClusterClient)
	if cfg.FixedID {
		// Another process, or this one before a restart, may have used the same
		// id. Its holders must not be taken for ours.
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		e.offset = binary.LittleEndian.Uint64(b[:]) >> 16
	}
	if cfg.WaitGraph { // first: others ask Redis, and its keys expire
		e.waitings.lookers = append(e.waitings.lookers, e.lookForHeldUp())
	}
	if cfg.SlowWait > 0 {
		e.waitings.lookers = append(e.waitings.lookers, e.lookForSlowWaits())
	}
	e.holdings.init()
	e.leases.init()
	e.gate = lifecycle.NewGate()
	e.cleanup = lifecycle.NewCleanup(e.gate)
	e.Runner = run.New(rdb, run.Config{Acks: cfg.Acks, Closed: e.gate.Closed(), Suspect: func() { e.watchdog.Recheck() }})
	e.cfg.Acks = e.Runner.Acks()
	e.watchdog = watchdog.New(e.now, e.renew, e.lanes())
	e.notifier = pubsub.New(rdb, pubsub.Config{
		Mode:          cfg.PubSub,
		OnDenied:      e.channelDenied,
		OnResubscribe: e.resubscribed,
	})
	return e
}

// ID returns the id that prefixes every holder.
func (e *Engine) ID() string { return e.cfg.ID }

// Redis returns the caller's go-redis client.
func (e *Engine) Redis() redis.UniversalClient { return e.rdb }

// InCluster reports whether the client is one of a Redis Cluster.
func (e *Engine) InCluster() bool { return e.cluster }

// Recheck returns how often a waiter without wake-ups asks.
func (e *Engine) Recheck() time.Duration { return e.cfg.Recheck }

// Logger returns the logger of the client.
func (e *Engine) Logger() *slog.Logger { return e.cfg.Logger }

// WakeUps returns how waiters receive wake-ups, or Auto if that is still
// unknown when ctx ends.
func (e *Engine) WakeUps(ctx context.Context) pubsub.Mode { return e.notifier.ModeKnown(ctx) }

// HolderID returns a holder as Redis shows it: "<client id>:<number>".
func (e *Engine) HolderID(n uint64) string {
	b := make([]byte, 0, 64)
	b = append(append(b, e.cfg.ID...), ':')
	return string(strconv.AppendUint(b, n+e.offset, 10))
}

// Verb returns how scripts publish: PUBLISH, SPUBLISH or BOTH.
func (e *Engine) Verb() any {
	switch e.notifier.Mode() {
	case pubsub.Plain:
		return "PUBLISH"
	case pubsub.Sharded:
		return "SPUBLISH"
	case pubsub.Off:
		// Others may listen either way. Only in a cluster are there two ways.
		if !e.cluster {
			return "PUBLISH"
		}
	}
	return "BOTH" // also while the mode is unknown
}

// Closed returns a channel that is closed when the engine is.
func (e *Engine) Closed() <-chan struct{} { return e.gate.Closed() }

// Wrap returns err as the root's *Error, or nil for nil.
func (e *Engine) Wrap(op string, s *Spec, err error) error {
	if err == nil {
		return nil
	}
	d, maybe := err.(inDoubt) //nolint:errorlint // it is only ever the outermost
	if maybe {
		err = d.error
	}
	return e.cfg.Wrap(op, s.Kind, s.Name, maybe, conflict(err))
}

// answers notes that Redis has answered an acquire.
func (e *Engine) answers() {
	if e.failing.Load() != nil {
		e.failing.Store(nil)
	}
}

// fails notes that Redis has not answered, and returns since when.
func (e *Engine) fails(now time.Time) time.Time {
	if e.failing.CompareAndSwap(nil, &now) {
		return now
	}
	if since := e.failing.Load(); since != nil {
		return *since
	}
	return now
}

func (e *Engine) channelDenied(channel string, err error) {
	e.cfg.Logger.Warn("latchkey: no wake-ups on a Redis channel, waiting by polling", "channel", channel, "err", err)
	if h := e.cfg.Hooks.ChannelDenied; h != nil {
		h(channel, err)
	}
}

// Stats are the numbers of an engine.
type Stats struct {
	Held, Waiting, Subscriptions              int
	Renewals, Losses, Resubscribes, Rechecked uint64
	Undone                                    uint64
}

// Stats returns the present numbers.
func (e *Engine) Stats() Stats {
	n := e.notifier.Stats()
	return Stats{
		Held:          e.holdings.held() + e.leases.held(),
		Waiting:       e.lines.Waiting(),
		Subscriptions: n.Channels,
		Renewals:      e.counters.renewals.Load(),
		Losses:        e.counters.losses.Load(),
		Resubscribes:  n.Resubscribes,
		Rechecked:     e.counters.rechecked.Load(),
		Undone:        e.counters.undone.Load(),
	}
}

// Close ends every wait with ErrClosed and every Hold's Context with that
// cause, gives back what is held, and waits for the goroutines.
func (e *Engine) Close() error {
	if !e.gate.Shut() {
		return nil
	}
	e.lines.End()
	e.watchdog.Close()
	// No caller's context bounds this, but the end of the client does.
	until := time.Now().Add(e.cfg.UnlockTimeout)
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	err := errors.Join(e.releaseAll(ctx), e.leases.releaseAll(ctx))
	e.cleanup.Hurry()
	e.gate.Drain(until)
	for _, about := range e.cleanup.Undone() {
		err = errors.Join(err, e.Wrap("close", about.(*Spec), errNotUndone))
	}
	return errors.Join(err, e.notifier.Close())
}
