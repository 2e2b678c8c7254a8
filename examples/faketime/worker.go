// Package faketime is a worker and its unit test, which needs no Redis and in
// which an hour takes no time.
package faketime

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey"
)

// Watch calls look every minute for as long as it holds the lock, and returns when
// it is lost or ctx is done.
func Watch(ctx context.Context, lock latchkey.Locker, look func()) error {
	return latchkey.Do(ctx, lock, func(ctx context.Context) error {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-tick.C:
				look()
			}
		}
	})
}
