package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/latchkey-go/latchkey/pubsub"
)

// polled is how long Watch sleeps at most where no message will arrive.
const polled = 250 * time.Millisecond

// Watch calls look at once, at each message on a Redis channel, when messages begin to
// arrive, at each receive from now, and at the recheck, until ctx is done or the client is
// closed. look returns after how long it is to be called again at the latest, or 0. first,
// if it is not nil, is that of SubscribeFunc.
// Messages that come meanwhile cause one call.
func (e *Engine) Watch(ctx context.Context, channel string, now <-chan struct{}, first func(message string) bool, look func(ctx context.Context) time.Duration) {
	sub := e.notifier.SubscribeFunc(channel, first)
	defer sub.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		after := look(ctx)
		d := e.cfg.Recheck
		switch sub.State() {
		case pubsub.Denied:
			d = min(d, polled)
		case pubsub.Pending:
			d = min(d, unconfirmed)
		case pubsub.Live:
		}
		if d -= rand.N(d/4 + 1); after > 0 {
			d = min(d, after)
		}
		timer.Reset(d)
		select {
		case <-sub.C():
		case <-now:
		case <-timer.C:
		case <-ctx.Done():
			return
		case <-e.gate.Closed():
			return
		}
	}
}
