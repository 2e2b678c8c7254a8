package latchkeytest_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/latchkeytest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
)

// Leases end to the millisecond, and an hour takes no time.
func TestInABubble(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := latchkeytest.NewServer(t)
		c, rdb := s.Client(t), s.Redis(t)
		lock, ctx := rlock.New(c, "job"), t.Context()

		fixed, err := lock.Lock(ctx, latchkey.Lease(10*time.Second))
		require.NoError(t, err)
		time.Sleep(10*time.Second - 1)
		require.EqualValues(t, 1, rdb.Exists(ctx, "job").Val())
		require.True(t, errEnded(fixed.Context()), "its holder has heard of it before")
		time.Sleep(time.Nanosecond)
		require.Zero(t, rdb.Exists(ctx, "job").Val())

		kept, err := lock.Lock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, kept.Context().Err())
		require.Greater(t, rdb.PTTL(ctx, "job").Val(), 19*time.Second)
		require.NoError(t, kept.Unlock(ctx))
		require.Empty(t, rdb.Keys(ctx, "*").Val())
	})
}

func errEnded(ctx context.Context) bool { return ctx.Err() != nil }

func TestOutsideOfABubble(t *testing.T) {
	c := latchkeytest.New(t)
	lock, ctx := rlock.New(c, "job"), t.Context()
	_, err := lock.Lock(ctx, latchkey.Lease(50*time.Millisecond))
	require.NoError(t, err)
	_, err = lock.TryLock(ctx)
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	h, err := lock.Lock(ctx) // the lease ends in real time
	require.NoError(t, err)
	require.NoError(t, h.Unlock(ctx))
}

// A critical section of hours: the lease is renewed all the time.
func TestDoForHours(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lock := rlock.New(latchkeytest.New(t), "nightly")
		require.NoError(t, latchkey.Do(t.Context(), lock, func(ctx context.Context) error {
			time.Sleep(time.Duration(redistest.Many(120, 20)) * time.Minute)
			return ctx.Err()
		}))
	})
}

func TestTwoClients(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := latchkeytest.NewServer(t)
		a, b := rlock.New(s.Client(t, latchkey.WithID("a")), "job"), rlock.New(s.Client(t), "job")
		ctx := t.Context()
		h, err := a.Lock(ctx)
		require.NoError(t, err)
		require.Regexp(t, `^a:\d+$`, h.HolderID())
		_, err = b.TryLock(ctx)
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)

		time.AfterFunc(7*time.Second, func() { _ = h.Unlock(ctx) })
		start := time.Now()
		h, err = b.Lock(ctx)
		require.NoError(t, err)
		require.Equal(t, 7*time.Second, time.Since(start), "a wake-up, no recheck")
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestExpire(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := latchkeytest.NewServer(t)
		a, b := rlock.New(s.Client(t), "job"), rlock.New(s.Client(t), "job")
		ctx := t.Context()
		h, err := a.Lock(ctx)
		require.NoError(t, err)
		s.Expire("job")
		other, err := b.TryLock(ctx)
		require.NoError(t, err, "others get in at once")
		start := time.Now()
		<-h.Lost()
		require.Equal(t, 10*time.Second, time.Since(start), "with the next renewal")
		require.ErrorIs(t, context.Cause(h.Context()), latchkey.ErrLeaseLost)
		require.ErrorIs(t, h.Unlock(ctx), latchkey.ErrLeaseLost)
		require.NoError(t, other.Unlock(ctx))
	})
}

func TestExpirePermits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := latchkeytest.NewServer(t)
		a, b := permitsemaphore.New(s.Client(t), "pool"), permitsemaphore.New(s.Client(t), "pool")
		ctx := t.Context()
		require.NoError(t, a.SetPermits(ctx, 2))
		permits, err := a.AcquireN(ctx, 2)
		require.NoError(t, err)
		s.Expire("pool")
		other, err := b.TryAcquireN(ctx, 2)
		require.NoError(t, err, "others get in at once")
		start := time.Now()
		<-permits[0].Lost()
		<-permits[1].Lost()
		require.Equal(t, 10*time.Second, time.Since(start), "with the next renewal")
		require.NoError(t, b.Release(ctx, other[0].ID(), other[1].ID()))
	})
}

// A semaphore of which no permit is out has no lease that could end.
func TestExpireOfNoPermits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := latchkeytest.NewServer(t)
		pool, ctx := permitsemaphore.New(s.Client(t), "pool"), t.Context()
		require.NoError(t, pool.SetPermits(ctx, 2))
		for range 2 {
			s.Expire("pool")
			permits, err := pool.TryAcquireN(ctx, 2)
			require.NoError(t, err)
			require.NoError(t, pool.Release(ctx, permits[0].ID(), permits[1].ID()))
		}
	})
}

// All is closed in the right order, with a hold left and a waiter.
func TestLeftOpen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lock := rlock.New(latchkeytest.New(t), "job")
		h, err := lock.Lock(t.Context())
		require.NoError(t, err)
		go func() { _, _ = lock.Lock(context.Background()) }()
		synctest.Wait()
		_ = h.Context()
	})
}

// One bubble after another may have more callers than go-redis has connections by
// itself: no one waits for a connection, by a timer that go-redis would keep for the next.
func TestCrowdsInBubbles(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty a sync.Pool
	for range 2 {
		bubble.Test(t, func(t *testing.T) {
			s := latchkeytest.NewServer(t)
			rdb := s.Redis(t)
			var all sync.WaitGroup
			for range 500 {
				all.Go(func() { assert.ErrorIs(t, rdb.BLPop(t.Context(), time.Second, "none").Err(), redis.Nil) })
			}
			all.Wait()
		})
	}
}

// A client costs no megabytes, though its pool is large.
func TestClientIsSmall(t *testing.T) {
	s := latchkeytest.NewServer(t)
	s.Redis(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.Redis(t)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}
