package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

const (
	// answerWithin is how long a call tries to get a first answer.
	answerWithin = 3 * time.Second
	// waiterPatience is how long one that waits for a holder does.
	waiterPatience = 30 * time.Second
)

// A call without a wait asks a server that is loading for three seconds. It
// does not count as a waiter meanwhile.
func TestFaultPatienceOfCaller(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		waits := 0
		c := latchkey.New(env.Redis, latchkey.WithObserver(latchkey.Observer{
			WaitStarted: func(context.Context, string, string) { waits++ },
		}))
		defer c.Close()
		require.NoError(t, env.Redis.Ping(t.Context()).Err())
		env.Mini.SetError("LOADING Redis is loading the dataset in memory")
		l := rlock.New(c, "a")
		for _, acquire := range []func(context.Context, ...latchkey.LockOption) (*latchkey.Hold, error){l.Lock, l.TryLock} {
			start := time.Now()
			_, err := acquire(context.Background())
			require.True(t, redis.IsLoadingError(err), "%v", err)
			require.False(t, maybeApplied(t, err))
			require.GreaterOrEqual(t, time.Since(start), answerWithin-300*time.Millisecond)
			require.LessOrEqual(t, time.Since(start), answerWithin+300*time.Millisecond)
		}
		require.Zero(t, waits)
		require.Zero(t, env.Commands("subscribe"))
	})
}

// Waiters outlive a failover. If they give up, they do so together, not one
// after another.
func TestFaultPatienceOfWaiters(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		other := latchkey.New(env.Client())
		defer other.Close()
		h, err := rlock.New(other, "a").Lock(t.Context())
		require.NoError(t, err)
		var all sync.WaitGroup
		wait := func(want func(*latchkey.Hold, error)) {
			for range 5 {
				all.Go(func() {
					h, err := rlock.New(c, "a").Lock(context.Background())
					want(h, err)
					_ = h.Unlock(context.Background())
				})
			}
			env.Advance(time.Second)
			require.Equal(t, 5, c.Stats().Waiting)
		}

		wait(func(_ *latchkey.Hold, err error) { require.NoError(t, err) })
		link := env.Link(env.Redis)
		refuse := func(args []string) redistest.Act {
			if args[0] == "evalsha" || args[0] == "eval" {
				return redistest.RefuseRST
			}
			return redistest.Pass
		}
		link.OnCommand(refuse)
		env.Advance(waiterPatience / 2)
		require.Positive(t, link.Count(redistest.RefuseRST))
		link.OnCommand(nil)
		env.Advance(time.Second)
		require.NoError(t, h.Unlock(t.Context()))
		all.Wait()

		h, err = rlock.New(other, "a").Lock(t.Context())
		require.NoError(t, err)
		wait(func(_ *latchkey.Hold, err error) { require.Error(t, err) })
		link.OnCommand(refuse)
		start := time.Now()
		all.Wait()
		require.Greater(t, time.Since(start), waiterPatience)
		require.Less(t, time.Since(start), waiterPatience+10*time.Second)
		link.OnCommand(nil)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// With ContextTimeoutEnabled a dead connection is read no longer than its call
// takes, because other calls need it.
func TestFaultDeadConnectionIsSoonFreed(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client(func(o *redis.Options) { o.PoolSize, o.ContextTimeoutEnabled = 1, true })
		c := locktest.NewClient(t, rdb)
		l := rlock.New(c, "a")
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		env.Link(rdb).OnNext(2, "evalsha", redistest.Drop)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := l.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		require.LessOrEqual(t, time.Since(start), 1100*time.Millisecond, "go-redis itself reads for 3 s")
	})
}
