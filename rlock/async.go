package rlock

import (
	"context"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/async"
)

// LockAsync starts Lock and returns at once. The channel receives exactly one
// value. A Hold that is still in the channel when ctx is done is unlocked, and
// ctx's error replaces it. The channel is closed right after an error, and
// after a Hold when that Hold ends.
func (l *Lock) LockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return l.Lock(ctx, opts...) })
}

// TryLockAsync starts TryLock and returns at once; see LockAsync for the
// channel.
func (l *Lock) TryLockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return l.TryLock(ctx, opts...) })
}

// UnlockAsync starts Unlock and returns at once. The channel receives one value
// and is then closed.
func (l *Lock) UnlockAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.Unlock(ctx) })
}
