package figures

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// handOffs passes locks between clients by messages, while the connections that bring
// the messages are killed again and again.
func handOffs(ctx context.Context, t testing.TB, size int, f *Figure) {
	const recheck, slack = 500 * time.Millisecond, 100 * time.Millisecond
	f.Claim = fmt.Sprintf("%d hand-offs with the notifier killed every 50 to 500 ms; no wait before a free lock longer than the recheck (%v) and %v", size, recheck, slack)
	s := redistest.Start(t)
	const clients, locks, waiters = 3, 4, 2
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var done, kills atomic.Int64
	least := int64(max(3, size/1000)) // as many are killed, however quick the hand-offs are
	var worst atomic.Int64
	free := make([]atomic.Int64, locks) // since when, by Unlock's call
	start := time.Now()
	bird := stage.Watch()

	var wg sync.WaitGroup
	var ends []func()
	for range clients {
		c, end := connect(s.Addr, latchkey.WithRecheck(recheck), latchkey.WithHandOver(0))
		ends = append(ends, end)
		for i := range locks {
			l := rlock.New(c, fmt.Sprintf("handoff:%d", i))
			for range waiters {
				wg.Go(func() {
					for done.Load() < int64(size) || kills.Load() < least {
						h, err := l.Lock(ctx)
						if err != nil {
							continue
						}
						if since := free[i].Swap(0); since != 0 {
							done.Add(1)
							wait := int64(time.Since(start)) - since
							for old := worst.Load(); wait > old && !worst.CompareAndSwap(old, wait); old = worst.Load() {
							}
						}
						free[i].Store(int64(time.Since(start)))
						_ = h.Unlock(ctx)
					}
				})
			}
		}
	}
	var killer sync.WaitGroup
	killer.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(time.Duration(50+rand.IntN(450)) * time.Millisecond):
			case <-ctx.Done():
				return
			}
			n, _ := strconv.ParseInt(s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")[0], 10, 64)
			kills.Add(n)
		}
	})
	wg.Wait()
	cancel()
	killer.Wait()
	stall := bird.Stall()
	for _, end := range ends {
		end()
	}
	w := time.Duration(worst.Load())
	f.Seen = fmt.Sprintf("%d hand-offs, %d notifiers killed, longest wait %v; the machine itself stalled for up to %v",
		done.Load(), kills.Load(), w.Round(100*time.Microsecond), stall.Round(100*time.Microsecond))
	if w-stall > recheck+slack {
		f.fail("somebody waited for %v before a free lock", w)
	}
	if kills.Load() < least {
		f.fail("too few notifiers were killed")
	}
}
