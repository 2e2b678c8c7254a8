// Package plain is a load that has no faults: a few clients of one process, all kinds
// of object, forty goroutines on a few names, every option. Where nobody holds or waits
// nothing may stand in Redis, and a free name is given to whoever asks.
package plain

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/semaphore"
)

// What a run is allowed.
const (
	settle     = 100 * time.Millisecond // for what stands when nobody holds or waits
	slack      = 300 * time.Millisecond // beyond the recheck, for one who waits for a free name
	drain      = 3 * time.Second        // beyond the recheck, for those who wait when a burst ends
	preference = 100 * time.Millisecond // of waiting writers
	capacity   = 3                      // permits
	workers    = 40
)

// A Config says what a load does.
type Config struct {
	Seed    uint64
	Length  time.Duration // of a run
	Kinds   []string      // all if empty
	Monitor bool          // show the commands of a name that fails
	Log     func(format string, args ...any)
}

// A Load is the runs of one server.
type Load struct {
	t      testing.TB
	server *redistest.Server
	Holds  atomic.Int64
	Redis  string // the version
}

// Start starts the server at path; empty is the default one.
func Start(t testing.TB, path string) *Load {
	s := &Load{t: t}
	if path == "" {
		s.server = redistest.Start(t)
	} else {
		s.server = redistest.StartProgram(t, path)
	}
	for _, line := range s.server.Do(t, "INFO", "server") {
		for text := range strings.Lines(line) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(text), "redis_version:"); ok {
				s.Redis = v
			}
		}
	}
	return s
}

// A run is one seed.
type run struct {
	*Load
	cfg     Config
	rdb     *redis.Client // of the run's own
	clients []*latchkey.Client
	recheck time.Duration
	names   []*name
	start   time.Time
	clock   atomic.Int64 // ns that the machine let pass, see tick
	monitor *redistest.Monitor

	cancel   context.CancelFunc // the first failure ends the run
	mu       sync.Mutex
	failures []string
}

// Run makes one run and returns what was not as promised.
func (s *Load) Run(ctx context.Context, cfg Config) []string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Load: s, cfg: cfg, rdb: s.server.Client(s.t), start: time.Now(), cancel: cancel}
	defer r.rdb.Close()
	s.server.FlushAll(s.t)
	dice := rand.New(rand.NewPCG(cfg.Seed, 0))
	var conns []*redis.Client
	r.recheck = []time.Duration{500 * time.Millisecond, 5 * time.Second}[dice.IntN(2)]
	for i := range 2 + dice.IntN(3) {
		conns = append(conns, s.server.Client(s.t))
		opts := []latchkey.Option{latchkey.WithRecheck(r.recheck)}
		if i == 0 {
			opts = append(opts, latchkey.WithID("worker-1"))
		}
		if dice.IntN(3) == 0 {
			opts = append(opts, latchkey.WithHandOver([]time.Duration{0, 50 * time.Millisecond}[dice.IntN(2)]))
		}
		if dice.IntN(4) == 0 {
			opts = append(opts, latchkey.WithDirectGrants(false))
		}
		if dice.IntN(8) == 0 {
			opts = append(opts, latchkey.WithPubSub(latchkey.Polling))
		}
		if dice.IntN(3) == 0 {
			opts = append(opts, latchkey.WithWatchdogTimeout(time.Second))
		}
		r.clients = append(r.clients, latchkey.New(conns[i], opts...))
	}
	r.makeNames(dice)
	r.setCounts(ctx)
	if cfg.Monitor {
		r.monitor = s.server.Monitor(s.t)
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { r.tick(done) })
	watch.Go(func() { r.watch(ctx, done) })

	for burst := 1; time.Since(r.start) < cfg.Length && ctx.Err() == nil; burst++ {
		r.burst(ctx, burst, rand.New(rand.NewPCG(cfg.Seed, uint64(burst)<<32)))
		if ctx.Err() == nil {
			r.quiet(ctx, dice)
		}
	}
	if ctx.Err() == nil {
		for i, c := range r.clients {
			if err := c.Close(); err != nil {
				r.fail(nil, "Close of client %d: %v", i, err)
			}
		}
		r.nothingStands(ctx)
	}
	close(done)
	watch.Wait()
	for i, c := range r.clients {
		_ = c.Close()
		_ = conns[i].Close()
	}
	if r.monitor != nil {
		r.monitor.Stop()
	}
	return r.failures
}

// tick advances the clock. While the machine stalls it hardly does.
func (r *run) tick(done <-chan struct{}) {
	const nap = 2 * time.Millisecond
	for last := time.Now(); ; {
		select {
		case <-done:
			return
		case <-time.After(nap):
		}
		now := time.Now()
		r.clock.Add(int64(min(now.Sub(last), 2*nap)))
		last = now
	}
}

func (r *run) passed() time.Duration { return time.Duration(r.clock.Load()) }

