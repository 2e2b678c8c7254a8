// Package bench measures latchkey against floors without any library, and prints
// ratios: both sides take turns within one run, so that a noisy machine is noisy
// for both.
package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

const lease = 30 * time.Second

// compareAndDelete is the release of a lock made of SET NX PX.
var compareAndDelete = redis.NewScript(
	`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// block is how many operations one side does before the other has its turn.
const block = 200

// turns runs floor and ours in turn, b.N blocks each, and reports the median
// time of both, and the median of the ratios block by block.
func turns(b *testing.B, floor, ours func()) {
	b.Helper()
	measure := func(f func()) float64 {
		start := time.Now()
		for range block {
			f()
		}
		return float64(time.Since(start).Nanoseconds()) / block
	}
	measure(floor)
	measure(ours)
	var floors, all, ratios []float64
	for b.Loop() {
		x, y := measure(floor), measure(ours)
		floors, all, ratios = append(floors, x), append(all, y), append(ratios, y/x)
	}
	b.ReportMetric(0, "ns/op") // of a pair of blocks; means nothing
	b.ReportMetric(median(floors)/1e3, "floor-µs")
	b.ReportMetric(median(all)/1e3, "latchkey-µs")
	b.ReportMetric(median(ratios), "ratio")
}

func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkUncontended is Lock and Unlock of a free lock, one goroutine, against
// SET NX PX and compare-and-delete on the same connection pool.
func BenchmarkUncontended(b *testing.B) {
	s := redistest.Start(b)
	rdb := s.Client(b)
	ctx := context.Background()
	floor := func() {
		ok, err := rdb.SetNX(ctx, "floor", "token", lease).Result()
		must(b, err)
		if !ok {
			b.Fatal("the floor's lock was taken")
		}
		must(b, compareAndDelete.Run(ctx, rdb, []string{"floor"}, "token").Err())
	}
	pair := func(ctx context.Context, opts ...rlock.Option) func() {
		c := latchkey.New(rdb)
		b.Cleanup(func() { must(b, c.Close()) })
		l := rlock.New(c, "ours", opts...)
		return func() {
			h, err := l.Lock(ctx)
			must(b, err)
			must(b, h.Unlock(ctx))
		}
	}
	cancellable, cancel := context.WithCancel(ctx)
	defer cancel()
	b.Run("background", func(b *testing.B) { turns(b, floor, pair(ctx)) })
	b.Run("cancellable", func(b *testing.B) { turns(b, floor, pair(cancellable)) })
	b.Run("fenced", func(b *testing.B) { turns(b, floor, pair(ctx, rlock.Fenced())) })
	b.Run("allocs", func(b *testing.B) {
		b.ReportAllocs()
		f := pair(ctx)
		for b.Loop() {
			f()
		}
	})
}

// BenchmarkWakeUp is the time from the call of Unlock in one client to the return
// of Lock in another, against RPUSH and BLPOP of a token.
func BenchmarkWakeUp(b *testing.B) {
	s := redistest.Start(b)
	here, there := s.Client(b), s.Client(b)
	ctx := context.Background()

	one, other := latchkey.New(here), latchkey.New(there)
	defer func() { must(b, one.Close()); must(b, other.Close()) }()
	mine, theirs := rlock.New(one, "wake"), rlock.New(other, "wake")

	var floors, all []float64
	for b.Loop() {
		floors = append(floors, wake(b, settle(),
			func() error { return there.BLPop(ctx, time.Minute, "token").Err() },
			func() error { return here.RPush(ctx, "token", "t").Err() }))

		hold, err := mine.Lock(ctx)
		must(b, err)
		var got *latchkey.Hold
		all = append(all, wake(b, settle(),
			func() (err error) { got, err = theirs.Lock(ctx); return err },
			func() error { return hold.Unlock(ctx) }))
		must(b, got.Unlock(ctx))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(floors)/1e3, "floor-µs")
	b.ReportMetric(median(all)/1e3, "latchkey-µs")
	b.ReportMetric(median(all)/median(floors), "ratio")
}

// wake starts wait, lets it settle for settle, and returns how long it takes to
// return once release is called, in ns.
func wake(b *testing.B, settle time.Duration, wait, release func() error) float64 {
	b.Helper()
	var wg sync.WaitGroup
	var end time.Time
	var err error
	wg.Go(func() {
		err = wait()
		end = time.Now()
	})
	time.Sleep(settle) // until the waiter waits; measured is what comes after
	start := time.Now()
	must(b, release())
	wg.Wait()
	must(b, err)
	return float64(end.Sub(start).Nanoseconds())
}

// BenchmarkParallel is Lock and Unlock of free locks by 64 goroutines, a name
// each, against the floor.
func BenchmarkParallel(b *testing.B) {
	s := redistest.Start(b)
	rdb := s.Client(b)
	ctx := context.Background()
	c := latchkey.New(rdb)
	defer func() { must(b, c.Close()) }()
	const goroutines = 64
	locks := make([]*rlock.Lock, goroutines)
	for i := range locks {
		locks[i] = rlock.New(c, "name:"+strconv.Itoa(i))
	}
	each := func(f func(i int)) func() {
		return func() {
			var wg sync.WaitGroup
			for i := range goroutines {
				wg.Go(func() { f(i) })
			}
			wg.Wait()
		}
	}
	turns(b,
		each(func(i int) {
			key := fmt.Sprint("floor:", i)
			must(b, rdb.SetNX(ctx, key, "token", lease).Err())
			must(b, compareAndDelete.Run(ctx, rdb, []string{key}, "token").Err())
		}),
		each(func(i int) {
			h, err := locks[i].Lock(ctx)
			must(b, err)
			must(b, h.Unlock(ctx))
		}))
}

// settle is how long a waiter waits before the release: long enough that
// everything is at rest, and not in step with anything.
func settle() time.Duration { return 20*time.Millisecond + rand.N(10*time.Millisecond) }
