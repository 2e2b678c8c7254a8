package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	latchkeyasynq "github.com/latchkey-go/latchkey/contrib/asynq"
	"github.com/latchkey-go/latchkey/elect"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// The scheduler of the leader enqueues; when the leader stops, that of the other one does.
func TestRunScheduler(t *testing.T) {
	redistest.Long(t, "schedules of asynq are in seconds")
	s := redistest.Start(t)
	enqueued := make(chan int, 100)
	var stop [2]func()
	for i := range stop {
		rdb := s.Client(t)
		e := elect.New(locktest.NewClient(t, redistest.User(t, rdb)), "asynq", elect.Identity(fmt.Sprint(i)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- latchkeyasynq.RunScheduler(ctx, e, func() (*asynq.Scheduler, error) {
				s := asynq.NewSchedulerFromRedisClient(rdb, &asynq.SchedulerOpts{
					Logger:          silent{},
					PostEnqueueFunc: func(*asynq.TaskInfo, error) { enqueued <- i },
				})
				_, err := s.Register("@every 1s", asynq.NewTask("work", nil))
				return s, err
			})
		}()
		stop[i] = func() {
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		}
		if i == 0 {
			require.Equal(t, 0, <-enqueued)
		}
	}
	for range 2 {
		require.Equal(t, 0, <-enqueued)
	}
	stop[0]()
	for len(enqueued) > 0 {
		<-enqueued
	}
	require.Equal(t, 1, <-enqueued)
	stop[1]()
}

func TestRunSchedulerErrors(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		e := elect.New(locktest.NewClient(t, b.Client()), "asynq")
		noPaper := errors.New("no paper")
		require.ErrorIs(t, latchkeyasynq.RunScheduler(t.Context(), e, func() (*asynq.Scheduler, error) { return nil, noPaper }), noPaper)
		_, err := e.Leader(t.Context())
		require.ErrorIs(t, err, elect.ErrNoLeader)
		create := func() (*asynq.Scheduler, error) { return nil, nil }
		require.Panics(t, func() { _ = latchkeyasynq.RunScheduler(nil, e, create) }) //nolint:staticcheck // a nil context is the case
		require.Panics(t, func() { _ = latchkeyasynq.RunScheduler(t.Context(), nil, create) })
		require.Panics(t, func() { _ = latchkeyasynq.RunScheduler(t.Context(), e, nil) })
	})
}
