package countdownlatch_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// set begins a count of n.
func set(t testing.TB, l *countdownlatch.Latch, n int64) {
	t.Helper()
	ok, err := l.TrySetCount(context.Background(), n)
	require.NoError(t, err)
	require.True(t, ok)
}

func count(t testing.TB, l *countdownlatch.Latch) int64 {
	t.Helper()
	n, err := l.Count(context.Background())
	require.NoError(t, err)
	return n
}

func TestCount(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	c := locktest.NewClient(t, rdb)
	ctx := t.Context()
	l := countdownlatch.New(c, "l")
	require.Equal(t, "l", l.Name())
	require.NoError(t, l.Await(ctx), "before a count was begun, as with Redisson")
	require.Zero(t, count(t, l))
	require.NoError(t, l.CountDown(ctx), "no count is running")
	require.Empty(t, rdb.Keys(ctx, "*").Val())

	for range 3 { // reuse
		set(t, l, 2)
		ok, err := l.TrySetCount(ctx, 5)
		require.NoError(t, err)
		require.False(t, ok)
		require.EqualValues(t, 2, count(t, l))
		require.NoError(t, l.CountDown(ctx))
		require.Equal(t, "1", rdb.Get(ctx, "l").Val())
		waiter := l.AwaitAsync(ctx)
		redistest.Until(t, "a waiter", func() bool { return c.Stats().Waiting == 1 })
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		require.NoError(t, l.CountDown(cancelled), "it goes on without its context")
		require.NoError(t, locktest.Receive(t, "the end", waiter))
		require.Zero(t, rdb.Exists(ctx, "l").Val())
	}
	require.NoError(t, l.CountDown(ctx))
	require.Zero(t, rdb.Exists(ctx, "l").Val())

	ok, err := l.Delete(ctx)
	require.NoError(t, err)
	require.False(t, ok)
}

func TestBadArguments(t *testing.T) {
	c := locktest.NewClient(t, redistest.Start(t).Client(t))
	l := countdownlatch.New(c, "l")
	for _, n := range []int64{0, -1, math.MaxInt64} {
		_, err := l.TrySetCount(t.Context(), n)
		var e *latchkey.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "countdownlatch", e.Kind)
	}
	require.PanicsWithValue(t, "countdownlatch: New: the client is nil", func() { countdownlatch.New(nil, "s") })
	require.PanicsWithValue(t, "countdownlatch: New: the name is empty", func() { countdownlatch.New(c, "") })
	set(t, l, 1)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Await(cancelled), context.Canceled)
	bounded, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := l.Await(bounded)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var e *latchkey.Error
	require.ErrorAs(t, err, &e)
	require.False(t, e.MaybeApplied(), "to look changes nothing")
}

func TestKeyConflict(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	require.NoError(t, rdb.HSet(ctx, "l", "a", 1).Err())
	l := countdownlatch.New(locktest.NewClient(t, rdb), "l")
	_, err := l.TrySetCount(ctx, 1)
	require.ErrorIs(t, err, latchkey.ErrKeyConflict)
	_, err = l.Count(ctx)
	require.ErrorIs(t, err, latchkey.ErrKeyConflict)
	_, err = l.Delete(ctx)
	require.ErrorIs(t, err, latchkey.ErrKeyConflict)
	require.ErrorIs(t, l.CountDown(ctx), latchkey.ErrKeyConflict)
	require.ErrorIs(t, l.Await(ctx), latchkey.ErrKeyConflict)
	require.Equal(t, []string{"l"}, rdb.Keys(ctx, "*").Val())
}

// A key that is not a count is reported as such, at once.
func TestNoCount(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	l := countdownlatch.New(locktest.NewClient(t, rdb), "l")
	for _, value := range []string{"text", "1.5"} {
		require.NoError(t, rdb.Set(t.Context(), "l", value, 0).Err())
		start := time.Now()
		_, err := l.Count(t.Context())
		_, setErr := l.TrySetCount(t.Context(), 1)
		_, deleteErr := l.Delete(t.Context())
		for _, err := range []error{err, l.Await(t.Context()), l.CountDown(t.Context()), setErr, deleteErr} {
			require.ErrorIs(t, err, latchkey.ErrKeyConflict)
			require.ErrorContains(t, err, "not an integer")
			var e *latchkey.Error
			require.ErrorAs(t, err, &e)
			require.False(t, e.MaybeApplied())
		}
		require.Less(t, time.Since(start), time.Second)
		require.Equal(t, value, rdb.Get(t.Context(), "l").Val(), "it is nobody's to end")
	}
}

