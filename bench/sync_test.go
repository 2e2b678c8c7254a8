package bench

import (
	"context"
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

// take and give are a semaphore without a memory: what Redisson runs.
var (
	take = redis.NewScript(`local v = redis.call('GET', KEYS[1])
if v ~= false and tonumber(v) >= tonumber(ARGV[1]) then redis.call('DECRBY', KEYS[1], ARGV[1]) return 1 end
return 0`)
	give = redis.NewScript(`local v = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('PUBLISH', KEYS[2], v)
return v`)
)

// BenchmarkSemaphoreUncontended is Acquire and Release of a free permit, one
// goroutine, against two scripts that DECR and INCR on the same connection pool.
func BenchmarkSemaphoreUncontended(b *testing.B) {
	s := redistest.Start(b)
	rdb := s.Client(b)
	ctx := context.Background()
	must(b, rdb.Set(ctx, "floor", 10, 0).Err())
	floor := func() {
		must(b, take.Run(ctx, rdb, []string{"floor"}, 1).Err())
		must(b, give.Run(ctx, rdb, []string{"floor", "channel"}, 1).Err())
	}
	c := latchkey.New(rdb)
	b.Cleanup(func() { must(b, c.Close()) })
	sem := semaphore.New(c, "ours")
	_, err := sem.TrySetPermits(ctx, 10)
	must(b, err)
	pair := func(ctx context.Context) func() {
		return func() {
			must(b, sem.Acquire(ctx, 1))
			must(b, sem.Release(ctx, 1))
		}
	}
	permits := permitsemaphore.New(c, "permits")
	_, err = permits.TrySetPermits(ctx, 10)
	must(b, err)
	cancellable, cancel := context.WithCancel(ctx)
	defer cancel()
	b.Run("background", func(b *testing.B) { turns(b, floor, pair(ctx)) })
	b.Run("cancellable", func(b *testing.B) { turns(b, floor, pair(cancellable)) })
	b.Run("permits", func(b *testing.B) {
		turns(b, floor, func() {
			p, err := permits.Acquire(ctx)
			must(b, err)
			must(b, p.Release(ctx))
		})
	})
	b.Run("allocs", func(b *testing.B) {
		b.ReportAllocs()
		f := pair(ctx)
		for b.Loop() {
			f()
		}
	})
}

// BenchmarkSemaphoreContended is grants each second to 64 goroutines that share 8
// permits, against as many that pass 8 tokens around with BLPOP and RPUSH.
func BenchmarkSemaphoreContended(b *testing.B) {
	const goroutines, tokens = 64, 8
	for _, n := range []int{1, 4} {
		name := "OneClient"
		if n > 1 {
			name = "FourClients"
		}
		b.Run(name, func(b *testing.B) { contended(b, n, goroutines, tokens) })
	}
}

func contended(b *testing.B, clients, goroutines, tokens int) {
	b.Helper()
	s := redistest.Start(b)
	ctx := context.Background()
	var rdbs []*redis.Client
	var sems []*semaphore.Semaphore
	for range clients {
		rdb := s.Client(b, func(o *redis.Options) { o.PoolSize = goroutines })
		c := latchkey.New(rdb)
		b.Cleanup(func() { must(b, c.Close()) })
		rdbs, sems = append(rdbs, rdb), append(sems, semaphore.New(c, "ours"))
	}
	_, err := sems[0].TrySetPermits(ctx, tokens)
	must(b, err)
	for range tokens {
		must(b, rdbs[0].RPush(ctx, "tokens", "t").Err())
	}
	// run counts grants in a slice of time.
	run := func(pass func(i int)) float64 {
		const slice = 300 * time.Millisecond
		var grants atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for i := range goroutines {
			wg.Go(func() {
				for time.Since(start) < slice {
					pass(i % clients)
					grants.Add(1)
				}
			})
		}
		wg.Wait()
		return float64(grants.Load()) / time.Since(start).Seconds()
	}
	blpop := func(i int) {
		must(b, rdbs[i].BLPop(ctx, time.Minute, "tokens").Err())
		must(b, rdbs[i].RPush(ctx, "tokens", "t").Err())
	}
	ours := func(i int) {
		must(b, sems[i].Acquire(ctx, 1))
		must(b, sems[i].Release(ctx, 1))
	}
	run(blpop)
	run(ours)
	var floors, all, ratios []float64
	for b.Loop() {
		x, y := run(blpop), run(ours)
		floors, all, ratios = append(floors, x), append(all, y), append(ratios, y/x)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(floors), "blpop-grants/s")
	b.ReportMetric(median(all), "latchkey-grants/s")
	b.ReportMetric(median(ratios), "ratio")
}

// BenchmarkSemaphoreWaiters is how many connections a client with 1,000 waiters
// has, and how long one release takes to reach the last of them.
func BenchmarkSemaphoreWaiters(b *testing.B) {
	const waiters = 1000
	s := redistest.Start(b)
	rdb, direct := s.Client(b), s.Client(b)
	ctx := context.Background()
	c, other := latchkey.New(rdb), latchkey.New(direct)
	defer func() { must(b, c.Close()); must(b, other.Close()) }()
	var times []float64
	most := 0
	for b.Loop() {
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() { must(b, semaphore.New(c, "s").Acquire(ctx, 1)) })
		}
		redistest.Until(b, "all to wait", func() bool { return c.Stats().Waiting == waiters })
		time.Sleep(50 * time.Millisecond) // until the head sleeps; measured is what comes after
		// Its pool, and the one for wake-ups.
		most = max(most, int(rdb.PoolStats().TotalConns)+1)
		start := time.Now()
		must(b, semaphore.New(other, "s").Release(ctx, waiters))
		wg.Wait()
		times = append(times, float64(time.Since(start).Microseconds()))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(most), "connections")
	b.ReportMetric(median(times)/1e3, "ms-to-all")
}

// BenchmarkLatchWaiters is the time from the last count-down to the release of
// the last of 5,000 waiters.
func BenchmarkLatchWaiters(b *testing.B) {
	const waiters = 5000
	s := redistest.Start(b)
	ctx := context.Background()
	c, other := latchkey.New(s.Client(b)), latchkey.New(s.Client(b))
	defer func() { must(b, c.Close()); must(b, other.Close()) }()
	l := countdownlatch.New(other, "l")
	var times []float64
	for b.Loop() {
		_, err := l.TrySetCount(ctx, 1)
		must(b, err)
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() { must(b, countdownlatch.New(c, "l").Await(ctx)) })
		}
		redistest.Until(b, "all to wait", func() bool { return c.Stats().Waiting == waiters })
		time.Sleep(50 * time.Millisecond) // until the head sleeps; measured is what comes after
		start := time.Now()
		must(b, l.CountDown(ctx))
		wg.Wait()
		times = append(times, float64(time.Since(start).Microseconds()))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(times)/1e3, "ms-to-all")
}
