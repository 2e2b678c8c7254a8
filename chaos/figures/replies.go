package figures

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// counted is a call of which every effect can be counted afterwards.
type counted struct {
	what   string
	call   func(context.Context) error
	effect func(context.Context) (int64, error)

	done, unknown atomic.Int64
}

// lostReplies loses the answers of scripts that have run, on the way of half of them,
// and counts the effects of all calls: one for each that succeeded, at most one for
// each whose caller was told that he cannot know.
func lostReplies(ctx context.Context, t testing.TB, size int, f *Figure) {
	f.Claim = fmt.Sprintf("%d lost replies, 0 double effects", size)
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	c, end := connect(p.Addr())
	defer end()
	straight, endStraight := connect(s.Addr)
	defer endStraight()

	const count = 1 << 40
	_, err := countdownlatch.New(straight, "replies:latch").TrySetCount(ctx, count)
	if err == nil {
		_, err = permitsemaphore.New(straight, "replies:permits").TrySetPermits(ctx, 1<<30)
	}
	if err != nil {
		f.fail("setting up: %v", err)
		return
	}
	holder := latchkey.WithHolder(ctx)
	all := []*counted{{
		what: "Release of a semaphore",
		call: func(ctx context.Context) error { return semaphore.New(c, "replies:sem").Release(ctx, 1) },
		effect: func(ctx context.Context) (int64, error) {
			n, err := semaphore.New(straight, "replies:sem").AvailablePermits(ctx)
			return int64(n), err
		},
	}, {
		what: "CountDown",
		call: func(ctx context.Context) error { return countdownlatch.New(c, "replies:latch").CountDown(ctx) },
		effect: func(ctx context.Context) (int64, error) {
			n, err := countdownlatch.New(straight, "replies:latch").Count(ctx)
			return count - n, err
		},
	}, {
		what: "Acquire of a permit",
		call: func(ctx context.Context) error {
			_, err := permitsemaphore.New(c, "replies:permits").Acquire(ctx, permitsemaphore.Permanent())
			return err
		},
		effect: func(ctx context.Context) (int64, error) {
			n, err := permitsemaphore.New(straight, "replies:permits").AcquiredPermits(ctx)
			return int64(n), err
		},
	}, {
		what: "re-entry",
		call: func(context.Context) error { _, err := rlock.New(c, "replies:lock").Lock(holder); return err },
		effect: func(ctx context.Context) (int64, error) {
			n, err := rlock.New(c, "replies:lock").HoldCount(holder)
			return int64(n), err
		},
	}}
	r := rand.New(rand.NewPCG(1, 1))
	p.OnCommand(func(args []string) redistest.Act {
		if strings.HasPrefix(strings.ToLower(args[0]), "eval") && r.IntN(2) == 0 {
			return [...]redistest.Act{redistest.LoseFIN, redistest.LoseRST}[r.IntN(2)]
		}
		return redistest.Pass
	})
	lost := func() int64 { return p.Count(redistest.LoseFIN) + p.Count(redistest.LoseRST) }
	var wg sync.WaitGroup
	for i, x := range all {
		workers := 8
		if i == 3 {
			workers = 1 // one holder makes one call at a time
		}
		for range workers {
			wg.Go(func() {
				for lost() < int64(size) && ctx.Err() == nil {
					err := x.call(ctx)
					var lk *latchkey.Error
					switch {
					case err == nil:
						x.done.Add(1)
					case errors.As(err, &lk) && lk.MaybeApplied():
						x.unknown.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	p.OnCommand(nil)
	// What nobody knows the outcome of is undone meanwhile, or asked once more. The time
	// is the point: a second effect that comes late must have time to come.
	time.Sleep(2 * time.Second)
	var calls, doubles int64
	var text []string
	for _, x := range all {
		n, err := x.effect(ctx)
		done, unknown := x.done.Load(), x.unknown.Load()
		calls += done + unknown
		switch {
		case err != nil:
			f.fail("%s: %v", x.what, err)
		case n < done || n > done+unknown:
			f.fail("%s: %d effects of %d calls, and %d more without an answer", x.what, n, done, unknown)
			doubles += max(0, n-done-unknown)
		}
		text = append(text, fmt.Sprintf("%s %d", x.what, done))
	}
	f.Seen = fmt.Sprintf("%d replies lost in %d calls (%s), %d double effects", lost(), calls, strings.Join(text, ", "), doubles)
	if lost() < int64(size) {
		f.fail("only %d replies were lost", lost())
	}
}