// A count that Java has begun and that is too large for a script still works.
func TestLargestCount(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	l := countdownlatch.New(locktest.NewClient(t, rdb), "l")
	require.NoError(t, rdb.Set(t.Context(), "l", int64(math.MaxInt64), 0).Err())
	require.Equal(t, int64(1<<53), count(t, l))
	bounded, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, l.Await(bounded), context.DeadlineExceeded)
}

func TestDeleteReleases(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		l := countdownlatch.New(c, "l")
		set(t, l, 7)
		waiter := l.AwaitAsync(t.Context())
		env.Advance(time.Second)
		other := countdownlatch.New(locktest.NewClient(t, env.Client()), "l")
		start := time.Now()
		ok, err := other.Delete(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, <-waiter)
		require.Zero(t, time.Since(start))
		env.Advance(time.Minute)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val(), "nothing is left")
	})
}

// CL-04: waiters of one count are not held by the next, however soon it begins.
// Waiters of the next count are not released by the end of the first.
func TestNextCount(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		l, other := countdownlatch.New(c, "l"), countdownlatch.New(locktest.NewClient(t, env.Client()), "l")
		set(t, l, 1)
		old := []<-chan error{l.AwaitAsync(ctx), l.AwaitAsync(ctx), l.AwaitAsync(ctx)}
		env.Advance(time.Second)
		env.Partition(env.Redis) // the waiters hear of nothing
		require.NoError(t, other.CountDown(ctx))
		set(t, other, 1)
		later := l.AwaitAsync(ctx) // of the second count
		synctest.Wait()
		env.Heal(env.Redis)
		for _, w := range old {
			require.NoError(t, <-w)
		}
		env.Advance(time.Minute)
		require.Empty(t, later)
		require.EqualValues(t, 1, count(t, other))
		require.NoError(t, other.CountDown(ctx))
		require.NoError(t, <-later)
	})
}

// A waiter that comes while others wait already, and while nobody has asked for
// some time, is released by the end of the running count too.
func TestNextCountForOneWhoComesLater(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		l, other := countdownlatch.New(c, "l"), countdownlatch.New(locktest.NewClient(t, env.Client()), "l")
		set(t, l, 1)
		waiting := []<-chan error{l.AwaitAsync(ctx)}
		for range 3 {
			env.Advance(time.Second)
			waiting = append(waiting, l.AwaitAsync(ctx))
			synctest.Wait()
		}
		env.Partition(env.Redis) // the waiters hear of nothing
		require.NoError(t, other.CountDown(ctx))
		set(t, other, 1)
		env.Heal(env.Redis)
		env.Advance(time.Minute)
		for i, w := range waiting {
			require.Len(t, w, 1, "%d", i)
			require.NoError(t, <-w)
		}
	})
}

// The same if the waiter that asked for all has given up meanwhile. A waiter
// that came after its last request waits for the running count.
func TestNextCountBehindOneWhoGaveUp(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		l, other := countdownlatch.New(c, "l"), countdownlatch.New(locktest.NewClient(t, env.Client()), "l")
		set(t, l, 1)
		first, cancel := context.WithCancel(t.Context())
		head := l.AwaitAsync(first)
		synctest.Wait()
		next := []<-chan error{l.AwaitAsync(t.Context()), l.AwaitAsync(t.Context())}
		env.Advance(time.Second)
		env.Partition(env.Redis) // the waiters hear of nothing
		require.NoError(t, other.CountDown(t.Context()))
		set(t, other, 1)
		later := l.AwaitAsync(t.Context()) // of the second count
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-head, context.Canceled)
		env.Heal(env.Redis)
		env.Advance(time.Minute)
		for i, w := range next {
			require.Len(t, w, 1, "%d", i)
			require.NoError(t, <-w)
		}
		require.Empty(t, later)
		require.NoError(t, other.CountDown(t.Context()))
		require.NoError(t, <-later)
	})
}