// burst lets some workers work on some names for a while, and give back what they have.
func (r *run) burst(ctx context.Context, number int, dice *rand.Rand) {
	var names []*name
	for _, i := range dice.Perm(len(r.names))[:min(1+dice.IntN(4), len(r.names))] {
		names = append(names, r.names[i])
		if r.names[i].kind == "multilock" { // all of them
			for _, n := range r.names {
				if n.kind == "multilock" && n != r.names[i] {
					names = append(names, n)
				}
			}
		}
	}
	crowd := []int{2, 4, 8, workers}[dice.IntN(4)]
	length := time.Duration(50+dice.IntN(350)) * time.Millisecond
	end := make(chan struct{})
	timer := time.AfterFunc(length, func() { close(end) })
	defer timer.Stop()
	var wg sync.WaitGroup
	for i := range crowd {
		w := &worker{run: r, number: i, client: dice.IntN(len(r.clients)), dice: rand.New(rand.NewPCG(r.cfg.Seed, uint64(number)<<32+uint64(i)+1))}
		w.Client = r.clients[w.client]
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-ctx.Done():
					return
				default:
					w.step(ctx, names)
				}
			}
		})
	}
	gone := make(chan struct{})
	go func() { wg.Wait(); close(gone) }()
	select {
	case <-gone:
		return
	case <-end:
	}
	for last := r.passed() + r.recheck + drain; ; {
		select {
		case <-gone:
			return
		case <-time.After(5 * time.Millisecond):
		}
		if r.passed() > last && ctx.Err() == nil {
			for _, n := range names {
				if n.waiters() > 0 {
					r.fail(n, "%d still wait for %s", n.waiters(), n.key)
				}
			}
			r.fail(nil, "a call does not return")
		}
		if r.passed() > last+5*time.Second {
			return // even the end of its context does not end a call; Close does
		}
	}
}

// quiet looks at Redis while nobody holds or waits.
func (r *run) quiet(ctx context.Context, dice *rand.Rand) {
	r.nothingStands(ctx)
	r.checkCounts(ctx)
	for _, n := range r.names {
		if ctx.Err() != nil {
			return
		}
		c := dice.IntN(len(r.clients))
		w := &worker{run: r, number: -1, client: c, Client: r.clients[c], dice: dice}
		w.probe(ctx, n)
	}
}

// nothingStands waits for what stands to go.
func (r *run) nothingStands(ctx context.Context) {
	for last := r.passed() + settle; ; time.Sleep(3 * time.Millisecond) {
		late := r.passed() > last // before the look
		left := r.standing(ctx)
		if len(left) == 0 || ctx.Err() != nil {
			break
		}
		if late {
			text := left[0].String()
			for _, s := range left[1:] {
				text += " and " + s.String()
			}
			r.fail(r.of(left[0].key), "%s stands, and nobody holds or waits", text)
			return
		}
	}
}

// setCounts sets what has a count.
func (r *run) setCounts(ctx context.Context) {
	for _, n := range r.names {
		switch n.kind {
		case "semaphore":
			_, err := semaphore.New(r.clients[0], n.key).TrySetPermits(ctx, capacity)
			r.check(n, err)
		case "permitsemaphore":
			_, err := permitsemaphore.New(r.clients[0], n.key).TrySetPermits(ctx, capacity)
			r.check(n, err)
		}
	}
}

// checkCounts sees that everything is back.
func (r *run) checkCounts(ctx context.Context) {
	for _, n := range r.names {
		var have, want int
		var err error
		switch n.kind {
		case "semaphore":
			want = capacity
			have, err = semaphore.New(r.clients[0], n.key).AvailablePermits(ctx)
		case "permitsemaphore":
			want = capacity
			have, err = permitsemaphore.New(r.clients[0], n.key).AvailablePermits(ctx)
		case "countdownlatch":
			var left int64
			left, err = countdownlatch.New(r.clients[0], n.key).Count(ctx)
			have = int(left)
		}
		if ctx.Err() != nil {
			return
		}
		if r.check(n, err); have != want {
			r.fail(n, "%s has %d, and should have %d: nobody holds or waits", n.key, have, want)
		}
	}
}

// check fails for any error.
func (r *run) check(n *name, err error) {
	if err != nil {
		r.fail(n, "%v", err)
	}
}

// fail notes what is not as promised, with all that is known of the name.
func (r *run) fail(n *name, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) > 0 {
		return // it may follow from the first, which ends all calls
	}
	var b strings.Builder
	fmt.Fprintf(&b, format, args...)
	if n != nil {
		fmt.Fprintf(&b, "\n  (%.3f ms, recheck %v)", r.ms(), r.recheck)
		for i, c := range r.clients {
			fmt.Fprintf(&b, "\n  client %d is %s", i, c.ID())
		}
		b.WriteString(n.history())
		if r.monitor != nil {
			b.WriteString(r.commands(n))
		}
	}
	r.failures = append(r.failures, b.String())
	r.cancel()
}

// ms is the time of the run, for people.
func (r *run) ms() float64 { return float64(time.Since(r.start)) / 1e6 }

// commands returns the last commands that Redis was sent for a name.
func (r *run) commands(n *name) string {
	var lines []string
	for _, l := range r.monitor.Lines() {
		if text := l.String(); strings.Contains(text, n.key) {
			if len(text) > 400 {
				text = text[:400]
			}
			lines = append(lines, text)
		}
	}
	return "\n  commands:\n    " + strings.Join(lines[max(0, len(lines)-150):], "\n    ")
}
