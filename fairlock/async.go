package fairlock

import (
	"context"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/async"
)

// LockAsync is Lock that does not wait: the channel gets exactly one value. A
// Hold that nobody has received when ctx is done is unlocked, and ctx's error
// takes its place. The channel is closed behind an error at once, behind a Hold
// when the Hold ends.
func (l *Lock) LockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return l.Lock(ctx, opts...) })
}

// TryLockAsync is TryLock that does not wait; see LockAsync for the channel.
func (l *Lock) TryLockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold] {
	return async.Hold(func() (*latchkey.Hold, error) { return l.TryLock(ctx, opts...) })
}

// UnlockAsync is Unlock that does not wait. The channel gets one value and is
// closed.
func (l *Lock) UnlockAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.Unlock(ctx) })
}
