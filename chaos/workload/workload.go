// Package workload calls every primitive of latchkey at random, from this process and
// from children, and records what it is answered.
package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/chaos/stage"
)

// Kinds are the kinds of object that there is a workload for.
var Kinds = []string{
	"rlock", "nonreentrant", "fenced", "spin", "fairlock", "rwlock", "multilock", "group",
	"semaphore", "permitsemaphore", "countdownlatch", "once", "elect",
}

// How the objects of a campaign are set up.
const (
	Capacity = 6               // permits
	Lease    = 2 * time.Second // of the watchdog, and the longest fixed one
	Recheck  = time.Second
)

// A Config says what a party does. It can be handed to another process.
type Config struct {
	Spec    stage.Spec
	ID      string // part of the names of owners, its own
	Client  string // fixed id of its client, empty for a random one
	Round   string // part of the names of objects, the same for all parties
	Seed    uint64
	Kinds   []string
	Names   int  // of each kind
	Workers int  // for each kind
	First   int  // number of the first worker
	Clocks  bool // the wall clock may be moved, and is watched
}

// Name returns the name of the i-th object of a kind.
func (c Config) Name(kind string, i int) string { return fmt.Sprintf("%s:%s:%d", c.Round, kind, i) }

// A Party is one client and its workers.
type Party struct {
	cfg    Config
	rec    *history.Recorder
	offer  func(Write)
	client *latchkey.Client
	owners atomic.Int64

	// mu guards the fields below.
	mu sync.Mutex
	// slowest is the call that went on longest after its context had ended.
	slowest Slow
	// kept has the holds that nobody will give back: their ids in rec.
	kept []int64
}

// A Write is what the holder of a fenced lock sends to the store.
type Write struct {
	Key   string
	Token int64
}

// Slow is a call that went on after its context had ended.
type Slow struct {
	Kind  string
	Late  time.Duration
	Error string // what it returned
}

// Worse returns the slower of two.
func (s Slow) Worse(o Slow) Slow {
	if o.Late > s.Late {
		return o
	}
	return s
}

// Run lets a party work until ctx is done, give back what it holds, and go. offer is
// called with each write to the fenced store.
func Run(ctx context.Context, cfg Config, rec *history.Recorder, offer func(Write)) (slowest Slow, err error) {
	rdb := cfg.Spec.Connect()
	p := &Party{cfg: cfg, rec: rec, offer: offer}
	opts := append(Options(), latchkey.WithObserver(latchkey.Observer{WaitStarted: waitStarted}))
	if cfg.Client != "" {
		opts = append(opts, latchkey.WithID(cfg.Client))
	}
	p.client = latchkey.New(rdb, opts...)
	var wg sync.WaitGroup
	n := cfg.First
	for i, kind := range cfg.Kinds {
		for j := range cfg.Workers {
			w := &worker{Party: p, kind: kind, number: n, r: rand.New(rand.NewPCG(cfg.Seed, uint64(i*1000+j)))}
			n++
			wg.Go(func() { w.work(ctx) })
		}
	}
	wg.Wait()
	now := history.Now()
	for _, id := range p.kept {
		rec.Change(id, func(e *history.Entry) { e.Until = min(e.Until, now) })
	}
	err = p.client.Close()
	return p.slowest, errors.Join(err, rdb.Close())
}

// Options are those of every client in a campaign.
func Options() []latchkey.Option {
	return []latchkey.Option{
		latchkey.WithWatchdogTimeout(Lease), latchkey.WithRecheck(Recheck), latchkey.WithUnlockTimeout(time.Second),
	}
}

// A worker makes one call at a time, to objects of one kind.
type worker struct {
	*Party
	kind   string
	number int
	r      *rand.Rand
}

func (w *worker) work(ctx context.Context) {
	step := w.steps()
	for ctx.Err() == nil {
		if err := step(ctx, w.r.IntN(w.cfg.Names)); err != nil && !errors.Is(err, latchkey.ErrNotAcquired) {
			w.rest(ctx, time.Duration(1+w.r.IntN(10))*time.Millisecond)
		}
	}
}

