package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/flight"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// BenchmarkFlightHit is a flight.Do that finds its value of 100 bytes, against a GET of as
// many. They take turns, one by one: "p99-ratio" is of the 99th percentiles of 20,000 each,
// the median over the rounds.
func BenchmarkFlightHit(b *testing.B) {
	const n = 20_000
	s := redistest.Start(b)
	rdb := s.Client(b, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	c := latchkey.New(rdb)
	defer func() { must(b, c.Close()) }()
	ctx := b.Context()
	raw := flight.Codec(
		func(v any) ([]byte, error) { return v.([]byte), nil },
		func(data []byte, v any) error { *v.(*[]byte) = data; return nil },
	)
	value := make([]byte, 100)
	must(b, rdb.Set(ctx, "value", value, time.Hour).Err())
	hit := func() error {
		_, _, err := flight.Do(ctx, c, "value", func(context.Context) ([]byte, error) { return value, nil }, flight.TTL(time.Hour), raw)
		return err
	}
	must(b, hit())
	get := func() error { return rdb.Get(ctx, "value").Err() }
	timed := func(f func() error) float64 {
		start := time.Now()
		must(b, f())
		return float64(time.Since(start).Nanoseconds()) / 1e3
	}
	var p50s, p99s, gets, hits []float64
	for b.Loop() {
		var x, y []float64
		for range n {
			x, y = append(x, timed(get)), append(y, timed(hit))
		}
		gets, hits = append(gets, percentile(x, 99)), append(hits, percentile(y, 99))
		p50s, p99s = append(p50s, percentile(y, 50)/percentile(x, 50)), append(p99s, percentile(y, 99)/percentile(x, 99))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(gets), "get-p99-µs")
	b.ReportMetric(median(hits), "hit-p99-µs")
	b.ReportMetric(median(p50s), "p50-ratio")
	b.ReportMetric(median(p99s), "p99-ratio")
}

// percentile returns the value below which p per cent of xs are.
func percentile(xs []float64, p int) float64 {
	slices.Sort(xs)
	return xs[len(xs)*p/100]
}
