package demo

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/countdownlatch"
)

var countdownlatchScenarios = []scenario{{"countdownlatch", playLatch}}

// playLatch makes each worker, in each round, count down and wait for all the
// others. None continues before the last has counted down.
func playLatch(ctx context.Context, st *stage.Stage) error {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	latches := make([]*countdownlatch.Latch, len(cs))
	for i, c := range cs {
		latches[i] = countdownlatch.New(c, "latch")
	}
	st.Used(st.Key("latch"))
	for round := 0; err == nil && (round == 0 || !st.Over()); round++ {
		err = latchRound(ctx, st, latches)
	}
	return err
}

func latchRound(ctx context.Context, st *stage.Stage, latches []*countdownlatch.Latch) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	set, err := latches[0].TrySetCount(ctx, int64(st.Workers))
	if err != nil {
		return err
	}
	st.Violated(set)
	var counted atomic.Int64
	var wg sync.WaitGroup
	for w := range st.Workers {
		wg.Go(func() {
			l := latches[w%len(latches)]
			work(int64(w)) // some come late
			counted.Add(1)
			err := l.CountDown(ctx)
			if err == nil {
				err = st.Acquired(func() error { return l.Await(ctx) })
			}
			if err != nil {
				cancel(err)
				return
			}
			st.Violated(counted.Load() == int64(st.Workers))
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
