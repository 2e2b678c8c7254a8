package permitsemaphore

import (
	"context"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/async"
)

// AcquireAsync starts Acquire and returns at once. The channel receives exactly
// one value. A Permit that is still in the channel when its Context is done is
// released, and the context's error replaces it. The channel is closed right
// after an error, and after a Permit when that Permit ends.
func (s *Semaphore) AcquireAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*Permit] {
	return one(func() (*Permit, error) { return s.Acquire(ctx, opts...) })
}

// TryAcquireAsync starts TryAcquire and returns at once; see AcquireAsync for
// the channel.
func (s *Semaphore) TryAcquireAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*Permit] {
	return one(func() (*Permit, error) { return s.TryAcquire(ctx, opts...) })
}

// AcquireNAsync starts AcquireN and returns at once; see AcquireAsync for the
// channel. While the Permits are still in the channel, the end of the first one
// releases all of them.
func (s *Semaphore) AcquireNAsync(ctx context.Context, n int, opts ...latchkey.LockOption) <-chan latchkey.Result[[]*Permit] {
	return many(func() ([]*Permit, error) { return s.AcquireN(ctx, n, opts...) })
}

// TryAcquireNAsync starts TryAcquireN and returns at once; see AcquireNAsync
// for the channel.
func (s *Semaphore) TryAcquireNAsync(ctx context.Context, n int, opts ...latchkey.LockOption) <-chan latchkey.Result[[]*Permit] {
	return many(func() ([]*Permit, error) { return s.TryAcquireN(ctx, n, opts...) })
}

// ReleaseAsync starts Release and returns at once. The channel receives one
// value and is then closed.
func (s *Semaphore) ReleaseAsync(ctx context.Context, ids ...string) <-chan error {
	return async.Err(func() error { return s.Release(ctx, ids...) })
}

// TryReleaseAsync starts TryRelease and returns at once. The channel receives
// one value and is then closed.
func (s *Semaphore) TryReleaseAsync(ctx context.Context, ids ...string) <-chan latchkey.Result[int] {
	return async.Result(func() (int, error) { return s.TryRelease(ctx, ids...) })
}

// ReleaseAsync starts Release and returns at once. The channel receives one
// value and is then closed.
func (p *Permit) ReleaseAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return p.Release(ctx) })
}

func one(f func() (*Permit, error)) <-chan latchkey.Result[*Permit] {
	return async.Held(f, (*Permit).Context, func(ctx context.Context, p *Permit) {
		_ = p.Release(ctx) // works although ctx is done; otherwise the lease ends the permit
	})
}

func many(f func() ([]*Permit, error)) <-chan latchkey.Result[[]*Permit] {
	life := func(permits []*Permit) context.Context {
		if len(permits) == 0 {
			return nil
		}
		return permits[0].Context()
	}
	return async.Held(f, life, func(ctx context.Context, permits []*Permit) {
		for _, p := range permits {
			_ = p.Release(ctx)
		}
	})
}
