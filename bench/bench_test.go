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

// inTime sets what the README recommends.
func inTime(o *redis.Options) { o.ContextTimeoutEnabled = true }

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
// SET NX PX and compare-and-delete on the same connection pool. "background" has a context
// that nobody can cancel; "history" is that with WithHistory; "cancellable" one that can end, and ContextTimeoutEnabled;
// "goroutine" the same without that, so that each script has a goroutine. "by-hand" is the
// ratio for two short scripts that leave what Redisson's do, sent without any library.
func BenchmarkUncontended(b *testing.B) {
	s := redistest.Start(b)
	rdb := s.Client(b)
	ctx := context.Background()
	floor := floorPair(b, rdb)
	of := func(c *latchkey.Client, ctx context.Context, opts ...rlock.Option) func() {
		b.Cleanup(func() { must(b, c.Close()) })
		l := rlock.New(c, "ours", opts...)
		return func() {
			h, err := l.Lock(ctx)
			must(b, err)
			must(b, h.Unlock(ctx))
		}
	}
	pair := func(ctx context.Context, opts ...rlock.Option) func() { return of(latchkey.New(rdb), ctx, opts...) }
	inline := s.Client(b, inTime)
	b.Run("background", func(b *testing.B) { turns(b, floor, pair(ctx)) })
	b.Run("history", func(b *testing.B) { turns(b, floor, of(latchkey.New(rdb, latchkey.WithHistory(10_000)), ctx)) })
	b.Run("cancellable", func(b *testing.B) { turns(b, floorPair(b, inline), lockPair(b, inline)) })
	b.Run("goroutine", func(b *testing.B) { turns(b, floor, lockPair(b, rdb)) })
	b.Run("fenced", func(b *testing.B) { turns(b, floor, pair(ctx, rlock.Fenced())) })
	bare := &byHand{there: rdb}
	b.Run("by-hand", func(b *testing.B) {
		turns(b, floor, func() {
			must(b, bare.take(ctx, rdb))
			must(b, bare.free(ctx, rdb))
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

// BenchmarkCommands counts what is sent: for a pair of Lock and Unlock, and in a
// second by a client that holds one lock and does nothing else.
func BenchmarkCommands(b *testing.B) {
	s := redistest.Start(b)
	ctx := context.Background()
	c := latchkey.New(s.Client(b))
	defer func() { must(b, c.Close()) }()
	l := rlock.New(c, "quiet")
	h, err := l.Lock(ctx) // loads the scripts
	must(b, err)
	must(b, h.Unlock(ctx))

	const pairs = 100
	s.Commands(b)
	var perPair, perSecond float64
	for b.Loop() {
		before := s.Commands(b)
		for range pairs {
			h, err := l.Lock(ctx)
			must(b, err)
			must(b, h.Unlock(ctx))
		}
		perPair = float64(s.Commands(b)-before) / pairs
	}
	h, err = l.Lock(ctx)
	must(b, err)
	before := s.Commands(b)
	const quiet = 12 * time.Second // one renewal is in it
	time.Sleep(quiet)
	perSecond = float64(s.Commands(b)-before) / quiet.Seconds()
	must(b, h.Unlock(ctx))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(perPair, "commands/pair")
	b.ReportMetric(perSecond, "commands/s-quiet")
}

// wakes is how many wake-ups of each kind there are in a round of BenchmarkWakeUp.
const wakes = 200

// BenchmarkWakeUp is the time from the call of Unlock in one client to the return
// of Lock in another, against RPUSH and BLPOP of a token. An iteration is a round: a
// server of its own, and in turn a wake-up of the one kind and of the other. "ratio" is
// the middle of the rounds' ratios of the two p50, "least" and "most" say how far they
// lie apart: how the caches of a machine are used by two processes differs from one pair
// of them to the next.
func BenchmarkWakeUp(b *testing.B) {
	wakeRounds(b, func(b *testing.B) (floor, ours float64) {
		b.Helper()
		s := redistest.Start(b)
		defer s.Kill()
		return wakeRound(b, s.Client(b, inTime), s.Client(b, inTime))
	})
}

// wakeRound is one round between two clients; it returns the p50 of both, in ns.
func wakeRound(b *testing.B, here, there *redis.Client) (floor, ours float64) {
	b.Helper()
	ctx := context.Background()

	one, other := latchkey.New(here), latchkey.New(there)
	defer func() { must(b, one.Close()); must(b, other.Close()) }()
	mine, theirs := rlock.New(one, "wake"), rlock.New(other, "wake")

	var floors, all []float64
	for range wakes {
		floors = append(floors, wakeFloor(b, here, there))

		hold, err := mine.Lock(ctx)
		must(b, err)
		var got *latchkey.Hold
		all = append(all, wake(b,
			func() (err error) { got, err = theirs.Lock(ctx); return err },
			func() error { return hold.Unlock(ctx) }))
		must(b, got.Unlock(ctx))
	}
	return median(floors), median(all)
}

// BenchmarkWakeUpByHand is the same without a library on either side. "by-hand" is
// the least that Redisson's protocol allows, a script that deletes and publishes, a bare
// go-redis subscriber, and a script that takes: one round trip more than BLPOP, which
// Redis answers by itself. "given-by-hand" is a script that gives the lock to a waiter.
func BenchmarkWakeUpByHand(b *testing.B) {
	var floors, hands, gifts []float64
	for b.Loop() {
		floor, hand, gift := handRound(b)
		floors, hands, gifts = append(floors, floor), append(hands, hand/floor), append(gifts, gift/floor)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(floors)/1e3, "floor-µs")
	b.ReportMetric(median(hands), "by-hand")
	b.ReportMetric(median(gifts), "given-by-hand")
}

// handRound is one round; it returns the p50 of each, in ns.
func handRound(b *testing.B) (floor, hand, gift float64) {
	b.Helper()
	s := redistest.Start(b)
	defer s.Kill()
	here, there := s.Client(b), s.Client(b)
	ctx := context.Background()
	bare := newByHand(b, here, there)

	var floors, hands, gifts []float64
	for range wakes {
		floors = append(floors, wakeFloor(b, here, there))

		must(b, bare.take(ctx, here))
		hands = append(hands, wake(b, bare.wait, func() error { return bare.free(ctx, here) }))
		must(b, bare.free(ctx, there))
		<-bare.hints

		must(b, bare.take(ctx, here))
		must(b, bare.enlist(ctx, there))
		gifts = append(gifts, wake(b, bare.given, func() error { return bare.give(ctx, here) }))
		must(b, bare.free(ctx, there))
		<-bare.hints
	}
	must(b, bare.sub.Close())
	return median(floors), median(hands), median(gifts)
}

// wakeFloor wakes who waits for a token.
func wakeFloor(b *testing.B, here, there *redis.Client) float64 {
	b.Helper()
	ctx := context.Background()
	return wake(b,
		func() error { return there.BLPop(ctx, time.Minute, "token").Err() },
		func() error { return here.RPush(ctx, "token", "t").Err() })
}

// byHand is a lock of two short scripts and a bare subscriber.
type byHand struct {
	there *redis.Client
	sub   *redis.PubSub
	hints chan struct{}
}

var (
	handTake = redis.NewScript(`if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'holder', 1) redis.call('PEXPIRE', KEYS[1], 30000) return 1`)
	handGive = redis.NewScript(`redis.call('HDEL', KEYS[1], 'holder') redis.call('ZPOPMIN', KEYS[2]) redis.call('TIME')
redis.call('PUBSUB', 'NUMSUB', ARGV[1]) redis.call('HSET', KEYS[1], 'holder', 1) redis.call('PEXPIRE', KEYS[1], 30000)
redis.call('PUBLISH', ARGV[1], '0') return 1`)
	handFree = redis.NewScript(`redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0') return 1`)
)

func newByHand(b *testing.B, here, there *redis.Client) *byHand {
	b.Helper()
	ps := there.Subscribe(context.Background(), "by-hand-channel")
	h := &byHand{there: there, sub: ps, hints: make(chan struct{}, 1)}
	_, err := ps.Receive(context.Background())
	must(b, err)
	go func() {
		for {
			m, err := ps.Receive(context.Background())
			if err != nil {
				return
			}
			if _, ok := m.(*redis.Message); ok {
				h.hints <- struct{}{}
			}
		}
	}()
	return h
}

func (h *byHand) take(ctx context.Context, c *redis.Client) error {
	return handTake.Run(ctx, c, []string{"by-hand"}).Err()
}

func (h *byHand) free(ctx context.Context, c *redis.Client) error {
	return handFree.Run(ctx, c, []string{"by-hand"}, "by-hand-channel").Err()
}

// enlist puts a waiter into a list beside the lock, from which give takes it.
func (h *byHand) enlist(ctx context.Context, c *redis.Client) error {
	return c.ZAdd(ctx, "by-hand-list", redis.Z{Score: 1, Member: "waiter"}).Err()
}

func (h *byHand) give(ctx context.Context, c *redis.Client) error {
	return handGive.Run(ctx, c, []string{"by-hand", "by-hand-list"}, "by-hand-channel").Err()
}

// given waits for what give gives.
func (h *byHand) given() error {
	<-h.hints
	return nil
}

func (h *byHand) wait() error {
	<-h.hints
	return h.take(context.Background(), h.there)
}

// wake starts wait, lets it settle, and returns how long it takes to return once
// release is called, in ns.
func wake(b *testing.B, wait, release func() error) float64 {
	b.Helper()
	var wg sync.WaitGroup
	var end time.Time
	var err error
	wg.Go(func() {
		err = wait()
		end = time.Now()
	})
	time.Sleep(settle()) // until the waiter waits; measured is what comes after
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
