package countdownlatch

import (
	"context"

	"github.com/latchkey-go/latchkey/internal/async"
)

// AwaitAsync starts Await and returns at once. The channel receives one value
// and is then closed.
func (l *Latch) AwaitAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.Await(ctx) })
}

// AwaitSetAsync starts AwaitSet and returns at once; see AwaitAsync for the
// channel.
func (l *Latch) AwaitSetAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.AwaitSet(ctx) })
}

// CountDownAsync starts CountDown and returns at once. The channel receives one
// value and is then closed.
func (l *Latch) CountDownAsync(ctx context.Context) <-chan error {
	return async.Err(func() error { return l.CountDown(ctx) })
}
