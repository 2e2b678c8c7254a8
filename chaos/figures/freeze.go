package figures

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// ghosts freezes the server, lets acquires time out, thaws the server, which then runs
// what it was sent, and looks for locks that nobody has.
func ghosts(ctx context.Context, t testing.TB, size int, f *Figure) {
	f.Claim = fmt.Sprintf("0 ghost holds after %d acquires that a frozen server kept", size)
	const at = 50
	s := redistest.Start(t)
	c, end := connect(s.Addr)
	defer end()
	tried, late, left := 0, 0, 0
	for round := 0; tried < size && ctx.Err() == nil; round++ {
		names := make([]string, at)
		for i := range names {
			names[i] = fmt.Sprintf("ghost:%d:%d", round, i)
			h, err := rlock.New(c, names[i]).Lock(ctx) // so that connections and scripts are there
			if err == nil {
				err = h.Unlock(ctx)
			}
			if err != nil {
				f.fail("before the freeze: %v", err)
				return
			}
		}
		before := s.CommandStats(t)["evalsha"]
		s.Freeze()
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, name := range names {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 60*time.Millisecond)
				defer cancel()
				h, err := rlock.New(c, name).Lock(ctx)
				mu.Lock()
				defer mu.Unlock()
				if tried++; err == nil {
					f.fail("%s was granted by a frozen server", name)
					_ = h.Unlock(ctx)
				}
			})
		}
		wg.Wait()
		s.Thaw()
		time.Sleep(700 * time.Millisecond) // the time is the point: what comes late must have time to come
		late += int(s.CommandStats(t)["evalsha"] - before)
		left += len(s.Do(t, "KEYS", "ghost:*"))
	}
	f.Seen = fmt.Sprintf("%d acquires timed out, %d scripts ran after the thaw, %d ghost holds", tried, late, left)
	if left > 0 {
		f.fail("%d ghost holds", left)
	}
	if late == 0 {
		f.fail("nothing was sent to the frozen server: this proves nothing")
	}
}

// cancels freezes the server, and measures how long calls go on after their context
// has been cancelled.
func cancels(ctx context.Context, t testing.TB, size int, f *Figure) {
	f.Claim = "a cancelled call returns within 100 ms, whatever Redis does"
	const limit = 100 * time.Millisecond
	s := redistest.Start(t)
	c, end := connect(s.Addr)
	defer end()
	waits := []struct {
		what string
		call func(context.Context, string) error
	}{
		{"rlock", func(ctx context.Context, n string) error { _, err := rlock.New(c, n).Lock(ctx); return err }},
		{"fenced", func(ctx context.Context, n string) error {
			_, err := rlock.New(c, n, rlock.Fenced()).Lock(ctx)
			return err
		}},
		{"spin", func(ctx context.Context, n string) error {
			_, err := rlock.New(c, n, rlock.Spin(rlock.Backoff{})).Lock(ctx)
			return err
		}},
		{"fairlock", func(ctx context.Context, n string) error { _, err := fairlock.New(c, n).Lock(ctx); return err }},
		{"read lock", func(ctx context.Context, n string) error { _, err := rwlock.New(c, n).ReadLock().Lock(ctx); return err }},
		{"write lock", func(ctx context.Context, n string) error {
			_, err := rwlock.New(c, n).WriteLock().Lock(ctx)
			return err
		}},
		{"group", func(ctx context.Context, n string) error {
			_, err := multilock.NewGroup(c, n, "a", "b").Lock(ctx)
			return err
		}},
		{"multilock", func(ctx context.Context, n string) error {
			_, err := multilock.New(rlock.New(c, n), rlock.New(c, n+"2")).Lock(ctx)
			return err
		}},
		{"semaphore", func(ctx context.Context, n string) error { return semaphore.New(c, n).Acquire(ctx, 1) }},
		{"permitsemaphore", func(ctx context.Context, n string) error {
			_, err := permitsemaphore.New(c, n).Acquire(ctx)
			return err
		}},
		{"countdownlatch", func(ctx context.Context, n string) error { return countdownlatch.New(c, n).Await(ctx) }},
	}
	var mu sync.Mutex
	var took []time.Duration
	var slowest string
	var stall time.Duration
	for round := 0; len(took) < size && ctx.Err() == nil; round++ {
		var wg sync.WaitGroup
		held := make([]*latchkey.Hold, 0, 1)
		if h, err := rlock.New(c, fmt.Sprintf("cancel:%d:0:0", round)).Lock(ctx); err == nil { // one that has to wait
			held = append(held, h)
		}
		bird := stage.Watch()
		freeze := time.AfterFunc(50*time.Millisecond, s.Freeze) // some ask before it, most after
		for i, x := range waits {
			for j := range 5 {
				name := fmt.Sprintf("cancel:%d:%d:%d", round, i, j)
				after := time.Duration(60+rand.IntN(300)) * time.Millisecond
				begin := time.Duration(rand.IntN(70)) * time.Millisecond
				wg.Go(func() {
					time.Sleep(begin)
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					at := make(chan time.Time, 1)
					timer := time.AfterFunc(after, func() { at <- time.Now(); cancel() })
					err := x.call(ctx, name)
					if timer.Stop() || err == nil {
						return // it did not wait for so long
					}
					late := time.Since(<-at)
					mu.Lock()
					defer mu.Unlock()
					if len(took) == 0 || late > slices.Max(took) {
						slowest = x.what
					}
					took = append(took, late)
				})
			}
		}
		wg.Wait()
		stall = max(stall, bird.Stall())
		freeze.Stop()
		s.Thaw()
		for _, h := range held {
			_ = h.Unlock(ctx)
		}
	}
	if len(took) == 0 {
		f.fail("no call was cancelled")
		return
	}
	slices.Sort(took)
	worst, p99 := took[len(took)-1], took[len(took)*99/100]
	f.Seen = fmt.Sprintf("%d cancelled calls with Redis frozen: p99 %v, max %v (%s); the machine itself stalled for up to %v",
		len(took), p99.Round(100*time.Microsecond), worst.Round(100*time.Microsecond), slowest, stall.Round(100*time.Microsecond))
	if worst-stall > limit {
		f.fail("a cancelled call of %s took %v", slowest, worst)
	}
}
