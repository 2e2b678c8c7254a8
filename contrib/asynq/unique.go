package asynq

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
)

// ErrBusy is the error of a task while another task with its key is being processed. It
// wraps the error of the lock, which may be a [latchkey.TakenError].
var ErrBusy = errors.New("asynq: a task with this key is processed")

// Unique returns a middleware that processes one task of a key at a time, on all servers
// together. It takes the lock key(task) of package rlock, which is renewed while the task
// is processed; a task whose key is empty needs no lock. Unique panics if c or key is nil.
//
// A task waits for the lock until its context ends, or for as long as latchkey.Wait says,
// and takes up a worker meanwhile. With latchkey.Wait(0) it does not wait. If it does not
// get the lock, the error is ErrBusy, and asynq tries again later. By default that counts
// as one of the task's retries. With IsFailure it does not, and a RetryDelayFunc says
// when:
//
//	asynq.Config{
//		IsFailure: latchkeyasynq.IsFailure,
//		RetryDelayFunc: func(n int, err error, t *asynq.Task) time.Duration {
//			if errors.Is(err, latchkeyasynq.ErrBusy) {
//				return 10 * time.Second
//			}
//			return asynq.DefaultRetryDelayFunc(n, err, t)
//		},
//	}
//
// The handler's context is done when the lock is lost; see [latchkey.Hold.Context]. A
// task that is done may be processed again, as always with asynq: Unique prevents only two
// at a time.
func Unique(c *latchkey.Client, key func(*asynq.Task) string, opts ...latchkey.LockOption) asynq.MiddlewareFunc {
	if c == nil {
		panic("asynq: Unique: the client is nil")
	}
	if key == nil {
		panic("asynq: Unique: the function for keys is nil")
	}
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			name := key(t)
			if name == "" {
				return next.ProcessTask(ctx, t)
			}
			called := false
			err := latchkey.Do(ctx, rlock.New(c, name), func(ctx context.Context) error {
				called = true
				return next.ProcessTask(ctx, t)
			}, opts...)
			if !called && errors.Is(err, latchkey.ErrNotAcquired) {
				return fmt.Errorf("%w: %w", ErrBusy, err)
			}
			return err
		})
	}
}

// IsFailure reports whether a task has failed: it is false for ErrBusy. It is for
// asynq.Config.
func IsFailure(err error) bool { return err != nil && !errors.Is(err, ErrBusy) }
