package gocron_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	latchkeygocron "github.com/latchkey-go/latchkey/contrib/gocron"
	"github.com/latchkey-go/latchkey/elect"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// One Elector leads, and the other one when the first has stopped.
func TestElector(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		var electors [2]*latchkeygocron.Elector
		var stop [2]func()
		for i := range electors {
			e := latchkeygocron.NewElector(elect.New(locktest.NewClient(t, b.Client()), "jobs", elect.Identity(fmt.Sprint(i))))
			require.ErrorIs(t, e.IsLeader(t.Context()), elect.ErrNotLeader, "it does not stand")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx) }()
			electors[i], stop[i] = e, func() {
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
			}
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		for i := range 2 {
			require.NoError(t, electors[i].IsLeader(t.Context()))
			require.ErrorIs(t, electors[1-i].IsLeader(t.Context()), elect.ErrNotLeader)
			stop[i]()
			time.Sleep(100 * time.Millisecond)
		}
		require.Panics(t, func() { latchkeygocron.NewElector(nil) })
	})
}

// A scheduler that does not lead runs nothing.
func TestElectorOfAScheduler(t *testing.T) {
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	ran := [2]chan bool{make(chan bool, 1000), make(chan bool, 1000)}
	ended := make(chan error, 1)
	var schedulers [2]gocron.Scheduler
	for i := range ran {
		e := latchkeygocron.NewElector(elect.New(locktest.NewClient(t, redistest.User(t, server.Client(t))), "jobs", elect.Identity(fmt.Sprint(i))))
		schedulers[i] = start(t, gocron.DurationJob(10*time.Millisecond), func() { ran[i] <- true }, gocron.WithDistributedElector(e))
		if i == 0 {
			go func() { ended <- e.Run(ctx) }()
		}
	}
	for range 10 {
		<-ran[0]
	}
	for _, s := range schedulers {
		require.NoError(t, s.Shutdown())
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Empty(t, ran[1])
}
