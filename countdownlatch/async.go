package countdownlatch

import (
	"context"

	"github.com/latchkey-go/latchkey/internal/async"
)

// AwaitAsync is Await that does not wait. The channel gets one value and is
// closed.
func (l *Latch) AwaitAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.Await(ctx) })
}

// AwaitSetAsync is AwaitSet that does not wait; see AwaitAsync for the channel.
func (l *Latch) AwaitSetAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.AwaitSet(ctx) })
}

// CountDownAsync is CountDown that does not wait. The channel gets one value and
// is closed.
func (l *Latch) CountDownAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.CountDown(ctx) })
}
