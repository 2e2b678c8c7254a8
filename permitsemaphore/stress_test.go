package permitsemaphore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// stressAddr is the environment variable with the address of the server. A
// process that has it belongs to TestStress.
const stressAddr = "LATCHKEY_PERMITSEMAPHORE_STRESS_ADDR"

const (
	processes = 4
	clients   = 8
	workers   = 64 // of each client of each process
	capacity  = 6
	// crashLease is how long a permit stays out after a crash.
	crashLease = 3 * time.Second
)

// duration returns how long a stress test runs.
func duration() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("LATCHKEY_STRESS")); err == nil {
		return d
	}
	return time.Duration(redistest.Many(2000, 1000)) * time.Millisecond
}

// work takes and releases permits until ctx is done. A zset of the test has
// everybody who is inside, until the end of the trusted lease.
func work(ctx context.Context, rdb *redis.Client, c *latchkey.Client, seed int) (rounds int, err error) {
	s := permitsemaphore.New(c, "s")
	for ; ctx.Err() == nil; rounds++ {
		n := 1
		if (seed+rounds)%7 == 0 {
			n = 1 + (seed+rounds)%3
		}
		permits, err := s.AcquireN(ctx, n)
		switch {
		case ctx.Err() != nil && err != nil:
			return rounds, nil
		case err != nil:
			return rounds, err
		}
		for _, p := range permits {
			got, err := enter.Run(context.Background(), rdb, []string{"inside", "most"}, p.ID(), p.Remaining().Milliseconds()).Int()
			if err == nil && got > capacity {
				err = fmt.Errorf("%d permits are out, of %d", got, capacity)
			}
			if err != nil {
				return rounds, err
			}
		}
		for _, p := range permits {
			if err := rdb.ZRem(context.Background(), "inside", p.ID()).Err(); err != nil {
				return rounds, err
			}
			if err := p.Release(context.Background()); err != nil && !errors.Is(err, latchkey.ErrLeaseLost) {
				return rounds, err
			}
		}
	}
	return rounds, nil
}

