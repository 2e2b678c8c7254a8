package semaphore_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/latchkey-go/latchkey/semaphore"
)

// stressAddr is the environment variable with the address of the server. A
// process that has it belongs to TestStress.
const stressAddr = "LATCHKEY_SEMAPHORE_STRESS_ADDR"

const (
	processes = 4
	clients   = 8
	workers   = 64 // of each client of each process
	capacity  = 5
)

// duration returns how long a stress test runs.
func duration() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("LATCHKEY_STRESS")); err == nil {
		return d
	}
	return time.Duration(redistest.Many(2000, 1000)) * time.Millisecond
}

// insideCount counts the callers in the critical section, in Redis, for all
// processes.
var insideCount = redis.NewScript(`
local n = redis.call('INCRBY', KEYS[1], ARGV[1])
if n > tonumber(redis.call('GET', KEYS[2]) or 0) then redis.call('SET', KEYS[2], n) end
return n`)

// work takes and releases permits until the time is over.
func work(rdb *redis.Client, c *latchkey.Client, end time.Time, seed int) (rounds int, err error) {
	ctx := context.Background()
	s := semaphore.New(c, "s")
	for ; time.Now().Before(end); rounds++ {
		n := 1
		if (seed+rounds)%7 == 0 {
			n = 1 + (seed+rounds)%capacity
		}
		bounded, cancel := context.WithDeadline(ctx, end)
		err := s.Acquire(bounded, n)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return rounds, nil
		case err != nil:
			return rounds, err
		}
		got, err := insideCount.Run(ctx, rdb, []string{"inside", "most"}, n).Int()
		if err == nil && got > capacity {
			err = fmt.Errorf("%d permits are out, of %d", got, capacity)
		}
		if err == nil {
			err = insideCount.Run(ctx, rdb, []string{"inside", "most"}, -n).Err()
		}
		if err != nil {
			return rounds, err
		}
		if err := s.Release(ctx, n); err != nil {
			return rounds, err
		}
	}
	return rounds, nil
}

// stressChild runs in one of the processes.
func stressChild(addr string) int {
	var wg sync.WaitGroup
	var failed atomic.Bool
	var rounds atomic.Int64
	end := time.Now().Add(duration())
	for i := range clients {
		rdb := redis.NewClient(redistest.AsUser(&redis.Options{Addr: addr, PoolSize: 8}))
		defer rdb.Close()
		c := latchkey.New(rdb)
		defer c.Close()
		for j := range workers {
			wg.Go(func() {
				n, err := work(rdb, c, end, i*workers+j)
				rounds.Add(int64(n))
				if err != nil && !failed.Swap(true) {
					fmt.Println("failed:", err)
				}
			})
		}
	}
	wg.Wait()
	fmt.Println("rounds:", rounds.Load())
	if failed.Load() {
		return 1
	}
	return 0
}

// 64 goroutines on each of 8 clients in each of 4 processes: no more permits
// are out than exist, and all are back at the end.
func TestStress(t *testing.T) {
	srv := redistest.Start(t)
	s := set(t, locktest.NewClient(t, srv.Client(t)), "s", capacity)
	var wg sync.WaitGroup
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), stressAddr+"="+srv.Addr, "LATCHKEY_STRESS="+duration().String())
		wg.Go(func() {
			out, err := cmd.CombinedOutput()
			assert.NoError(t, err, "%s", out)
			t.Log(strings.TrimSpace(string(out)))
		})
	}
	wg.Wait()
	redistest.Until(t, "all permits to be back", func() bool { return available(t, s) == capacity })
	require.Equal(t, "0", srv.Do(t, "GET", "inside")[0])
	t.Log("most at a time: ", srv.Do(t, "GET", "most")[0])
}

// Replies are dropped and delayed, and connections are cut: no permit is lost
// or created.
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
			return redistest.LoseRST // runs, and the reply is lost
		case i%23 == 0:
			return redistest.RefuseRST // does not run
		case i%41 == 0:
			return redistest.Late // runs later, and nobody hears of it
		}
		return redistest.Pass
	})
	proxy.HoldFor(300 * time.Millisecond)
	stop := make(chan struct{})
	var wg, cutter sync.WaitGroup
	cutter.Go(func() {
		tick := time.NewTicker(150 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				proxy.CutAll()
			case <-stop:
				return
			}
		}
	})
	end := time.Now().Add(duration())
	var inside, most, rounds, doubtful atomic.Int64
	for i := range callers {
		wg.Go(func() {
			s := semaphore.New(clients[i%len(clients)], "s")
			for j := 0; time.Now().Before(end); j++ {
				n := 1 + (i+j)%3
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(20+(i*j)%300)*time.Millisecond)
				err := s.Acquire(ctx, n)
				cancel()
				if err != nil {
					continue
				}
				if in := inside.Add(int64(n)); in > most.Load() {
					most.Store(in)
				}
				rounds.Add(1)
				inside.Add(int64(-n))
				// A release that got no answer must be finished by whoever asked.
				if err := s.Release(context.Background(), n); err != nil {
					doubtful.Add(1)
					assert.NoError(t, err, "Release within the unlock timeout")
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	cutter.Wait()
	proxy.OnCommand(nil)
	proxy.Release()
	t.Logf("%d rounds, most at a time %d; lost replies %d, refused %d, late %d",
		rounds.Load(), most.Load(), proxy.Count(redistest.LoseRST), proxy.Count(redistest.RefuseRST), proxy.Count(redistest.Late))
	require.LessOrEqual(t, most.Load(), int64(permits))
	require.Positive(t, rounds.Load())
	require.Positive(t, proxy.Count(redistest.LoseRST))
	redistest.Until(t, "all permits to be back", func() bool { return available(t, s) == permits })
	undone := uint64(0)
	for _, c := range clients {
		undone += c.Stats().Undone
		require.NoError(t, c.Close())
	}
	t.Log("undone:", undone)
	require.Equal(t, permits, available(t, s), "and none too many")
}
