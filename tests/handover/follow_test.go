package handover_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// A crowd waits for a lock in fake time, behind one who asks for all.
type crowd struct {
	*testing.T
	env   *redistest.Env
	c     *latchkey.Client
	l     *rlock.Lock
	hold  *latchkey.Hold
	begun int // waits that the observer has heard of
}

func inCrowd(t *testing.T, f func(w *crowd), opts ...latchkey.Option) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		w := &crowd{T: t, env: env}
		var mu sync.Mutex
		w.c = locktest.NewClient(t, env.Redis, append(opts, latchkey.WithObserver(latchkey.Observer{
			WaitStarted: func(ctx context.Context, _, _ string) {
				mu.Lock()
				w.begun++
				mu.Unlock()
				if ctx.Value(panics{}) != nil {
					panic("the observer")
				}
			},
		}))...)
		w.l = rlock.New(w.c, "a")
		w.hold = locktest.Must(t)(w.l.Lock(t.Context()))
		f(w)
		env.Advance(0)
		require.Zero(t, w.c.Stats().Waiting)
	})
}

type panics struct{}

func (w *crowd) wait(ctx context.Context, opts ...latchkey.LockOption) <-chan locktest.Outcome {
	ch := locktest.Later(func() (*latchkey.Hold, error) { return w.l.Lock(ctx, opts...) })
	synctest.Wait()
	return ch
}

// A waiter behind others sends nothing, is shown when asked for, and gets the lock
// in turn, under the name by which it was shown.
func TestFollowersAreServedInTurn(t *testing.T) {
	for name, opts := range map[string][]latchkey.Option{"handed on": nil, "given": {latchkey.WithHandOver(0)}} {
		t.Run(name, func(t *testing.T) {
			inCrowd(t, func(w *crowd) {
				first := w.wait(w.Context())
				w.env.Advance(time.Second)
				before := w.env.Commands("")
				var line []<-chan locktest.Outcome
				for i := range 20 {
					line = append(line, w.wait(w.Context(), latchkey.Label(fmt.Sprint("waiter ", i))))
				}
				require.Equal(w, before, w.env.Commands(""), "commands sent")
				require.Equal(w, 21, w.begun)
				require.Equal(w, 21, w.c.Stats().Waiting)
				info, err := w.c.Info(w.Context(), "a")
				require.NoError(w, err)
				require.Len(w, info.Waiters, 21)
				require.NoError(w, w.hold.Unlock(w.Context()))
				r := <-first
				for i, ch := range line {
					require.NoError(w, r.Err)
					require.Equal(w, info.Waiters[i].ID, r.Hold.HolderID())
					require.Equal(w, fmt.Sprint("waiter ", i), info.Waiters[i+1].Label)
					w.env.Advance(time.Duration(i%3) * 20 * time.Millisecond) // some within a slice, some behind it
					require.NoError(w, r.Hold.Unlock(w.Context()))
					r = <-ch
				}
				require.NoError(w, r.Err)
				require.NoError(w, r.Hold.Unlock(w.Context()))
				require.Equal(w, 21, w.begun, "once for each")
			}, opts...)
		})
	}
}

// A waiter behind others gives up at once, and leaves nothing behind.
func TestFollowersGiveUp(t *testing.T) {
	inCrowd(t, func(w *crowd) {
		first := w.wait(w.Context())
		w.env.Advance(time.Second)
		before, start := w.env.Commands(""), time.Now()
		ctx, cancel := context.WithCancel(w.Context())
		bounded := w.wait(w.Context(), latchkey.Wait(300*time.Millisecond))
		cancelled := w.wait(ctx)
		last := w.wait(w.Context(), latchkey.Wait(10*time.Minute))
		time.AfterFunc(200*time.Millisecond, cancel)
		r := <-cancelled
		require.ErrorIs(w, r.Err, context.Canceled)
		require.Equal(w, 200*time.Millisecond, r.At.Sub(start))
		r = <-bounded
		require.ErrorIs(w, r.Err, latchkey.ErrNotAcquired)
		require.Equal(w, 300*time.Millisecond, r.At.Sub(start))
		require.Equal(w, before, w.env.Commands(""), "commands sent")
		require.Equal(w, 2, w.c.Stats().Waiting)
		require.NoError(w, w.hold.Unlock(w.Context()))
		locktest.Must(w.T)((<-first).Unpack())
		w.env.Advance(10 * time.Minute)
		require.ErrorIs(w, (<-last).Err, latchkey.ErrNotAcquired, "it has come to the head, and waits no longer for that")
	})
}

// An observer that panics takes its caller out of the line, and nobody else.
func TestFollowerWhoseObserverPanics(t *testing.T) {
	inCrowd(t, func(w *crowd) {
		first := w.wait(w.Context())
		require.PanicsWithValue(w, "the observer", func() {
			_, _ = w.l.Lock(context.WithValue(w.Context(), panics{}, true))
		})
		last := w.wait(w.Context())
		require.NoError(w, w.hold.Unlock(w.Context()))
		h := locktest.Must(w.T)((<-first).Unpack())
		require.NoError(w, h.Unlock(w.Context()))
		locktest.Must(w.T)((<-last).Unpack())
		require.NoError(w, w.c.Close()) // waits for nobody
	})
}

// Close ends the wait of all at once.
func TestCloseEndsFollowers(t *testing.T) {
	inCrowd(t, func(w *crowd) {
		var all []<-chan locktest.Outcome
		for range 50 {
			all = append(all, w.wait(w.Context()))
		}
		start := time.Now()
		require.NoError(w, w.c.Close())
		for _, ch := range all {
			r := <-ch
			require.ErrorIs(w, r.Err, latchkey.ErrClosed)
			require.Zero(w, r.At.Sub(start))
		}
	})
}

// A holder that comes back to wait has a line of its own beside those who wait for other
// locks, and a holder that has the lock follows nobody.
func TestWhoNeedNotFollow(t *testing.T) {
	inCrowd(t, func(w *crowd) {
		first := w.wait(w.Context())
		second := w.wait(w.Context())
		locktest.Must(w.T)(rlock.New(w.c, "b").Lock(w.Context()))
		again := locktest.Must(w.T)(w.l.Lock(w.hold.Context()))
		_, err := w.l.TryLock(w.Context())
		require.ErrorIs(w, err, latchkey.ErrNotAcquired)
		require.NoError(w, again.Unlock(w.Context()))
		require.NoError(w, w.hold.Unlock(w.Context()))
		require.NoError(w, locktest.Must(w.T)((<-first).Unpack()).Unlock(w.Context()))
		locktest.Must(w.T)((<-second).Unpack())
	})
}
