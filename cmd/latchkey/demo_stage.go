package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
)

// A demoScenario shows one thing. Its run function starts the workers, has a
// section of its own to see them overlap, and returns when they have ended.
type demoScenario struct {
	name string
	run  func(ctx context.Context, st *stage) error
}

// demoScenarios are played in this order; each primitive brings its own.
var demoScenarios = slices.Concat(rlockScenarios, fairlockScenarios, rwlockScenarios, semaphoreScenarios,
	permitsemaphoreScenarios, countdownlatchScenarios, multilockScenarios)

// grace is how long a worker may go without a first turn when the scenario's
// time is over, and how long anything may take that should happen soon.
const grace = 15 * time.Second

// A stage is where one scenario plays, and what it counts.
type stage struct {
	name     string
	server   *demoServer
	duration time.Duration
	workers  int
	clients  int
	turn     time.Duration // how long one takes, where that is given

	began      time.Time
	ended      atomic.Int64 // ns since began; 0 while it plays
	waits      histogram    // one for each acquisition
	waiting    atomic.Int64
	violations atomic.Uint64
	closers    []func() error
}

func newStage(name string, server *demoServer, f *demoFlags) *stage {
	return &stage{
		name: name, server: server, duration: f.duration, workers: f.workers, clients: f.clients, began: time.Now(),
	}
}

// open returns n new clients, which close closes.
func (st *stage) open(n int, opts ...latchkey.Option) ([]*latchkey.Client, error) {
	cs := make([]*latchkey.Client, n)
	for i := range cs {
		c, closer, err := st.server.newClient(opts...)
		if err != nil {
			return nil, err
		}
		cs[i] = c
		st.closers = append(st.closers, closer)
	}
	return cs, nil
}

func (st *stage) close() error {
	st.ended.Store(int64(time.Since(st.began)))
	var errs []error
	for _, f := range st.closers {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// elapsed is how long the scenario has played.
func (st *stage) elapsed() time.Duration {
	if d := st.ended.Load(); d > 0 {
		return time.Duration(d)
	}
	return time.Since(st.began)
}

// acquired runs an acquire, and counts it and its wait if it succeeds.
func (st *stage) acquired(acquire func() error) error {
	st.waiting.Add(1)
	defer st.waiting.Add(-1)
	start := time.Now()
	err := acquire()
	if err == nil {
		st.waits.add(time.Since(start))
	}
	return err
}

// lock is acquired for a Locker.
func (st *stage) lock(ctx context.Context, l latchkey.Locker, opts ...latchkey.LockOption) (h *latchkey.Hold, err error) {
	err = st.acquired(func() error {
		h, err = l.Lock(ctx, opts...)
		return err
	})
	return h, err
}

// violated counts a violation unless ok.
func (st *stage) violated(ok bool) {
	if !ok {
		st.violations.Add(1)
	}
}

// compete runs turn again and again on every worker, until the time is over.
// Each must get one turn at least. The first error ends it for all.
func (st *stage) compete(ctx context.Context, turn func(ctx context.Context, worker int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := st.began.Add(st.duration)
	// All the others may have a turn before one has his first.
	others := time.Duration(min(float64(st.workers)*float64(st.turn), float64(maxTime)))
	late := time.AfterFunc(time.Until(over)+others+grace, func() { cancel(errNoProgress) })
	defer late.Stop()
	var wg sync.WaitGroup
	for w := range st.workers {
		wg.Go(func() {
			for first := true; first || time.Now().Before(over); first = false {
				if err := turn(ctx, w); err != nil {
					cancel(fmt.Errorf("worker %d: %w", w, err)) // the first cause counts
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

var errNoProgress = fmt.Errorf("a worker had no turn for %v after the others had ended", grace)

// A section is what one at a time may be in. Who comes while somebody is inside
// is seen by the marker that one has left; and a count that each reads at the
// beginning and writes at the end shows whose turn another has undone.
type section struct {
	st     *stage
	inside atomic.Pointer[visit]
	count  atomic.Int64 // only ever loaded and stored
	turns  atomic.Int64
}

// A visit is one stay in a section.
type visit struct{ count int64 }

// enter marks the section, and returns what leave needs.
func (s *section) enter() *visit {
	v := &visit{count: s.count.Load()}
	s.st.violated(s.inside.CompareAndSwap(nil, v))
	return v
}

// leave takes the marker away.
func (s *section) leave(v *visit) {
	s.count.Store(v.count + 1)
	s.turns.Add(1)
	// Who came in during another's stay has no marker to take away.
	s.inside.CompareAndSwap(v, nil)
}

// work is what goes on in a section.
func (s *section) work() { work(s.turns.Load()) }

// work takes its time now and then, long enough for an intruder to be met.
func work(turn int64) {
	if turn%16 == 0 {
		time.Sleep(time.Millisecond)
	}
	runtime.Gosched()
}

// settle counts the turns whose count was overwritten. Nobody is inside any more.
func (s *section) settle() {
	s.st.violated(s.inside.Load() == nil)
	if lost := s.turns.Load() - s.count.Load(); lost > 0 {
		s.st.violations.Add(uint64(lost))
	}
}

// A demoResult is how a scenario went.
type demoResult struct {
	name               string
	workers            int
	acquisitions       uint64
	elapsed            time.Duration
	p50, p90, p99, max time.Duration
	violations         uint64
	err                error
}

// MarshalJSON writes the result for programs.
func (r *demoResult) MarshalJSON() ([]byte, error) {
	text := ""
	if r.err != nil {
		text = r.err.Error()
	}
	return json.Marshal(struct {
		Scenario     string  `json:"scenario"`
		Workers      int     `json:"workers"`
		Acquisitions uint64  `json:"acquisitions"`
		Seconds      float64 `json:"seconds"`
		WaitP50Ms    float64 `json:"wait_p50_ms"`
		WaitP99Ms    float64 `json:"wait_p99_ms"`
		WaitMaxMs    float64 `json:"wait_max_ms"`
		Violations   uint64  `json:"violations"`
		Error        string  `json:"error,omitempty"`
	}{r.name, r.workers, r.acquisitions, r.elapsed.Seconds(), inMs(r.p50), inMs(r.p99), inMs(r.max), r.violations, text})
}

// inMs is a duration for programs.
func inMs(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (st *stage) result() *demoResult {
	return &demoResult{
		name: st.name, workers: st.workers, elapsed: st.elapsed(),
		acquisitions: st.waits.count.Load(), violations: st.violations.Load(),
		p50: st.waits.quantile(0.5), p90: st.waits.quantile(0.9), p99: st.waits.quantile(0.99), max: st.waits.max(),
	}
}
