// Package stage has many workers compete for something in Redis for a while, and
// counts how that goes. The demo and bench play on it.
package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/object"
)

// Grace is how long a worker may go without a first turn when the scenario's
// time is over, and how long anything may take that should happen soon.
const Grace = 15 * time.Second

// A Stage is where one scenario plays, and what it counts.
type Stage struct {
	Workers, Clients int
	Turn             time.Duration // how long one takes, where that is given
	Violations       atomic.Uint64 // of what must not happen

	name     string
	server   *Server
	duration time.Duration
	began    time.Time
	ended    atomic.Int64 // ns since began; 0 while it plays
	waits    histogram    // one for each acquisition
	waiting  atomic.Int64
	closers  []func() error
}

// New returns a stage whose time begins now. The caller must close it.
func New(name string, server *Server, f *Flags) *Stage {
	return &Stage{
		name: name, server: server, duration: f.Duration, Workers: f.Workers, Clients: f.Clients, began: time.Now(),
	}
}

// Open returns n new clients, which Close closes.
func (st *Stage) Open(n int, opts ...latchkey.Option) ([]*latchkey.Client, error) {
	cs := make([]*latchkey.Client, n)
	for i := range cs {
		c, closer, err := st.server.newClient(opts...)
		if err != nil {
			return nil, err
		}
		cs[i] = c
		st.OnClose(closer)
	}
	return cs, nil
}

// OnClose has Close call f; what was given last is called first.
func (st *Stage) OnClose(f func() error) { st.closers = append(st.closers, f) }

// Close ends the scenario, and closes what was opened for it.
func (st *Stage) Close() error {
	st.ended.Store(int64(time.Since(st.began)))
	var errs []error
	for _, f := range slices.Backward(st.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Key returns the key of a name.
func (st *Stage) Key(name string) string { return st.server.prefix + name }

// Used notes keys that must not be left behind; Server.Clean tells of those that are.
func (st *Stage) Used(keys ...string) { st.server.keys = append(st.server.keys, keys...) }

// Kept notes keys that never expire by themselves, and that Server.Clean deletes.
func (st *Stage) Kept(keys ...string) { st.server.keep = append(st.server.keep, keys...) }

// Over reports whether the time of the scenario is over.
func (st *Stage) Over() bool { return time.Since(st.began) >= st.duration }

// Acquisitions is how many there were.
func (st *Stage) Acquisitions() uint64 { return st.waits.count.Load() }

// elapsed is how long the scenario has played.
func (st *Stage) elapsed() time.Duration {
	if d := st.ended.Load(); d > 0 {
		return time.Duration(d)
	}
	return time.Since(st.began)
}

// Acquired runs an acquire, and counts it and its wait if it succeeds.
func (st *Stage) Acquired(acquire func() error) error {
	st.waiting.Add(1)
	defer st.waiting.Add(-1)
	start := time.Now()
	err := acquire()
	if err == nil {
		st.waits.add(time.Since(start))
	}
	return err
}

// Lock is Acquired for a Locker.
func (st *Stage) Lock(ctx context.Context, l latchkey.Locker, opts ...latchkey.LockOption) (h *latchkey.Hold, err error) {
	err = st.Acquired(func() error {
		h, err = l.Lock(ctx, opts...)
		return err
	})
	return h, err
}

// Violated counts a violation unless ok.
func (st *Stage) Violated(ok bool) {
	if !ok {
		st.Violations.Add(1)
	}
}

// Compete runs turn again and again on every worker, until the time is over.
// Each must get one turn at least. The first error ends it for all.
func (st *Stage) Compete(ctx context.Context, turn func(ctx context.Context, worker int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := st.began.Add(st.duration)
	// All the others may have a turn before one has his first.
	others := time.Duration(min(float64(st.Workers)*float64(st.Turn), float64(object.MaxTime)))
	late := time.AfterFunc(time.Until(over)+others+Grace, func() { cancel(errNoProgress) })
	defer late.Stop()
	var wg sync.WaitGroup
	for w := range st.Workers {
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

var errNoProgress = fmt.Errorf("a worker had no turn for %v after the others had ended", Grace)
