package latchkey_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/multilock"
)

// localTest runs f in fake time and checks that no local lock is left.
func localTest(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		f(t)
		synctest.Wait()
		require.Zero(t, latchkey.Locals(), "states of locks that are free")
	})
}

// got checks that h was acquired.
func got(t *testing.T) func(*latchkey.Hold, error) *latchkey.Hold {
	return func(h *latchkey.Hold, err error) *latchkey.Hold {
		t.Helper()
		require.NoError(t, err)
		require.NotNil(t, h)
		return h
	}
}

func TestLocalExcludes(t *testing.T) {
	localTest(t, func(t *testing.T) {
		ctx := t.Context()
		var order []int
		var wg sync.WaitGroup
		inside := 0
		for i := range 5 {
			wg.Go(func() {
				assert.NoError(t, latchkey.Do(ctx, latchkey.NewLocal("a"), func(context.Context) error {
					inside++
					order = append(order, i)
					time.Sleep(time.Second)
					assert.Equal(t, 1, inside)
					inside--
					return nil
				}))
			})
			synctest.Wait()
		}
		other := got(t)(latchkey.NewLocal("b").TryLock(ctx))
		require.NoError(t, other.Unlock(ctx))
		wg.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, order, "in the order in which they came")
	})
}

func TestLocalWaits(t *testing.T) {
	localTest(t, func(t *testing.T) {
		ctx := t.Context()
		l := latchkey.NewLocal("a")
		h := got(t)(l.Lock(ctx))
		start := time.Now()
		refused := func(want error, after time.Duration) func(*latchkey.Hold, error) {
			return func(h *latchkey.Hold, err error) {
				t.Helper()
				require.Nil(t, h)
				require.ErrorIs(t, err, want)
				require.Equal(t, after, time.Since(start))
				start = time.Now()
			}
		}
		refused(latchkey.ErrNotAcquired, 0)(l.TryLock(ctx))
		refused(latchkey.ErrNotAcquired, 0)(l.Lock(ctx, latchkey.Wait(0)))
		refused(latchkey.ErrNotAcquired, time.Second)(l.TryLock(ctx, latchkey.Wait(time.Second)))
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		refused(context.DeadlineExceeded, time.Minute)(l.Lock(short))
		refused(context.DeadlineExceeded, 0)(latchkey.NewLocal("free").Lock(short))
		_, err := l.Lock(ctx, latchkey.Lease(time.Second), latchkey.MaxHold(time.Second))
		require.ErrorContains(t, err, `local: lock "a": `)
		_, err = l.Lock(ctx, latchkey.Lease(0))
		require.Error(t, err)

		time.AfterFunc(3*time.Second, func() { _ = h.Unlock(ctx) })
		next := got(t)(l.TryLock(ctx, latchkey.Wait(time.Hour)))
		require.Equal(t, 3*time.Second, time.Since(start))
		require.NoError(t, next.Unlock(ctx))
	})
}

// Extend goes no further than the longest MaxHold of the holder. There is no
// limit if one of its holds has no bound.
func TestLocalExtendNested(t *testing.T) {
	localTest(t, func(t *testing.T) {
		ctx := latchkey.WithHolder(t.Context())
		l := latchkey.NewLocal("a")
		outer := got(t)(l.Lock(ctx, latchkey.MaxHold(5*time.Second)))
		longer := got(t)(l.Lock(ctx, latchkey.MaxHold(10*time.Second)))
		require.NoError(t, outer.Extend(ctx, time.Minute))
		require.Equal(t, 10*time.Second, outer.Remaining())
		require.NoError(t, longer.Unlock(ctx))
		fixed := got(t)(l.Lock(ctx, latchkey.Lease(time.Minute)))
		time.Sleep(11 * time.Second)
		err := outer.Extend(ctx, time.Hour)
		require.ErrorContains(t, err, "MaxHold of 5s leaves nothing to extend")
		require.NotErrorIs(t, err, latchkey.ErrNotHeld)
		require.Equal(t, 49*time.Second, outer.Remaining())
		require.NoError(t, fixed.Extend(ctx, 2*time.Minute))
		require.Equal(t, 2*time.Minute, outer.Remaining())
		free := got(t)(l.Lock(ctx))
		require.NoError(t, outer.Extend(ctx, time.Hour))
		require.NoError(t, free.Unlock(ctx))
		require.Equal(t, time.Hour, outer.Remaining())
		require.NoError(t, fixed.Unlock(ctx))
		require.NoError(t, outer.Unlock(ctx))
	})
}

