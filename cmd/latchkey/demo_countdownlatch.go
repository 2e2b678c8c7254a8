package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/countdownlatch"
)

var countdownlatchScenarios = []demoScenario{{"countdownlatch", playLatch}}

// playLatch: round by round, each worker counts one down and waits for all the
// others. None goes on before the last has counted.
func playLatch(ctx context.Context, st *stage) error {
	cs, err := st.open(st.clients)
	if err != nil {
		return err
	}
	latches := make([]*countdownlatch.Latch, len(cs))
	for i, c := range cs {
		latches[i] = countdownlatch.New(c, "latch")
	}
	st.server.used(st.server.prefix + "latch")
	for round := 0; err == nil && (round == 0 || time.Since(st.began) < st.duration); round++ {
		err = latchRound(ctx, st, latches)
	}
	return err
}

func latchRound(ctx context.Context, st *stage, latches []*countdownlatch.Latch) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	set, err := latches[0].TrySetCount(ctx, int64(st.workers))
	if err != nil {
		return err
	}
	st.violated(set)
	var counted atomic.Int64
	var wg sync.WaitGroup
	for w := range st.workers {
		wg.Go(func() {
			l := latches[w%len(latches)]
			work(int64(w)) // some come late
			counted.Add(1)
			err := l.CountDown(ctx)
			if err == nil {
				err = st.acquired(func() error { return l.Await(ctx) })
			}
			if err != nil {
				cancel(err)
				return
			}
			st.violated(counted.Load() == int64(st.workers))
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
