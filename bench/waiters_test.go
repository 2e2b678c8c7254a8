package bench

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// BenchmarkWaiters tells what a goroutine costs that waits in Lock behind others
// of its client: bytes of its stack, and of everything else, after a collection.
func BenchmarkWaiters(b *testing.B) {
	for name, opts := range map[string][]latchkey.Option{"handover": nil, "off": {latchkey.WithHandOver(0)}} {
		b.Run(name, func(b *testing.B) { benchmarkWaiters(b, opts) })
	}
}

func benchmarkWaiters(b *testing.B, opts []latchkey.Option) {
	b.Helper()
	const waiters = 2000
	s := redistest.Start(b)
	c := latchkey.New(s.Client(b), opts...)
	defer func() { must(b, c.Close()) }()
	l := rlock.New(c, "bench")
	h, err := l.Lock(context.Background())
	must(b, err)
	var stacks, heap float64
	rounds := 0
	for b.Loop() {
		rounds++
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() { _, _ = l.Lock(ctx) })
		}
		for c.Stats().Waiting < waiters {
			time.Sleep(time.Millisecond)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		stacks += float64(after.StackInuse-before.StackInuse) / waiters
		heap += float64(after.HeapInuse-before.HeapInuse) / waiters
		cancel()
		wg.Wait()
	}
	must(b, h.Unlock(context.Background()))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(stacks/float64(rounds), "stack-B/waiter")
	b.ReportMetric(heap/float64(rounds), "heap-B/waiter")
}