func (w *worker) steps() func(ctx context.Context, i int) error {
	switch w.kind {
	case "rwlock":
		return w.rwlock
	case "semaphore":
		return w.semaphore
	case "permitsemaphore":
		return w.permits
	case "countdownlatch":
		return w.latch
	case "multilock":
		return w.multi
	case "group":
		return w.group
	case "once":
		return w.once
	case "elect":
		return w.elect
	}
	return w.lock
}

// begin records a call that is about to be made.
func (w *worker) begin(e history.Entry) int64 {
	e.Kind, e.Worker, e.Party = w.kind, w.number, w.cfg.First
	return w.rec.Begin(e)
}

// end records the answer to calls that were made together.
func (w *worker) end(ids []int64, err error, f func(*history.Entry)) {
	now := history.Now()
	for _, id := range ids {
		w.rec.Change(id, func(e *history.Entry) {
			e.Return, e.Out = now, outcome(e.Op, err)
			if err != nil {
				e.Err = fmt.Sprintf("%.120s", err.Error())
			} else if f != nil {
				f(e)
			}
		})
	}
}

// outcome sorts the errors of calls.
func outcome(op history.Op, err error) history.Outcome {
	var lk *latchkey.Error
	switch {
	case err == nil:
		return history.OK
	case errors.As(err, &lk) && lk.MaybeApplied():
		return history.Unknown
	case !strings.HasSuffix(err.Error(), latchkey.ErrNotAcquired.Error()): // refused for a reason of its own
	case errors.Is(err, latchkey.ErrNotAcquired) && (op == history.Acquire || op == history.RAcquire):
		return history.Refused
	}
	return history.None
}

// owner returns a name for whoever acquires next.
func (w *worker) owner() string { return fmt.Sprintf("%s.%d", w.cfg.ID, w.owners.Add(1)) }

// chance is true in so many of a hundred cases.
func (w *worker) chance(percent int) bool { return w.r.IntN(100) < percent }

// within returns a context that ends soon, now and then very soon, and is cancelled
// rather than timed out in some cases.
func (w *worker) within(ctx context.Context) (context.Context, context.CancelFunc) {
	d := time.Duration(1+w.r.IntN(1200)) * time.Millisecond
	if w.chance(10) {
		d = time.Duration(w.r.IntN(3000)) * time.Microsecond
	}
	if w.chance(50) {
		return context.WithTimeout(ctx, d)
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// prompt runs a call and notes for how long it goes on after its context has ended.
func (w *worker) prompt(ctx context.Context, call func() error) error {
	ended := make(chan time.Time, 1)
	stop := context.AfterFunc(ctx, func() { ended <- time.Now() })
	err := call()
	if !stop() {
		late := Slow{w.kind, time.Since(<-ended), fmt.Sprint(err)}
		w.mu.Lock()
		w.slowest = w.slowest.Worse(late)
		w.mu.Unlock()
	}
	return err
}

// rest waits for d, or until ctx is done.
func (w *worker) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stay is for how long something is held: mostly not at all, rarely for longer than a
// lease.
func (w *worker) stay() time.Duration {
	switch n := w.r.IntN(1000); {
	case n < 700:
		return 0
	case n < 950:
		return time.Duration(w.r.IntN(2000)) * time.Microsecond
	case n < 985:
		return time.Duration(w.r.IntN(25)) * time.Millisecond
	}
	return time.Duration(w.r.Int64N(int64(Lease * 3 / 2)))
}

// queued is where a call's context says since when it stands in line.
type queued struct{}

func waitStarted(ctx context.Context, _, _ string) {
	if at, ok := ctx.Value(queued{}).(*atomic.Int64); ok {
		at.CompareAndSwap(0, history.Now())
	}
}
