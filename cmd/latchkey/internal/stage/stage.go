// Package stage makes many workers compete for objects in Redis for a while and
// measures that. The commands demo and bench use it.
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
	"github.com/latchkey-go/latchkey/internal/object"
)

// Grace is how long after the end of the scenario's time a worker may go
// without its first turn, and how long anything may take that should happen
// soon.
const Grace = 15 * time.Second

// A Stage runs one scenario and keeps its counts.
type Stage struct {
	Workers, Clients int
	Turn             time.Duration // duration of one turn, if it is fixed
	Violations       atomic.Uint64 // number of events that must not happen

	name     string
	server   *Server
	duration time.Duration
	began    time.Time
	ended    atomic.Int64 // ns since began; 0 while the scenario runs
	waits    histogram    // one entry for each acquisition
	waiting  atomic.Int64
	closers  []func() error
}

// New returns a Stage whose time begins now. The caller must close it.
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

// OnClose makes Close call f. Functions are called in reverse order.
func (st *Stage) OnClose(f func() error) { st.closers = append(st.closers, f) }

// Close ends the scenario and closes everything that was opened for it.
func (st *Stage) Close() error {
	st.ended.Store(int64(time.Since(st.began)))
	var errs []error
	for _, f := range slices.Backward(st.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Key returns the key for a name.
func (st *Stage) Key(name string) string { return st.server.prefix + name }

// Used notes keys that must not be left behind. Server.Clean reports those that
// are.
func (st *Stage) Used(keys ...string) { st.server.keys = append(st.server.keys, keys...) }

// Kept notes keys that never expire. Server.Clean deletes them.
func (st *Stage) Kept(keys ...string) { st.server.keep = append(st.server.keep, keys...) }

// Over reports whether the time of the scenario is over.
func (st *Stage) Over() bool { return time.Since(st.began) >= st.duration }

// Acquisitions returns the number of acquisitions.
func (st *Stage) Acquisitions() uint64 { return st.waits.count.Load() }

// elapsed returns how long the scenario has run.
func (st *Stage) elapsed() time.Duration {
	if d := st.ended.Load(); d > 0 {
		return time.Duration(d)
	}
	return time.Since(st.began)
}

// Acquired calls acquire. If it succeeds, Acquired counts it and its wait.
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

// Compete calls turn again and again for every worker until the time is over.
// Each worker gets at least one turn. The first error ends all workers.
func (st *Stage) Compete(ctx context.Context, turn func(ctx context.Context, worker int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := st.began.Add(st.duration)
	// All other workers may have a turn before the last one has its first.
	others := time.Duration(min(float64(st.Workers)*float64(st.Turn), float64(object.MaxTime)))
	late := time.AfterFunc(time.Until(over)+others+Grace, func() { cancel(errNoProgress) })
	defer late.Stop()
	var wg sync.WaitGroup
	for w := range st.Workers {
		wg.Go(func() {
			for first := true; first || time.Now().Before(over); first = false {
				if err := turn(ctx, w); err != nil {
					cancel(fmt.Errorf("worker %d: %w", w, err)) // only the first cause counts
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

var errNoProgress = fmt.Errorf("a worker had no turn for %v after the others had ended", Grace)
