package permitsemaphore

import (
	"context"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/async"
)

// AcquireAsync is Acquire that does not wait: the channel gets exactly one value.
// A Permit that nobody has received when its Context is done is released, and the
// context's error takes its place. The channel is closed behind an error at once,
// behind a Permit when the Permit ends.
func (s *Semaphore) AcquireAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*Permit] {
	return one(func() (*Permit, error) { return s.Acquire(ctx, opts...) })
}

// TryAcquireAsync is TryAcquire that does not wait; see AcquireAsync for the
// channel.
func (s *Semaphore) TryAcquireAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*Permit] {
	return one(func() (*Permit, error) { return s.TryAcquire(ctx, opts...) })
}

// AcquireNAsync is AcquireN that does not wait; see AcquireAsync for the channel.
// While they lie in it, the end of the first Permit takes the others along.
func (s *Semaphore) AcquireNAsync(ctx context.Context, n int, opts ...latchkey.LockOption) <-chan latchkey.Result[[]*Permit] {
	return many(func() ([]*Permit, error) { return s.AcquireN(ctx, n, opts...) })
}

// TryAcquireNAsync is TryAcquireN that does not wait; see AcquireNAsync for the
// channel.
func (s *Semaphore) TryAcquireNAsync(ctx context.Context, n int, opts ...latchkey.LockOption) <-chan latchkey.Result[[]*Permit] {
	return many(func() ([]*Permit, error) { return s.TryAcquireN(ctx, n, opts...) })
}

// ReleaseAsync is Release that does not wait. The channel gets one value and is
// closed.
func (s *Semaphore) ReleaseAsync(ctx context.Context, ids ...string) <-chan error {
	return async.Err(func() error { return s.Release(ctx, ids...) })
}

// TryReleaseAsync is TryRelease that does not wait. The channel gets one value
// and is closed.
func (s *Semaphore) TryReleaseAsync(ctx context.Context, ids ...string) <-chan latchkey.Result[int] {
	return async.Result(func() (int, error) { return s.TryRelease(ctx, ids...) })
}

// ReleaseAsync is Release that does not wait. The channel gets one value and is
// closed.
func (p *Permit) ReleaseAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return p.Release(ctx) })
}

func one(f func() (*Permit, error)) <-chan latchkey.Result[*Permit] {
	return async.Held(f, (*Permit).Context, func(ctx context.Context, p *Permit) {
		_ = p.Release(ctx) // goes on without ctx; the lease ends it at the latest
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
