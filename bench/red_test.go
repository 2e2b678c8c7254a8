package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
)

// BenchmarkRedSilentMinority is the time to take a red-lock while two of its five
// servers are frozen, against that of one with all five well, in turn: the 99th
// percentiles, and their ratio.
func BenchmarkRedSilentMinority(b *testing.B) {
	servers := make([]*redistest.Server, 7)
	for i := range servers {
		servers[i] = redistest.Start(b)
	}
	ctx := context.Background()
	on := func(name string, servers ...*redistest.Server) *multilock.Lock {
		members := make([]latchkey.Locker, len(servers))
		for i, s := range servers {
			c := latchkey.New(s.Client(b))
			b.Cleanup(func() { _ = c.Close() }) // a frozen one cannot be asked
			members[i] = rlock.New(c, name)
		}
		return multilock.NewRed(members...)
	}
	take := func(l *multilock.Lock) time.Duration {
		start := time.Now()
		h, err := l.Lock(ctx)
		for tries := 0; err != nil && tries < 5; tries++ { // a machine that is too busy to answer in 50 ms
			h, err = l.Lock(ctx)
		}
		took := time.Since(start)
		must(b, err)
		must(b, h.Unlock(ctx))
		return took
	}
	well, hurt := on("well", servers[:5]...), on("hurt", servers[2:]...)
	take(well)
	take(hurt)
	for _, s := range servers[5:] {
		s.Freeze()
		b.Cleanup(s.Thaw)
	}
	var all, some []time.Duration
	for b.Loop() {
		for range block {
			all, some = append(all, take(well)), append(some, take(hurt))
		}
	}
	p99 := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)*99/100].Nanoseconds()) / 1e3
	}
	b.ReportMetric(0, "ns/op") // of a pair of blocks; means nothing
	b.ReportMetric(p99(all), "well-p99-µs")
	b.ReportMetric(p99(some), "silent-p99-µs")
	b.ReportMetric(p99(some)/p99(all), "ratio")
}
