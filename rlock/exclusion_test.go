package rlock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

const (
	stressAddr = "LATCHKEY_STRESS_ADDR" // set in the processes that do the work
	stressTime = "LATCHKEY_STRESS"      // how long; default 3s

	stressProcesses = 4
	stressClients   = 2 // in each process
	stressWorkers   = 64

	stressRecheck = 2 * time.Second
	stressName    = "stress"
)

// A stressReport is the result of one process.
type stressReport struct {
	Sections int      // critical sections
	Least    int      // of any one goroutine
	Longest  float64  // wait for the lock, s
	Faults   []string // what must not be
	Stats    []latchkey.Stats
}

// TestExclusionOfProcesses runs 8 clients in 4 processes. On each client, 64
// goroutines share one lock value. In the critical section each goroutine sets
// a marker in Redis that must not exist yet, checks that it stays unchanged,
// and changes plain memory that the race detector watches.
func TestExclusionOfProcesses(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	self, err := os.Executable()
	require.NoError(t, err)
	reports := make(chan stressReport, stressProcesses)
	var wg sync.WaitGroup
	for i := range stressProcesses {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), stressAddr+"="+s.Addr)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		require.NoError(t, cmd.Start())
		wg.Go(func() {
			err := cmd.Wait()
			var r stressReport
			if jerr := json.Unmarshal([]byte(stdout.String()), &r); err != nil || jerr != nil {
				t.Errorf("process %d: %v, %v\n%s\n%s", i, err, jerr, stdout.String(), stderr.String())
			}
			reports <- r
		})
	}
	over := make(chan struct{})
	go func() {
		wg.Wait()
		close(over)
	}()
	free := longestFree(t, rdb, over)
	close(reports)

	sections := 0
	for r := range reports {
		require.Empty(t, r.Faults)
		require.Positive(t, r.Least, "critical sections of the goroutine that had the fewest, of %d", r.Sections)
		sections += r.Sections
		for _, st := range r.Stats {
			require.Zero(t, st.Losses, "Losses")
			require.Zero(t, st.Held, "Held")
			require.Zero(t, st.Waiting, "Waiting")
		}
		t.Logf("%d sections, at least %d for each goroutine, longest wait %.2fs", r.Sections, r.Least, r.Longest)
	}
	require.Equal(t, strconv.Itoa(sections), rdb.Get(t.Context(), stressName+":count").Val(), "critical sections, as Redis counted them")
	t.Logf("%d sections; the lock was free with everybody waiting for %v at most", sections, free)
	require.Less(t, free, stressRecheck*7/10, "time that the lock was free and nobody took it: less than any recheck")
	redistest.Until(t, "undos to end", func() bool { return rdb.Exists(t.Context(), stressName).Val() == 0 })
	require.Zero(t, rdb.Exists(t.Context(), stressName+":marker").Val(), "the marker of the last one")
}

// longestFree watches the lock until over is closed. It returns the longest
// time for which the lock was free without a holder in between.
func longestFree(t *testing.T, rdb *redis.Client, over <-chan struct{}) time.Duration {
	t.Helper()
	look := redis.NewScript(`return {redis.call('EXISTS', KEYS[1]), redis.call('GET', KEYS[2]) or ''}`)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var longest time.Duration
	var since time.Time
	last := ""
	for {
		select {
		case <-over:
			return longest
		case <-tick.C:
		}
		v, err := look.Run(t.Context(), rdb, []string{stressName, stressName + ":count"}).Slice()
		require.NoError(t, err)
		count := v[1].(string)
		switch {
		case v[0].(int64) == 1, count == "", strings.HasPrefix(rdb.Get(t.Context(), stressName+":over").Val(), "1"):
			since = time.Time{}
		case since.IsZero(), count != last:
			since = time.Now()
		default:
			longest = max(longest, time.Since(since))
		}
		last = count
	}
}

// stressChild runs in one of the processes. It returns the exit code.
func stressChild(addr string) int {
	d := 3 * time.Second
	if v := os.Getenv(stressTime); v != "" {
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 20})
	defer rdb.Close()
	locks := redis.NewClient(redistest.AsUser(&redis.Options{Addr: addr, PoolSize: 20}))
	defer locks.Close()
	st := &stress{rdb: rdb}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var wg sync.WaitGroup
	for range stressClients {
		c := latchkey.New(locks, latchkey.WithRecheck(stressRecheck))
		l := rlock.New(c, stressName)
		wg.Go(func() { st.client(ctx, c, l) })
	}
	wg.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(st.report); err != nil {
		return 2
	}
	return 0
}

// A stress is the state of one process.
type stress struct {
	rdb  *redis.Client
	next atomic.Int64 // numbers the critical sections

	// mu guards the field below.
	mu     sync.Mutex
	report stressReport
}

func (s *stress) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.report.Faults) < 10 {
		s.report.Faults = append(s.report.Faults, fmt.Sprintf(format, args...))
	}
}

// client makes many goroutines share one lock value until ctx ends.
func (s *stress) client(ctx context.Context, c *latchkey.Client, l *rlock.Lock) {
	plain := 0 // guarded by l
	var wg sync.WaitGroup
	for range stressWorkers {
		wg.Go(func() { s.worker(ctx, c, l, &plain) })
	}
	wg.Wait()
	st := c.Stats()
	if err := c.Close(); err != nil {
		s.fault("Close: %v", err)
	}
	s.mu.Lock()
	s.report.Sections += plain
	s.report.Stats = append(s.report.Stats, st)
	s.mu.Unlock()
}

// worker enters the critical section again and again.
func (s *stress) worker(ctx context.Context, c *latchkey.Client, l *rlock.Lock, plain *int) {
	n, longest := 0, time.Duration(0)
	// On a slow machine not everybody has had a turn when the time is over.
	first, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for n == 0 || ctx.Err() == nil {
		start := time.Now()
		within := ctx
		if n == 0 {
			within = first
		}
		h, err := l.Lock(within)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				s.fault("Lock: %v", err)
			}
			break
		}
		longest = max(longest, time.Since(start))
		*plain++
		n++
		s.section(c.ID() + " " + strconv.FormatInt(s.next.Add(1), 10))
		if err := h.Unlock(within); err != nil {
			s.fault("Unlock: %v", err)
		}
	}
	if n == 0 {
		s.fault("a goroutine never got the lock")
	}
	s.rdb.Set(context.Background(), stressName+":over", 1, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report.Least == 0 || n < s.report.Least {
		s.report.Least = n
	}
	s.report.Longest = max(s.report.Longest, longest.Seconds())
}

var delIfMine = redis.NewScript(`
	local was = redis.call('GET', KEYS[1])
	if was == ARGV[1] then redis.call('DEL', KEYS[1]) end
	redis.call('INCR', KEYS[2])
	return was`)

// section is the critical section.
func (s *stress) section(id string) {
	ctx := context.Background()
	marker := stressName + ":marker"
	set, err := s.rdb.SetNX(ctx, marker, id, time.Minute).Result()
	if err != nil {
		s.fault("SET: %v", err)
	} else if !set {
		s.fault("%s overlaps with %s", id, s.rdb.Get(ctx, marker).Val())
	}
	was, err := delIfMine.Run(ctx, s.rdb, []string{marker, stressName + ":count"}, id).Text()
	if err != nil || was != id {
		s.fault("%s finds %q, %v", id, was, err)
	}
}
