package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// BenchmarkNames is Lock and Unlock of free locks by many goroutines, a name
// each, all the time, against the floor: "ratio" is of operations per second.
func BenchmarkNames(b *testing.B) {
	const d = 300 * time.Millisecond
	for _, n := range []int{1, 2, 4, 8, 16, 64, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := redistest.Start(b)
			rdb := s.Client(b, func(o *redis.Options) { o.PoolSize = 20 })
			c := latchkey.New(rdb)
			defer func() { must(b, c.Close()) }()
			floor := func(i int) pass {
				key := fmt.Sprint("floor:", i)
				return func(ctx context.Context) error {
					if err := rdb.SetNX(ctx, key, "token", lease).Err(); err != nil {
						return err
					}
					return compareAndDelete.Run(ctx, rdb, []string{key}, "token").Err()
				}
			}
			ours := func(i int) pass {
				l := rlock.New(c, fmt.Sprint("name:", i))
				return func(ctx context.Context) error {
					h, err := l.Lock(ctx)
					if err != nil {
						return err
					}
					return h.Unlock(ctx)
				}
			}
			var floors, all, ratios []float64
			for b.Loop() {
				x, err := spinEach(n, d, floor)
				must(b, err)
				y, err := spinEach(n, d, ours)
				must(b, err)
				floors, all = append(floors, float64(x)/d.Seconds()), append(all, float64(y)/d.Seconds())
				ratios = append(ratios, float64(y)/float64(x))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(floors), "floor/s")
			b.ReportMetric(median(all), "latchkey/s")
			b.ReportMetric(median(ratios), "ratio")
		})
	}
}