// A server whose clock is set back remembers an end of a count in the future.
// It does not release waiters of a later count, and the end of that count is
// still detected.
func TestClockSetBack(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		l, other := countdownlatch.New(c, "l"), countdownlatch.New(locktest.NewClient(t, env.Client()), "l")
		set(t, l, 1)
		ahead := time.Now().Add(10 * time.Minute).UnixMicro()
		require.NoError(t, env.Redis.Set(ctx, "latchkey_ended:{l}", ahead, time.Hour).Err())
		limit, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		w := l.AwaitAsync(limit)
		env.Advance(time.Minute)
		require.Empty(t, w)
		env.Partition(env.Redis) // the waiter hears of nothing
		require.NoError(t, other.CountDown(ctx))
		set(t, other, 1)
		env.Heal(env.Redis)
		require.NoError(t, <-w)
	})
}

func TestAwaitSet(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		l, other := countdownlatch.New(c, "l"), countdownlatch.New(locktest.NewClient(t, env.Client()), "l")
		early := []<-chan error{l.AwaitSetAsync(ctx), l.AwaitSetAsync(ctx)}
		env.Advance(time.Minute)
		require.Empty(t, early[0])
		set(t, other, 1)
		env.Advance(time.Minute)
		require.Empty(t, early[0])
		late := l.AwaitSetAsync(ctx)
		env.Advance(time.Second)
		start := time.Now()
		require.NoError(t, other.CountDown(ctx))
		for _, w := range append(early, late) {
			require.NoError(t, <-w)
		}
		require.Zero(t, time.Since(start))

		// A count that begins and ends between two looks was there all the same.
		quick := l.AwaitSetAsync(ctx)
		env.Advance(time.Second)
		env.Partition(env.Redis)
		set(t, other, 1)
		require.NoError(t, other.CountDown(ctx))
		env.Heal(env.Redis)
		require.NoError(t, <-quick)

		// So it was when the next one runs already.
		for range 3 {
			early = append(early, l.AwaitSetAsync(ctx))
		}
		early = early[2:]
		env.Advance(time.Second)
		env.Partition(env.Redis)
		set(t, other, 1)
		require.NoError(t, other.CountDown(ctx))
		set(t, other, 1)
		late = l.AwaitSetAsync(ctx)
		synctest.Wait()
		env.Heal(env.Redis)
		env.Advance(time.Minute)
		for i, w := range early {
			require.Len(t, w, 1, "%d", i)
			require.NoError(t, <-w)
		}
		require.Empty(t, late)
		require.NoError(t, other.CountDown(ctx))
		require.NoError(t, <-late)
	})
}

// A count that ends as soon as AwaitSet has seen its begin is not missed, even
// if the next count runs when AwaitSet asks again.
func TestAwaitSetBetweenItsWaits(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		other := countdownlatch.New(c, "l")
		rdb := env.Client()
		l := countdownlatch.New(locktest.NewClient(t, rdb), "l")
		waiters := []<-chan error{l.AwaitSetAsync(ctx), l.AwaitSetAsync(ctx)}
		env.Advance(time.Second)
		var once sync.Once
		locktest.AfterScripts(rdb, func(answer any) {
			if st, ok := answer.([]any); ok && len(st) == 4 && st[1] == int64(1) { // a count is running
				once.Do(func() {
					assert.NoError(t, other.CountDown(ctx))
					set(t, other, 1)
				})
			}
		})
		set(t, other, 1)
		env.Advance(time.Second)
		for _, w := range waiters {
			require.Len(t, w, 1)
			require.NoError(t, <-w)
		}
		require.EqualValues(t, 1, count(t, other))
	})
}

// A lost message costs a recheck. A broken connection for wake-ups costs
// nothing.
func TestLostMessages(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		l := countdownlatch.New(c, "l")
		set(t, l, 1)
		waiter := l.AwaitAsync(ctx)
		env.Advance(time.Second)
		start := time.Now()
		require.NoError(t, env.Redis.Del(ctx, "l").Err()) // and no message
		require.NoError(t, <-waiter)
		require.LessOrEqual(t, time.Since(start), 5*time.Second)
	})
}

