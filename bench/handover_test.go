package bench

import (
	"context"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// BenchmarkHandOver is one lock that 64 goroutines of one process all want all
// the time, against a token that they pass by BLPOP and RPUSH.
func BenchmarkHandOver(b *testing.B) {
	const goroutines, d = 64, 300 * time.Millisecond
	for _, kind := range []struct {
		name    string
		slice   time.Duration
		options []rlock.Option
	}{
		{"memory", 10 * time.Millisecond, nil},
		{"fenced", 10 * time.Millisecond, []rlock.Option{rlock.Fenced()}},
		{"off", 0, nil},
	} {
		b.Run(kind.name, func(b *testing.B) {
			s := redistest.Start(b)
			rdb := s.Client(b, pool(goroutines))
			must(b, rdb.RPush(context.Background(), "floor", "token").Err())
			c := latchkey.New(rdb, latchkey.WithHandOver(kind.slice))
			defer func() { must(b, c.Close()) }()
			token, _ := passes(rdb, c)
			l := rlock.New(c, "ours", kind.options...)
			ours := func(ctx context.Context) error {
				h, err := l.Lock(ctx)
				if err != nil {
					return err
				}
				return h.Unlock(ctx)
			}
			var floors, all, ratios, evens, commands []float64
			for b.Loop() {
				counts, err := spin(goroutines, d, token)
				must(b, err)
				x, _ := total(counts)
				before := sent(b, s)
				counts, err = spin(goroutines, d, ours)
				must(b, err)
				y, even := total(counts)
				commands = append(commands, float64(sent(b, s)-before)/float64(y))
				floors, all = append(floors, float64(x)/d.Seconds()), append(all, float64(y)/d.Seconds())
				ratios, evens = append(ratios, float64(y)/float64(x)), append(evens, even)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(floors), "floor/s")
			b.ReportMetric(median(all), "latchkey/s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(evens), "poorest/richest")
			b.ReportMetric(median(commands), "commands/op")
		})
	}
}
