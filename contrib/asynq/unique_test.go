package asynq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	latchkeyasynq "github.com/latchkey-go/latchkey/contrib/asynq"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

func key(t *asynq.Task) string { return string(t.Payload()) }

// silent is a Logger for tests.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}

// Of the tasks of a key one is processed at a time, by two servers with ten workers each.
func TestUnique(t *testing.T) {
	const tasks, keys = 60, 3
	s := redistest.Start(t)
	at := map[string]*atomic.Int64{"a": {}, "b": {}, "c": {}}
	var both, keyless, failed atomic.Int64
	done := make(chan string, tasks)
	work := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		n := at[key(task)]
		if n == nil {
			keyless.Add(1)
			return nil
		}
		if n.Add(1) > 1 {
			both.Add(1)
		}
		time.Sleep(time.Millisecond) // others come meanwhile
		n.Add(-1)
		done <- key(task)
		return nil
	})
	for range 2 {
		c := locktest.NewClient(t, redistest.User(t, s.Client(t)))
		server := asynq.NewServerFromRedisClient(s.Client(t), asynq.Config{
			Concurrency: 10, Logger: silent{}, TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 10 * time.Millisecond,
			IsFailure:      latchkeyasynq.IsFailure,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
			ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
				if latchkeyasynq.IsFailure(err) {
					failed.Add(1)
				}
			}),
		})
		require.NoError(t, server.Start(latchkeyasynq.Unique(c, key, latchkey.Wait(5*time.Millisecond))(work)))
		t.Cleanup(server.Shutdown)
	}
	client := asynq.NewClientFromRedisClient(s.Client(t))
	for i := range tasks {
		_, err := client.Enqueue(asynq.NewTask("work", []byte{byte('a' + i%keys)}), asynq.MaxRetry(1))
		require.NoError(t, err)
	}
	_, err := client.Enqueue(asynq.NewTask("work", nil))
	require.NoError(t, err)
	for range tasks {
		<-done
	}
	redistest.Until(t, "the task without a key", func() bool { return keyless.Load() == 1 })
	require.Zero(t, both.Load(), "two at a time")
	require.Zero(t, failed.Load(), "failures")
}

// A refusal is told from the errors of the task, and from the refusals of its own locks.
func TestUniqueErrors(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		hold := locktest.MustLock(t, rlock.New(c, "a"))
		process := func(payload string, err error) error {
			h := latchkeyasynq.Unique(c, key, latchkey.Wait(0))(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return err }))
			return h.ProcessTask(t.Context(), asynq.NewTask("work", []byte(payload)))
		}
		err := process("a", nil)
		require.ErrorIs(t, err, latchkeyasynq.ErrBusy)
		var taken *latchkey.TakenError
		require.ErrorAs(t, err, &taken)
		require.False(t, latchkeyasynq.IsFailure(err))

		noPaper := errors.New("no paper")
		require.ErrorIs(t, process("b", noPaper), noPaper)
		_, own := rlock.New(c, "a").TryLock(t.Context())
		require.ErrorIs(t, own, latchkey.ErrNotAcquired)
		err = process("b", own)
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.NotErrorIs(t, err, latchkeyasynq.ErrBusy)
		require.True(t, latchkeyasynq.IsFailure(err))
		require.NoError(t, process("b", nil))
		require.False(t, latchkeyasynq.IsFailure(nil))
		locktest.MustUnlock(t, hold)
		require.NoError(t, process("a", nil))
	})
}

// A task stops when its lock is lost.
func TestUniqueLost(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		h := latchkeyasynq.Unique(locktest.NewClient(t, rdb), key)(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			b.Partition(rdb)
			<-ctx.Done()
			b.Heal(rdb)
			return context.Cause(ctx)
		}))
		require.ErrorIs(t, h.ProcessTask(t.Context(), asynq.NewTask("work", []byte("a"))), latchkey.ErrLeaseLost)
	})
}

func TestUniquePanics(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		require.Panics(t, func() { latchkeyasynq.Unique(nil, key) })
		require.Panics(t, func() { latchkeyasynq.Unique(c, nil) })
	})
}
