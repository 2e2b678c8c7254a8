package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// instant is a hook that answers the scripts of a free lock itself and at once.
type instant struct{}

func (instant) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errNoServer }
}

func (instant) ProcessHook(redis.ProcessHook) redis.ProcessHook { return answer }

func (instant) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errNoServer }
}

var (
	errNoServer = errors.New("there is no server")
	answers     = map[any]any{ // ready, so that they cost nothing
		lua.RLockAcquire.SHA: time.Now().UnixMilli(),
		lua.RLockRelease.SHA: int64(1),
	}
)

func answer(_ context.Context, cmd redis.Cmder) error {
	called, ok := cmd.(interface{ SetVal(v any) })
	v := answers[cmd.Args()[1]]
	if !ok || v == nil {
		return fmt.Errorf("%w that answers %v", errNoServer, cmd.Args())
	}
	called.SetVal(v)
	return nil
}

// plain is what a client would find out by asking a server.
var plain = latchkey.WithPubSub(latchkey.PubSubPlain)

// instantClient returns a client without a server.
func instantClient(b *testing.B) *redis.Client {
	b.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "none", ContextTimeoutEnabled: true})
	b.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(instant{})
	return rdb
}

// BenchmarkCost is what a pair of Lock and Unlock costs but for Redis and the way
// there: a hook answers each script. "pair" has a context that can be cancelled, "floor"
// is go-redis's part of it, two commands of as many arguments.
func BenchmarkCost(b *testing.B) {
	b.Run("pair", func(b *testing.B) {
		f := lockPair(b, instantClient(b), plain)
		b.ReportAllocs()
		for b.Loop() {
			f()
		}
	})
	b.Run("floor", func(b *testing.B) {
		rdb, ctx := instantClient(b), context.Background()
		holder, now := fmt.Sprint("holder:", b.N), time.Now().UnixMilli()
		b.ReportAllocs()
		for b.Loop() {
			err := rdb.EvalSha(ctx, lua.RLockAcquire.SHA, []string{"ours"}, holder, 1, 30000, now, 6000).Err()
			if err == nil {
				err = rdb.EvalSha(ctx, lua.RLockRelease.SHA, []string{"ours"}, holder, 0, 0, 0, "channel", "BOTH").Err()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCores has two goroutines lock a name each, against a hook that answers, on
// one processor and on two in turn: "ratio" is by how much two do more. It is at most 2,
// and less on a machine that is not alone.
func BenchmarkCores(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("one processor")
	}
	const d = 300 * time.Millisecond
	c := latchkey.New(instantClient(b), plain)
	b.Cleanup(func() { must(b, c.Close()) })
	pairs := func(i int) pass {
		l := rlock.New(c, fmt.Sprint("name:", i))
		return func(ctx context.Context) error {
			h, err := l.Lock(ctx)
			if err != nil {
				return err
			}
			return h.Unlock(ctx)
		}
	}
	// What two goroutines on two processors do more that share nothing.
	spinning := func(i int) pass {
		sink := &sinks[i]
		return func(context.Context) error {
			for range 1000 {
				sink.n = sink.n*31 + 1
			}
			return nil
		}
	}
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	on := func(procs int, p func(i int) pass) float64 {
		runtime.GOMAXPROCS(procs)
		n, err := spinEach(2, d, p)
		must(b, err)
		return float64(n) / d.Seconds()
	}
	var ones, twos, ratios, most []float64
	for b.Loop() {
		x, y := on(1, pairs), on(2, pairs)
		ones, twos, ratios = append(ones, x), append(twos, y), append(ratios, y/x)
		x, y = on(1, spinning), on(2, spinning)
		most = append(most, y/x)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ones), "one/s")
	b.ReportMetric(median(twos), "two/s")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(most), "ratio-without-library")
}

// sinks lie in cache lines of their own.
var sinks [2]struct {
	n uint64
	_ [120]byte
}

// counting is a hook that counts commands and goes on to Redis.
type counting struct{ n atomic.Int64 }

func (*counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmd)
	}
}

func (h *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// BenchmarkHook is Lock and Unlock of free locks, a name for each goroutine, with a hook
// that counts and without one: "ratio" is that of the rates.
func BenchmarkHook(b *testing.B) {
	const d = 300 * time.Millisecond
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := redistest.Start(b)
			var hook counting
			locks := func(hooks ...redis.Hook) func(i int) pass {
				rdb := s.Client(b, inTime, func(o *redis.Options) { o.PoolSize = 20 })
				for _, h := range hooks {
					rdb.AddHook(h)
				}
				c := latchkey.New(rdb)
				b.Cleanup(func() { must(b, c.Close()) })
				who := fmt.Sprint(len(hooks), ":")
				return func(i int) pass {
					l := rlock.New(c, fmt.Sprint("name:", who, i))
					return func(ctx context.Context) error {
						h, err := l.Lock(ctx)
						if err != nil {
							return err
						}
						return h.Unlock(ctx)
					}
				}
			}
			without, with := locks(), locks(&hook)
			var rates, all, ratios []float64
			for b.Loop() {
				x, err := spinEach(n, d, without)
				must(b, err)
				y, err := spinEach(n, d, with)
				must(b, err)
				rates, all = append(rates, float64(x)/d.Seconds()), append(all, float64(y)/d.Seconds())
				ratios = append(ratios, float64(y)/float64(x))
			}
			if hook.n.Load() == 0 {
				b.Fatal("the hook saw nothing")
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(rates), "without/s")
			b.ReportMetric(median(all), "with/s")
			b.ReportMetric(median(ratios), "ratio")
		})
	}
}
