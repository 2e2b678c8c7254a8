package semaphore

import (
	"context"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/async"
)

// AcquireAsync is Acquire that does not wait. The channel gets one value and is
// closed; nil means that the permits are taken, whether anybody reads it or not.
func (s *Semaphore) AcquireAsync(ctx context.Context, n int) <-chan error {
	return async.Err(func() error { return s.Acquire(ctx, n) })
}

// TryAcquireAsync is TryAcquire that does not wait; see AcquireAsync for the
// channel.
func (s *Semaphore) TryAcquireAsync(ctx context.Context, n int, opts ...latchkey.LockOption) <-chan error {
	return async.Err(func() error { return s.TryAcquire(ctx, n, opts...) })
}

// ReleaseAsync is Release that does not wait. The channel gets one value and is
// closed.
func (s *Semaphore) ReleaseAsync(ctx context.Context, n int) <-chan error {
	return async.Err(func() error { return s.Release(ctx, n) })
}
