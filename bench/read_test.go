package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// BenchmarkReaders is 64 goroutines that take the read lock of one name all the
// time, against as many that have a reentrant lock each: "ratio" is of operations
// per second.
func BenchmarkReaders(b *testing.B) {
	const goroutines, d = 64, 300 * time.Millisecond
	s := redistest.Start(b)
	c := latchkey.New(s.Client(b))
	defer func() { must(b, c.Close()) }()
	round := func(l latchkey.Locker) pass {
		return func(ctx context.Context) error {
			h, err := l.Lock(ctx)
			if err != nil {
				return err
			}
			return h.Unlock(ctx)
		}
	}
	read := round(rwlock.New(c, "shared").ReadLock())
	var floors, all, ratios []float64
	for b.Loop() {
		x, err := spinEach(goroutines, d, func(i int) pass { return round(rlock.New(c, fmt.Sprint("own:", i))) })
		must(b, err)
		y, err := spinEach(goroutines, d, func(int) pass { return read })
		must(b, err)
		floors, all = append(floors, float64(x)/d.Seconds()), append(all, float64(y)/d.Seconds())
		ratios = append(ratios, float64(y)/float64(x))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(floors), "rlocks/s")
	b.ReportMetric(median(all), "readers/s")
	b.ReportMetric(median(ratios), "ratio")
}