// enter counts everybody who is inside, except those that have crashed and
// whose lease is over.
var enter = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #all, 2 do
	if tonumber(all[i + 1]) <= now then redis.call('ZREM', KEYS[1], all[i]) end
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
local n = redis.call('ZCARD', KEYS[1])
if n > tonumber(redis.call('GET', KEYS[2]) or 0) then redis.call('SET', KEYS[2], n) end
return n`)

// stressChild runs in one of the processes.
func stressChild(addr string) int {
	ctx, cancel := context.WithTimeout(context.Background(), duration())
	defer cancel()
	var wg sync.WaitGroup
	var failed atomic.Bool
	var rounds atomic.Int64
	for i := range clients {
		rdb := redis.NewClient(redistest.AsUser(&redis.Options{Addr: addr, PoolSize: 8}))
		defer rdb.Close()
		c := latchkey.New(rdb, latchkey.WithWatchdogTimeout(crashLease))
		defer c.Close()
		for j := range workers {
			wg.Go(func() {
				n, err := work(ctx, rdb, c, i*workers+j)
				rounds.Add(int64(n))
				if err != nil && !failed.Swap(true) {
					fmt.Println("failed:", err)
				}
			})
		}
	}
	fmt.Println("started")
	wg.Wait()
	fmt.Println("rounds:", rounds.Load())
	if failed.Load() {
		return 1
	}
	return 0
}

// sum returns the number of permits, available and out, at one moment.
var sum = redis.NewScript(`return tonumber(redis.call('GET', KEYS[1]) or 0) + redis.call('ZCARD', KEYS[2])`)

// 64 goroutines on each of 8 clients in each of 4 processes, one of which is
// killed. No more permits are out than exist, their number is constant, and
// those of the killed process are back within their leases.
func TestStress(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	ctx := t.Context()
	s := set(t, locktest.NewClient(t, direct), "s", capacity)
	var wg sync.WaitGroup
	for i := range processes {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), stressAddr+"="+srv.Addr, "LATCHKEY_STRESS="+duration().String())
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		wg.Go(func() {
			var text strings.Builder
			for lines := bufio.NewScanner(out); lines.Scan(); {
				text.WriteString(lines.Text() + " ")
				if lines.Text() == "started" && i == 0 {
					time.Sleep(duration() / 2) // into the work; any moment will do
					assert.NoError(t, cmd.Process.Kill())
				}
			}
			err := cmd.Wait()
			if i > 0 {
				assert.NoError(t, err, "%s", text.String())
			}
			t.Log(text.String())
		})
	}
	stop := make(chan struct{})
	var sampler sync.WaitGroup
	samples := 0
	sampler.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, err := sum.Run(ctx, direct, []string{"s", "{s}:timeout"}).Int()
			if !assert.NoError(t, err) || !assert.Equal(t, capacity, n, "permits") {
				return
			}
			samples++
			time.Sleep(time.Millisecond)
		}
	})
	wg.Wait()
	ended := time.Now()
	redistest.Until(t, "all permits to be back", func() bool {
		n, err := s.AvailablePermits(ctx)
		return err == nil && n == capacity
	})
	require.Less(t, time.Since(ended), crashLease+time.Second)
	close(stop)
	sampler.Wait()
	counts(t, s, capacity, 0)
	t.Logf("%d samples; most at a time: %v", samples, srv.Do(t, "GET", "most"))
}

// The number of permits is changed at random while 100 workers run.
func TestRandomSetPermits(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	c := locktest.NewClient(t, srv.Client(t))
	s := set(t, locktest.NewClient(t, direct), "s", 5)
	ctx, cancel := context.WithTimeout(t.Context(), duration())
	defer cancel()
	var wg sync.WaitGroup
	var rounds atomic.Int64
	for i := range 100 {
		wg.Go(func() {
			s := permitsemaphore.New(c, "s")
			for j := 0; ctx.Err() == nil; j++ {
				permits, err := s.AcquireN(ctx, 1+(i+j)%3)
				if err != nil {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					return
				}
				rounds.Add(1)
				for _, p := range permits {
					assert.NoError(t, p.Release(context.Background()))
				}
			}
		})
	}
	changes := 0
	for ; ctx.Err() == nil; changes++ {
		n := rand.IntN(12)
		require.NoError(t, s.SetPermits(t.Context(), n))
		for range 3 {
			require.Equal(t, n, must(sum.Run(t.Context(), direct, []string{"s", "{s}:timeout"}).Int()))
		}
	}
	require.NoError(t, s.SetPermits(t.Context(), 7))
	wg.Wait()
	redistest.Until(t, "all permits to be back", func() bool {
		n, err := s.AvailablePermits(t.Context())
		return err == nil && n == 7
	})
	counts(t, s, 7, 0)
	require.Positive(t, rounds.Load())
	t.Logf("%d rounds, %d changes", rounds.Load(), changes)
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

// Replies are dropped and delayed, and connections are cut: the number of
// permits is constant.
func TestConservation(t *testing.T) {
	const permits, callers = 5, 24
	srv := redistest.Start(t)
	proxy := redistest.NewProxy(t, srv.Addr)
	direct := srv.Client(t)
	s := set(t, locktest.NewClient(t, direct), "s", permits)
	var clients []*latchkey.Client
	for range 3 {
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: 200 * time.Millisecond, PoolSize: 16})
		t.Cleanup(func() { _ = rdb.Close() })
		clients = append(clients, locktest.NewClient(t, rdb))
	}
	var n atomic.Int64
	proxy.OnCommand(func(args []string) redistest.Act {
		if !strings.HasPrefix(strings.ToLower(args[0]), "eval") {
			return redistest.Pass
		}
		switch i := n.Add(1); {
		case i%17 == 0:
			return redistest.LoseRST
		case i%23 == 0:
			return redistest.RefuseRST
		case i%41 == 0:
			return redistest.Late
		}
		return redistest.Pass
	})
	proxy.HoldFor(300 * time.Millisecond)
	end := time.Now().Add(duration())
	var wg sync.WaitGroup
	var rounds, inside, most atomic.Int64
	for i := range callers {
		wg.Go(func() {
			s := permitsemaphore.New(clients[i%len(clients)], "s")
			for j := 0; time.Now().Before(end); j++ {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(20+(i*j)%300)*time.Millisecond)
				got, err := s.AcquireN(ctx, 1+(i+j)%3)
				cancel()
				if err != nil {
					continue
				}
				if in := inside.Add(int64(len(got))); in > most.Load() {
					most.Store(in)
				}
				rounds.Add(1)
				inside.Add(int64(-len(got)))
				for _, p := range got {
					assert.NoError(t, p.Release(context.Background()))
				}
			}
		})
	}
	for time.Now().Before(end) {
		require.Equal(t, permits, must(sum.Run(t.Context(), direct, []string{"s", "{s}:timeout"}).Int()))
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	proxy.OnCommand(nil)
	proxy.Release()
	t.Logf("%d rounds, most at a time %d; lost replies %d, refused %d, late %d",
		rounds.Load(), most.Load(), proxy.Count(redistest.LoseRST), proxy.Count(redistest.RefuseRST), proxy.Count(redistest.Late))
	require.LessOrEqual(t, most.Load(), int64(permits))
	require.Positive(t, proxy.Count(redistest.LoseRST))
	// A request that was late may have taken some, and is being undone.
	redistest.Until(t, "all permits to be back", func() bool {
		n, err := s.AvailablePermits(t.Context())
		out, outErr := s.AcquiredPermits(t.Context())
		return err == nil && n == permits && outErr == nil && out == 0
	})
	total, err := s.Permits(t.Context())
	require.NoError(t, err)
	require.Equal(t, permits, total, "permits")
}