func TestLocalReentry(t *testing.T) {
	localTest(t, func(t *testing.T) {
		ctx := t.Context()
		l := latchkey.NewLocal("a")
		outer := got(t)(l.Lock(ctx))
		inner := got(t)(latchkey.NewLocal("a").Lock(outer.Context()))
		require.Equal(t, outer.Holder(), inner.Holder())
		require.Equal(t, outer.HolderID(), inner.HolderID())
		_, err := l.TryLock(latchkey.WithHolder(outer.Context()))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired, "it starts afresh")
		from, ok := latchkey.HoldFrom(inner.Context())
		require.True(t, ok)
		require.NoError(t, from.Unlock(ctx))
		require.ErrorIs(t, inner.Unlock(ctx), latchkey.ErrNotHeld)
		require.ErrorIs(t, inner.Context().Err(), context.Canceled)
		require.NoError(t, outer.Context().Err())
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.NoError(t, outer.Unlock(ctx))

		// Under the Context of one, others are somebody else's.
		outer = got(t)(l.Lock(ctx))
		b := latchkey.NewLocal("b")
		h := got(t)(b.Lock(outer.Context()))
		_, err = b.TryLock(outer.Context())
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.NoError(t, h.Unlock(ctx))
		require.NoError(t, outer.Unlock(ctx))

		// All who wait in the name of one holder come in together.
		me := latchkey.WithHolder(ctx)
		h = got(t)(l.Lock(ctx))
		holds := make(chan *latchkey.Hold, 2)
		for range 2 {
			go func() {
				h, err := l.Lock(me)
				assert.NoError(t, err)
				holds <- h
			}()
		}
		synctest.Wait()
		require.NoError(t, h.Unlock(ctx))
		first, second := <-holds, <-holds
		require.Equal(t, first.Holder(), second.Holder())
		want, _ := latchkey.HolderFrom(me)
		require.Equal(t, want, first.Holder())
		require.NoError(t, first.Unlock(ctx))
		require.NoError(t, second.Unlock(ctx))

		// The Context of a Hold that has ended is nobody's.
		h = got(t)(l.Lock(context.WithoutCancel(outer.Context())))
		_, err = l.TryLock(context.WithoutCancel(outer.Context()))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestLocalLease(t *testing.T) {
	localTest(t, func(t *testing.T) {
		ctx := t.Context()
		l := latchkey.NewLocal("a")
		for _, c := range []struct {
			bound latchkey.LockOption
			until time.Duration
		}{
			{latchkey.Lease(time.Minute), 2 * time.Minute},
			{latchkey.MaxHold(time.Minute), time.Minute},
		} {
			start := time.Now()
			h := got(t)(l.Lock(ctx, c.bound))
			require.Equal(t, time.Minute, h.Remaining())
			require.NoError(t, h.Extend(ctx, time.Second), "never shortens")
			require.NoError(t, h.Extend(ctx, 2*time.Minute))
			require.Equal(t, c.until, h.Remaining())
			require.ErrorContains(t, h.Extend(ctx, 2*time.Millisecond), "the least is 3ms")
			next := got(t)(l.Lock(ctx))
			require.Equal(t, c.until, time.Since(start))
			<-h.Lost()
			require.ErrorIs(t, context.Cause(h.Context()), latchkey.ErrLeaseLost)
			for _, err := range []error{h.Unlock(ctx), h.Extend(ctx, time.Second)} {
				require.ErrorIs(t, err, latchkey.ErrNotHeld)
				require.ErrorIs(t, err, latchkey.ErrLeaseLost)
			}
			require.Zero(t, h.Remaining())
			require.EqualValues(t, int64(math.MaxInt64), next.Remaining())
			time.Sleep(24 * time.Hour)
			require.NoError(t, next.Context().Err(), "without a lease it lasts")
			require.NoError(t, next.Unlock(ctx))
			require.ErrorIs(t, next.Unlock(ctx), latchkey.ErrNotHeld)
			select {
			case <-next.Lost():
				require.Fail(t, "Lost is closed by Unlock")
			default:
			}
		}

		// Nested ones are lost together, at the end of the longest.
		outer := got(t)(l.Lock(ctx, latchkey.Lease(time.Minute)))
		inner := got(t)(l.Lock(outer.Context(), latchkey.Lease(time.Second)))
		time.Sleep(2 * time.Second)
		require.NoError(t, inner.Context().Err())
		start := time.Now()
		<-inner.Lost()
		<-outer.Lost()
		require.Equal(t, 58*time.Second, time.Since(start))

		boom := errors.New("boom")
		err := latchkey.Do(ctx, l, func(ctx context.Context) error {
			<-ctx.Done()
			return boom
		}, latchkey.Lease(time.Second))
		require.ErrorIs(t, err, boom)
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
	})
}

func TestLocalHoldAtLeast(t *testing.T) {
	localTest(t, func(t *testing.T) {
		ctx := latchkey.WithHolder(t.Context())
		l := latchkey.NewLocal("a")
		start := time.Now()
		h := got(t)(l.Lock(ctx, latchkey.HoldAtLeast(time.Minute)))
		require.NoError(t, h.Unlock(ctx))
		_, err := l.TryLock(t.Context())
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		h = got(t)(l.Lock(t.Context()))
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, h.Unlock(ctx))
		h = got(t)(l.Lock(ctx, latchkey.HoldAtLeast(time.Minute)))
		require.NoError(t, h.Unlock(ctx))
		time.Sleep(time.Minute) // nobody waits for it
	})
}

func TestLocalInAMultiLock(t *testing.T) {
	localTest(t, func(t *testing.T) {
		ctx := t.Context()
		a, b := latchkey.NewLocal("a"), latchkey.NewLocal("b")
		all := multilock.New(a, b)
		h := got(t)(all.Lock(ctx))
		_, err := b.TryLock(ctx)
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		again := got(t)(a.TryLock(h.Context()))
		require.NoError(t, again.Unlock(ctx))
		require.NoError(t, h.Unlock(ctx))
		h = got(t)(all.Lock(ctx, latchkey.Lease(time.Second)))
		<-h.Lost()
		require.ErrorIs(t, context.Cause(h.Context()), latchkey.ErrLeaseLost)
		synctest.Wait()
	})
}

func TestLocalWithoutAName(t *testing.T) {
	require.Panics(t, func() { latchkey.NewLocal("") })
}

// Whatever ends a wait or a hold, there are never two holders, and no waiter is
// forgotten.
func TestLocalUnderAll(t *testing.T) {
	localTest(t, func(t *testing.T) {
		l := latchkey.NewLocal("a")
		var wg sync.WaitGroup
		var mu sync.Mutex
		inside, ran := 0, 0
		for i := range 16 {
			wg.Go(func() {
				for round := range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(i*7+round)%40)*time.Millisecond)
					opts := []latchkey.LockOption{latchkey.Wait(time.Duration((i+round)%30) * time.Millisecond)}
					if round%3 == 0 {
						opts = append(opts, latchkey.Lease(3*time.Millisecond))
					}
					if round%5 == 0 {
						opts = append(opts, latchkey.HoldAtLeast(time.Millisecond))
					}
					h, err := l.TryLock(ctx, opts...)
					if err == nil {
						mu.Lock()
						inside++
						ran++
						assert.Equal(t, 1, inside)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						inside--
						mu.Unlock()
						if round%3 == 0 && i%2 == 0 {
							<-h.Lost()
						} else {
							assert.NoError(t, h.Unlock(ctx))
						}
					} else if !errors.Is(err, latchkey.ErrNotAcquired) {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second) // what stays closed
		require.Greater(t, ran, 100)
	})
}
