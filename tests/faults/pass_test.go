package faults_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// Whatever becomes of a request that passes a fenced lock on, there is one
// holder at a time, no waiter waits for ever, and tokens grow. Some waiters
// give up; some want a lease of their own, which requires such a request; and
// one holder comes again and again.
func TestFaultPass(t *testing.T) {
	for _, act := range []redistest.Act{
		redistest.Drop, redistest.Swallow, redistest.LoseRST, redistest.LoseFIN,
		redistest.RefuseRST, redistest.Late, redistest.Hold, redistest.Twice,
	} {
		t.Run(act.String(), func(t *testing.T) {
			t.Parallel()
			r := newFaultRig(t)
			r.holdFor(faultRead + faultRead/2)
			c := r.client(t, faultRead, latchkey.WithHandOver(time.Second), latchkey.WithRecheck(faultNever))
			l := rlock.New(c, "a", rlock.Fenced())
			var n atomic.Int64
			r.proxies[0].OnCommand(func(args []string) redistest.Act {
				if locktest.Runs(args, lua.RLockPass) && n.Add(1)%10 == 5 {
					return act
				}
				return redistest.Pass
			})
			var all sync.WaitGroup
			var sec section
			var last, given atomic.Int64
			for i := range 16 {
				ctx := context.Background()
				var opts []latchkey.LockOption
				switch {
				case i == 0:
					ctx = latchkey.WithHolder(ctx)
				case i%3 == 0:
					opts = append(opts, latchkey.Lease(10*time.Second))
				}
				all.Go(func() {
					for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
						mine, cancel := ctx, context.CancelFunc(func() {})
						if i >= 12 {
							mine, cancel = context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
						}
						h, err := l.Lock(mine, opts...)
						if err != nil {
							if mine.Err() == nil {
								sec.fail(err)
							}
							cancel()
							continue
						}
						sec.pass(func() {
							if was := last.Swap(h.Token()); was >= h.Token() {
								sec.fail(fmt.Errorf("token %d after %d", h.Token(), was))
							}
						})
						given.Add(1)
						// A second run of a request that has passed the lock on finds what
						// the first has done.
						sec.fail(h.Unlock(ctx))
						cancel()
					}
				})
			}
			done := make(chan struct{})
			go func() { all.Wait(); close(done) }()
			select {
			case <-done:
			case <-time.After(15 * time.Second):
				require.FailNow(t, "stuck")
			}
			require.NoError(t, sec.err())
			require.Zero(t, sec.clashes.Load(), "two holders at once")
			require.Greater(t, r.count(act), int64(2), "the fault did not happen often, of %d passes", n.Load())
			require.Zero(t, c.Stats().Losses)
			t.Logf("%d holds, %d passes, %d faults", given.Load(), n.Load(), r.count(act))
			r.heal()
			r.gone(t, 10*time.Second)
			r.quiet(t, c)
			r.free(t, "a")
		})
	}
}
