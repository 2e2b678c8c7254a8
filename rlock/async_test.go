package rlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// TestThousandLockAsync checks that each channel delivers one result, a Hold,
// and is closed when the Hold ends.
func TestThousandLockAsync(t *testing.T) {
	const n = 1000
	s := redistest.Start(t)
	c := newClient(t, s)
	l := rlock.New(c, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // better than to hang
	defer cancel()
	var wg sync.WaitGroup
	inside, results := 0, 0
	for range n {
		ch := l.LockAsync(ctx)
		wg.Go(func() {
			for r := range ch {
				if !assert.NoError(t, r.Err) {
					return
				}
				inside++
				assert.Equal(t, 1, inside, "holders")
				results++
				inside--
				assert.NoError(t, r.Value.Unlock(t.Context()), "Unlock")
			}
		})
	}
	wg.Wait()
	require.Equal(t, n, results, "results")
	require.Zero(t, c.Stats().Held, "Held")
	require.Zero(t, c.Stats().Waiting, "Waiting")
	require.Zero(t, s.Client(t).Exists(t.Context(), "a").Val(), "the key")
}

// TestCancelledLockAsyncLeaksNothing cancels contexts before, during and after
// the grant. Nobody ever reads the channels.
func TestCancelledLockAsyncLeaksNothing(t *testing.T) {
	const rounds = 300
	s := redistest.Start(t)
	c := newClient(t, s)
	l := rlock.New(c, "a")
	rdb := s.Client(t)
	locktest.MustUnlock(t, locktest.MustLock(t, l))
	start := time.Now()
	locktest.MustUnlock(t, locktest.MustLock(t, l))
	pair := time.Since(start)
	var channels []<-chan latchkey.Result[*latchkey.Hold]
	for i := range rounds {
		// The end falls anywhere in the time of a Lock, and some time behind it.
		ctx, cancel := context.WithTimeout(t.Context(), pair*time.Duration(i)/(rounds/2))
		defer cancel()
		if i%3 == 0 {
			channels = append(channels, l.TryLockAsync(ctx))
		} else {
			channels = append(channels, l.LockAsync(ctx))
		}
	}
	redistest.Until(t, "all holds to be given back", func() bool {
		for _, ch := range channels {
			if len(ch) == 0 {
				return false
			}
		}
		return c.Stats().Held == 0 && c.Stats().Waiting == 0 // in this order: no Hold comes any more
	})
	redistest.Until(t, "the key to go", func() bool { return rdb.Exists(t.Context(), "a").Val() == 0 })
	for _, ch := range channels {
		results := 0
		for r := range ch { // closed, or soon
			results++
			require.Error(t, r.Err)
			require.Nil(t, r.Value, "the Hold of a context that has ended")
		}
		require.Equal(t, 1, results, "results")
	}
	// A request of the last moment may have been granted since, and is being undone.
	redistest.Until(t, "the lock to be free", func() bool {
		got, err := l.TryLock(t.Context())
		if errors.Is(err, latchkey.ErrNotAcquired) {
			return false
		}
		require.NoError(t, err)
		locktest.MustUnlock(t, got)
		return true
	})
	redistest.Until(t, "the key to stay gone", func() bool { return rdb.Exists(t.Context(), "a").Val() == 0 })
}

// TestCancelledGrantIsTakenBack cancels the context while the grant is in the
// channel.
func TestCancelledGrantIsTakenBack(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		l := rlock.New(c, "a")
		for _, d := range []time.Duration{time.Millisecond, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			ch := l.LockAsync(ctx)
			env.Advance(d - 1)
			require.Equal(t, 1, c.Stats().Held, "Held before the end")
			env.Advance(1)
			require.Zero(t, c.Stats().Held, "Held at the end")
			require.False(t, env.Mini.Exists("a"), "the key at the end")
			r := <-ch
			require.ErrorIs(t, r.Err, context.DeadlineExceeded)
			require.Nil(t, r.Value)
			_, open := <-ch
			require.False(t, open, "the channel")
			cancel()
		}
	})
}

// TestLostGrantIsReported reads the channel only after the lease is over.
func TestLostGrantIsReported(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		ch := rlock.New(c, "a").LockAsync(t.Context(), latchkey.Lease(time.Second))
		env.Advance(time.Minute)
		r := <-ch
		require.ErrorIs(t, r.Err, latchkey.ErrLeaseLost)
		require.Nil(t, r.Value)
	})
}

// TestAsyncRangeEndsWithUnlock checks that a range over the channel is a
// critical section.
func TestAsyncRangeEndsWithUnlock(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		l := rlock.New(c, "a")
		n := 0
		for r := range l.LockAsync(t.Context()) {
			require.NoError(t, r.Err)
			n++
			env.Advance(time.Hour)
			require.NoError(t, r.Value.Context().Err(), "held for as long as it takes")
			require.NoError(t, r.Value.Unlock(t.Context()))
		}
		require.Equal(t, 1, n, "results")
		for r := range l.TryLockAsync(t.Context()) {
			require.NoError(t, r.Err)
			require.NoError(t, <-r.Value.UnlockAsync(t.Context()))
		}
		require.False(t, env.Mini.Exists("a"), "the key")
	})
}

// TestCloseEndsAsync checks that Close ends a range over a channel.
func TestCloseEndsAsync(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		l := rlock.New(c, "a")
		held, waits := l.LockAsync(t.Context()), l.LockAsync(t.Context())
		env.Advance(0)
		var got *latchkey.Hold
		select {
		case r := <-held:
			got = r.Value
		case r := <-waits:
			got, held, waits = r.Value, waits, held
		}
		require.NotNil(t, got)
		require.NoError(t, c.Close())
		r := <-waits
		require.ErrorIs(t, r.Err, latchkey.ErrClosed)
		for range waits {
			require.Fail(t, "one more result")
		}
		for range held {
			require.Fail(t, "one more result")
		}
		require.ErrorIs(t, context.Cause(got.Context()), latchkey.ErrClosed)
	})
}
