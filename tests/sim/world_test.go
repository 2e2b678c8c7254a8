package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/semaphore"
)

const (
	lease   = 30 * time.Second // the watchdog's
	recheck = 5 * time.Second
	// slack is what a waiter for something free may take beyond the recheck: for a
	// fair lock, until the client of a dead head counts as dead.
	slack = 15 * time.Second
	// calmFor is for how long nothing must have gone wrong before waiters are held to
	// that.
	calmFor = 20 * time.Second
)

// A world is one run: a server, clients, workers, and faults.
type world struct {
	t       *testing.T
	env     *redistest.Env
	seed    uint64
	length  time.Duration
	links   []*link
	clients []*latchkey.Client
	ledger  *ledger
	faults  *faults
	ctx     context.Context // ends with the run
	ended   chan struct{}
}

func newWorld(t *testing.T, env *redistest.Env, seed uint64) *world {
	t.Helper()
	w := &world{
		t: t, env: env, seed: seed, ledger: newLedger(), ended: make(chan struct{}),
		length: time.Duration(*hoursFlag * float64(time.Hour)),
	}
	for i := range *clientsFlag {
		l := &link{acts: w.random(1_000_000 + i)}
		l.rdb = env.Client(l.dialer)
		l.proxy = env.Link(l.rdb)
		w.links = append(w.links, l)
		opts := []latchkey.Option{latchkey.WithUnlockTimeout(10 * time.Second)}
		if i%4 == 3 {
			opts = append(opts, latchkey.WithHandOver(0))
		}
		w.clients = append(w.clients, latchkey.New(l.rdb, opts...))
	}
	w.faults = &faults{w: w, rand: w.random(2_000_000), done: map[string]int{}, loss: seed%3 == 0}
	return w
}

// random returns the random source of one part of the world.
func (w *world) random(part int) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, uint64(part))) //nolint:gosec // it must be the same each time
}

func (w *world) run() {
	ctx, cancel := context.WithTimeout(w.t.Context(), w.length)
	defer cancel()
	w.ctx = ctx
	var workers, others sync.WaitGroup
	kinds := w.kinds()
	for i := range *workersFlag {
		k := kinds[i%len(kinds)]
		r := w.random(i)
		workers.Go(func() { k.work(w, &worker{id: i, rand: r, client: w.clients[r.IntN(len(w.clients))]}) })
	}
	others.Go(func() { w.faults.run(time.Now().Add(w.length - 2*time.Minute)) })
	others.Go(w.watch)
	workers.Wait()
	close(w.ended)
	others.Wait()
	w.quiet()
}

// watch looks every second at the objects whose holder has a key.
func (w *world) watch() {
	for {
		select {
		case <-w.ended:
			return
		case <-time.After(time.Second):
		}
		calm := w.faults.calm(calmFor)
		w.ledger.mu.Lock()
		var all []*object
		for _, o := range w.ledger.objects {
			if strings.HasPrefix(o.name, "lock:") {
				all = append(all, o)
			}
		}
		w.ledger.mu.Unlock()
		for _, o := range all {
			w.ledger.look(o, w.env.Mini.Exists(o.name), calm, recheck+slack, lease)
		}
	}
}

// quiet checks the end: everything has been given back, and nothing is left
// behind.
func (w *world) quiet() {
	t := w.t
	w.env.Advance(2 * time.Minute) // for what has to be undone
	var n int
	for _, c := range w.clients {
		s := c.Stats()
		n += s.Held + s.Waiting
	}
	assert.Zero(t, n, "held or waiting")
	assert.Empty(t, w.env.Redis.PubSubChannels(t.Context(), "*").Val(), "subscriptions")
	for _, o := range w.ledger.objects {
		assert.Empty(t, o.holders, o.name)
		if strings.HasPrefix(o.name, "sem:") && !o.leaky {
			left, err := semaphore.New(w.clients[0], o.name).AvailablePermits(t.Context())
			require.NoError(t, err)
			assert.Equal(t, o.room, left, "permits of %s", o.name)
		}
	}
	for _, c := range w.clients {
		require.NoError(t, c.Close())
	}
	w.env.Advance(6 * time.Minute) // beyond the last thing that expires by itself
	for _, key := range w.env.Mini.Keys() {
		known := strings.HasPrefix(key, "redisson_lock_token:") || strings.HasPrefix(key, "sem:") || strings.HasPrefix(key, "permit:") ||
			strings.HasPrefix(key, "{permit:")
		assert.True(t, known, "the key %q is left", key)
	}
}

// A worker does one task after another.
type worker struct {
	id     int
	rand   *rand.Rand
	client *latchkey.Client
}

func (k *worker) String() string { return fmt.Sprintf("worker %d", k.id) }

// upTo returns a random time up to d, often short and seldom long.
func (k *worker) upTo(d time.Duration) time.Duration {
	x := k.rand.Float64()
	return time.Duration(x * x * x * float64(d))
}

// thinks pauses between two tasks and reports whether there is time left.
func (w *world) thinks(k *worker) bool {
	d := time.Duration(k.rand.ExpFloat64() * float64(45*time.Minute))
	if k.rand.IntN(4) == 0 {
		d = k.upTo(10 * time.Second)
	}
	select {
	case <-time.After(d):
		return w.ctx.Err() == nil
	case <-w.ctx.Done():
		return false
	}
}
