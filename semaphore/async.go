package semaphore

import (
	"context"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/async"
)

// AcquireAsync starts Acquire and returns at once. The channel receives one
// value and is then closed. nil means that the permits are taken, whether or
// not anybody receives it.
func (s *Semaphore) AcquireAsync(ctx context.Context, n int) <-chan error {
	return async.Err(func() error { return s.Acquire(ctx, n) })
}

// TryAcquireAsync starts TryAcquire and returns at once; see AcquireAsync for
// the channel.
func (s *Semaphore) TryAcquireAsync(ctx context.Context, n int, opts ...latchkey.LockOption) <-chan error {
	return async.Err(func() error { return s.TryAcquire(ctx, n, opts...) })
}

// ReleaseAsync starts Release and returns at once. The channel receives one
// value and is then closed.
func (s *Semaphore) ReleaseAsync(ctx context.Context, n int) <-chan error {
	return async.Err(func() error { return s.Release(ctx, n) })
}