// Polling works too, because SUBSCRIBE may be denied.
func TestPolling(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, _ *latchkey.Client) {
		l := countdownlatch.New(locktest.NewClient(t, env.Client(), latchkey.WithPubSub(latchkey.Polling)), "l")
		set(t, l, 1)
		waiter := l.AwaitAsync(t.Context())
		env.Advance(time.Minute)
		start := time.Now()
		require.NoError(t, l.CountDown(t.Context()))
		require.NoError(t, <-waiter)
		require.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
	})
}

// CL-02: a count-down between the request and the subscription is not missed.
func TestCountDownAtAnyMoment(t *testing.T) {
	srv := redistest.Start(t)
	here, there := locktest.NewClient(t, srv.Client(t)), locktest.NewClient(t, srv.Client(t))
	l, other := countdownlatch.New(here, "l"), countdownlatch.New(there, "l")
	end := time.Now().Add(2 * time.Second)
	rounds := 0
	for ; time.Now().Before(end); rounds++ {
		set(t, other, 1)
		waiter := l.AwaitAsync(t.Context())
		time.Sleep(time.Duration(rounds%50) * 10 * time.Microsecond)
		start := time.Now()
		require.NoError(t, other.CountDown(t.Context()))
		require.NoError(t, locktest.Receive(t, "the end", waiter))
		require.Less(t, time.Since(start), 2*time.Second, "a recheck was needed")
	}
	t.Logf("%d rounds", rounds)
}

// 5,000 waiters need one subscription and a few commands, and are released at
// once.
func TestManyWaiters(t *testing.T) {
	const waiters = 5000
	for _, kill := range []bool{false, true} {
		name := "Quiet"
		if kill {
			name = "PubSubKilled"
		}
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			direct := srv.Client(t)
			c := locktest.NewClient(t, srv.Client(t))
			l, other := countdownlatch.New(c, "l"), countdownlatch.New(locktest.NewClient(t, direct), "l")
			set(t, other, 2)
			var wg sync.WaitGroup
			released := make([]time.Time, waiters)
			for i := range waiters {
				wg.Go(func() {
					assert.NoError(t, l.Await(context.Background()))
					released[i] = time.Now()
				})
			}
			redistest.Until(t, "all to wait", func() bool { return c.Stats().Waiting == waiters })
			redistest.Until(t, "the subscription", func() bool {
				return srv.Do(t, "PUBSUB", "NUMSUB", "redisson_countdownlatch__channel__{l}")[1] == "1"
			})
			require.Equal(t, 1, c.Stats().Subscriptions)
			require.NoError(t, other.CountDown(t.Context()))
			if kill {
				srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
				redistest.Until(t, "another subscription", func() bool {
					return c.Stats().Resubscribes > 0
				})
			}
			before := srv.Commands(t)
			start := time.Now()
			require.NoError(t, other.CountDown(t.Context()))
			wg.Wait()
			var last time.Time
			for _, at := range released {
				if at.After(last) {
					last = at
				}
			}
			t.Logf("all released after %v, with %d commands, the count-down included", last.Sub(start), srv.Commands(t)-before)
			require.Less(t, last.Sub(start), 4*time.Second, "before any of them asks by itself")
			require.LessOrEqual(t, srv.Commands(t)-before, int64(10))
			require.Zero(t, c.Stats().Waiting)
		})
	}
}

func TestClose(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		l := countdownlatch.New(c, "l")
		set(t, l, 1)
		waiters := []<-chan error{l.AwaitAsync(t.Context()), l.AwaitAsync(t.Context())}
		env.Advance(time.Second)
		require.NoError(t, c.Close())
		for _, w := range waiters {
			require.ErrorIs(t, <-w, latchkey.ErrClosed)
		}
		require.ErrorIs(t, l.Await(t.Context()), latchkey.ErrClosed)
		require.ErrorIs(t, <-l.CountDownAsync(t.Context()), latchkey.ErrClosed)
	})
}

// If the head of the line gives up, the next waiter asks.
func TestCancelledHead(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		l := countdownlatch.New(c, "l")
		set(t, l, 1)
		first, cancel := context.WithCancel(t.Context())
		head := l.AwaitAsync(first)
		synctest.Wait()
		next := l.AwaitAsync(t.Context())
		env.Advance(time.Second)
		cancel()
		require.ErrorIs(t, <-head, context.Canceled)
		require.NoError(t, l.CountDown(t.Context()))
		require.NoError(t, <-next)
	})
}
