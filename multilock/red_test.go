package multilock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/inspect"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
)

// inRed runs f in a bubble with five servers, and a lock of a majority of them.
func inRed(t *testing.T, f func(t *testing.T, fl *fleet, l *multilock.Lock)) {
	t.Helper()
	inFleet(t, 5, func(t *testing.T, fl *fleet) {
		f(t, fl, multilock.NewRed(rlocks("r", fl.clients...)...))
	})
}

// another returns the same lock on clients of its own.
func (fl *fleet) another(t testing.TB, opts ...latchkey.Option) *multilock.Lock {
	t.Helper()
	return multilock.NewRed(rlocks("r", fl.more(t, opts...)...)...)
}

// TestRedExcludes checks that there is one holder at a time, and that all
// members are taken and given back.
func TestRedExcludes(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		other := fl.another(t)
		h := locktest.MustLock(t, l)
		synctest.Wait()
		require.Equal(t, 5, fl.holding("r"), "late grants join")
		require.Zero(t, h.Token())
		refused(t, other)
		start := time.Now()
		_, err := other.TryLock(t.Context(), latchkey.Wait(time.Second))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.LessOrEqual(t, time.Since(start), time.Second)
		locktest.MustUnlock(t, h)
		ended(t, h, context.Canceled)
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrNotHeld)
		clean(t, fl.envs...)
		locktest.MustUnlock(t, locktest.MustLock(t, other))
		clean(t, fl.envs...)
	})
}

// TestRedWaiterGetsIn checks that a waiter gets the lock soon after it is free.
func TestRedWaiterGetsIn(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		h := locktest.MustLock(t, l)
		var wg sync.WaitGroup
		var released time.Time
		wg.Go(func() {
			h, err := fl.another(t).Lock(t.Context())
			if assert.NoError(t, err) {
				assert.Less(t, time.Since(released), 250*time.Millisecond)
				assert.NoError(t, h.Unlock(t.Context()))
			}
		})
		time.Sleep(10 * time.Second)
		released = time.Now()
		locktest.MustUnlock(t, h)
		wg.Wait()
		clean(t, fl.envs...)
	})
}

// TestRedValidity checks the validity: lease − elapsed time − drift.
func TestRedValidity(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		const lease, way = time.Second, 20 * time.Millisecond
		// The first acquire connects, which is several round trips.
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		synctest.Wait()
		for i, c := range fl.envs {
			for _, p := range c.Links() {
				p.Delay(time.Duration(i) * way / 2)
			}
		}
		start := time.Now()
		h := locktest.MustLock(t, l, latchkey.Lease(lease))
		require.Equal(t, way, time.Since(start), "when the third had answered")
		require.Equal(t, window(lease)-way, h.Remaining())
		<-h.Lost()
		require.Equal(t, window(lease), time.Since(start))
		ended(t, h, latchkey.ErrLeaseLost)
		isLost(t, h.Unlock(t.Context()))
	})
}

// far delays each reply of some servers by way, on the present connections.
func (fl *fleet) far(way time.Duration, servers ...int) {
	for _, i := range servers {
		for _, p := range fl.envs[i].Links() {
			p.Delay(way)
		}
	}
}

// TestRedFarServers checks that a distant majority gets more time from round to
// round, and no more than it needs when it is near again. Another Lock of the
// same members need not learn that again.
func TestRedFarServers(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		const way = 120 * time.Millisecond
		locktest.MustUnlock(t, locktest.MustLock(t, l)) // connects
		synctest.Wait()
		fl.far(way, 0, 2, 4)
		start := time.Now()
		h := locktest.MustLock(t, l)
		require.Less(t, time.Since(start), 2*time.Second)
		locktest.MustUnlock(t, h)
		clean(t, fl.envs...)

		again := multilock.NewRed(rlocks("r", fl.clients...)...)
		start = time.Now()
		h, err := again.TryLock(t.Context())
		require.NoError(t, err)
		require.Equal(t, way, time.Since(start))
		locktest.MustUnlock(t, h)

		fl.far(0, 0, 2, 4)
		for range 3 {
			locktest.MustUnlock(t, locktest.MustLock(t, l))
		}
		fl.far(way, 0, 2, 4)
		start = time.Now()
		_, err = l.TryLock(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 50*time.Millisecond, time.Since(start).Truncate(50*time.Millisecond))
		clean(t, fl.envs...)
	})
}

// TestRedSilentMajority checks that the time of one member is bounded.
func TestRedSilentMajority(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		fl.cut(true, 1, 2, 3)
		longest := time.Duration(0)
		for range 10 {
			synctest.Wait() // until the others have taken back what the last one had of them: they would refuse
			start := time.Now()
			_, err := l.TryLock(t.Context())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			longest = max(longest, time.Since(start))
		}
		// Its own answer, and that to what is given back.
		require.LessOrEqual(t, longest, 2*time.Second)
		fl.cut(false, 1, 2, 3)
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		time.Sleep(30 * time.Second) // what the cut servers were asked is undone
		clean(t, fl.envs...)
	})
}

// TestRedGivesBackAMinority checks that members that were granted before the others
// refused are free when the call returns.
func TestRedGivesBackAMinority(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		synctest.Wait()
		var holds []*latchkey.Hold
		for _, c := range fl.more(t)[:3] {
			holds = append(holds, locktest.MustLock(t, rlock.New(c, "r")))
		}
		fl.far(5*time.Millisecond, 0, 1, 2)
		_, err := l.TryLock(t.Context())
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.Equal(t, 3, fl.holding("r"))
		for _, h := range holds {
			locktest.MustUnlock(t, h)
		}
		clean(t, fl.envs...)
	})
}

// TestRedSilentMajorityWhileItWaits checks that the end of a wait does not say that others
// have the lock if no member has said so.
func TestRedSilentMajorityWhileItWaits(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		synctest.Wait()
		fl.cut(true, 1, 2, 3)
		_, err := l.TryLock(t.Context(), latchkey.Wait(time.Second))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.NotErrorAs(t, err, new(*latchkey.TakenError))
		require.ErrorIs(t, err, context.DeadlineExceeded) // of the members
		fl.cut(false, 1, 2, 3)
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		time.Sleep(30 * time.Second) // what the cut servers were asked is undone
		clean(t, fl.envs...)
	})
}

// TestRedFarMinority checks that a member that is further away than the
// majority joins the hold later.
func TestRedFarMinority(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		synctest.Wait()
		fl.far(200*time.Millisecond, 1, 3)
		h := locktest.MustLock(t, l)
		time.Sleep(11 * time.Second)
		require.Equal(t, 5, fl.holding("r"))
		locktest.MustUnlock(t, h)
		clean(t, fl.envs...)
	})
}

// TestRedExtendWithinMaxHold checks that members that were granted later do not
// make the hold last longer than the majority that made it.
func TestRedExtendWithinMaxHold(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		synctest.Wait()
		fl.far(10*time.Millisecond, 1, 3)
		h, start := locktest.MustLock(t, l, latchkey.MaxHold(10*time.Second)), time.Now()
		time.Sleep(4 * time.Second)
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		require.LessOrEqual(t, h.Remaining(), 6*time.Second)
		require.Greater(t, h.Remaining(), 5*time.Second)
		<-h.Lost()
		require.LessOrEqual(t, time.Since(start), 10*time.Second)
		require.Greater(t, time.Since(start), 9*time.Second)
		isLost(t, h.Extend(t.Context(), time.Minute))
		isLost(t, h.Unlock(t.Context()))
		time.Sleep(time.Minute)
		clean(t, fl.envs...)
	})
}

// TestRedSpentLease checks that grants whose leases are almost over do not make
// a lock.
func TestRedSpentLease(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		locktest.MustUnlock(t, locktest.MustLock(t, l))
		synctest.Wait()
		for _, c := range fl.envs {
			for _, p := range c.Links() {
				p.Delay(5 * time.Millisecond)
			}
		}
		// A tenth of 30 ms is less than the way.
		_, err := l.TryLock(t.Context(), latchkey.Lease(30*time.Millisecond))
		require.Error(t, err)
		time.Sleep(30 * time.Second)
		clean(t, fl.envs...)
	})
}

// TestRedSecondUnlock checks that a second Unlock is refused at once, although
// a minority has not answered the first one, which has released enough members.
func TestRedSecondUnlock(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		h := locktest.MustLock(t, l)
		synctest.Wait()
		require.Equal(t, 5, fl.holding("r"))
		fl.cut(true, 1, 3)
		locktest.MustUnlock(t, h)
		start := time.Now()
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrNotHeld)
		require.Zero(t, time.Since(start))
		fl.cut(false, 1, 3)
		time.Sleep(30 * time.Second)
		clean(t, fl.envs...)
	})
}

// TestRedMinorityDown checks that two silent servers of five cost nothing, and
// that three prevent the lock.
func TestRedMinorityDown(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		fl.cut(true, 1, 3)
		for range 10 {
			start := time.Now()
			h := locktest.MustLock(t, l)
			require.Zero(t, time.Since(start), "time to lock")
			refused(t, fl.another(t))
			start = time.Now()
			locktest.MustUnlock(t, h)
			require.Zero(t, time.Since(start), "time to unlock")
		}
		fl.cut(true, 4)
		start := time.Now()
		_, err := l.TryLock(t.Context())
		require.Error(t, err)
		require.NotErrorIs(t, err, latchkey.ErrNotAcquired, "nobody has it")
		require.LessOrEqual(t, time.Since(start), 60*time.Millisecond)
		start = time.Now()
		_, err = l.TryLock(t.Context(), latchkey.Wait(time.Second))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.LessOrEqual(t, time.Since(start), time.Second+100*time.Millisecond)
		start = time.Now()
		_, err = l.Lock(t.Context())
		require.Error(t, err, "Lock gives up")
		require.LessOrEqual(t, time.Since(start), 4*time.Second)
		fl.cut(false, 1, 3, 4)
		time.Sleep(time.Minute)
		clean(t, fl.envs...)
		locktest.MustUnlock(t, locktest.MustLock(t, l))
	})
}

// TestRedRenewalCountsAMajority checks that a hold outlives the loss of a
// minority. It is lost with the majority, before the first lease on a server
// ends.
func TestRedRenewalCountsAMajority(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		h := locktest.MustLock(t, l)
		synctest.Wait()
		fl.cut(true, 0, 1)
		time.Sleep(2 * time.Minute)
		require.NoError(t, h.Context().Err())
		require.Equal(t, 3, fl.holding("r"))
		cut := time.Now()
		fl.cut(true, 2)
		<-h.Lost()
		require.Less(t, time.Since(cut), 30*time.Second)
		require.True(t, fl.envs[2].Mini.Exists("r"), "told before the server forgets")
		ended(t, h, latchkey.ErrLeaseLost)
		isLost(t, h.Extend(t.Context(), time.Minute))
		isLost(t, h.Unlock(t.Context()))
		fl.cut(false, 0, 1, 2)
		time.Sleep(time.Minute)
		clean(t, fl.envs...)
	})
}

// TestRedRepairs checks that a missing or lost member is taken again.
func TestRedRepairs(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		fl.cut(true, 3, 4)
		h := locktest.MustLock(t, l)
		require.Equal(t, 3, fl.holding("r"))
		fl.cut(false, 3, 4)
		time.Sleep(21 * time.Second)
		synctest.Wait()
		require.Equal(t, 5, fl.holding("r"))
		for i := range fl.envs { // one after the other forgets
			fl.envs[i].Mini.FlushAll()
			time.Sleep(21 * time.Second)
			synctest.Wait()
			require.Equal(t, 5, fl.holding("r"))
			require.NoError(t, h.Context().Err())
			refused(t, fl.another(t))
		}
		locktest.MustUnlock(t, h)
		clean(t, fl.envs...)
	})
}

// TestRedWipedMajority makes three of five servers lose their data at once. The
// holder learns of it with the next renewal.
func TestRedWipedMajority(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		h := locktest.MustLock(t, l)
		synctest.Wait()
		for i := range 3 {
			fl.envs[i].Mini.FlushAll()
		}
		start := time.Now()
		<-h.Lost()
		require.LessOrEqual(t, time.Since(start), 10*time.Second)
		isLost(t, h.Unlock(t.Context()))
		clean(t, fl.envs...)
	})
}

// TestRedUnlockFindsALoss checks that the loss of a majority is reported, and
// that of a minority is not.
func TestRedUnlockFindsALoss(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		for n := range 6 {
			h := locktest.MustLock(t, l)
			synctest.Wait()
			for i := range n {
				fl.envs[i].Mini.FlushAll()
			}
			err := h.Unlock(t.Context())
			if n <= 2 {
				require.NoError(t, err)
			} else {
				isLost(t, err)
				<-h.Lost()
			}
			clean(t, fl.envs...)
		}
	})
}

// TestRedUnlockSilentMinority checks that servers that have become silent add
// no more than the bound of one try.
func TestRedUnlockSilentMinority(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		h := locktest.MustLock(t, l)
		synctest.Wait()
		fl.cut(true, 0, 4)
		start := time.Now()
		locktest.MustUnlock(t, h)
		require.LessOrEqual(t, time.Since(start), 50*time.Millisecond)
		free(t, fl.another(t))
		fl.cut(false, 0, 4)
		time.Sleep(time.Minute)

		h = locktest.MustLock(t, l)
		synctest.Wait()
		fl.cut(true, 0, 1, 2)
		err := h.Unlock(t.Context())
		require.Error(t, err, "a majority is silent")
		require.NotErrorIs(t, err, latchkey.ErrNotHeld)
		fl.cut(false, 0, 1, 2)
		require.NoError(t, h.Unlock(t.Context()), "Unlock again")
		time.Sleep(time.Minute)
		clean(t, fl.envs...)
	})
}

// TestRedClockJump makes the clocks of a minority jump forward by more than the
// lease.
func TestRedClockJump(t *testing.T) {
	for first := range redistest.Many(5, 2) {
		inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
			other := fl.another(t)
			h := locktest.MustLock(t, l)
			synctest.Wait()
			for _, i := range []int{first, (first + 1) % 5} {
				fl.envs[i].Mini.SetTime(time.Now().Add(time.Hour))
			}
			for range 30 {
				refused(t, other)
				time.Sleep(350 * time.Millisecond)
			}
			require.NoError(t, h.Context().Err())
			locktest.MustUnlock(t, h)
			locktest.MustUnlock(t, locktest.MustLock(t, other))
		})
	}
}

// TestRedReenters re-enters with the Hold's Context and with a holder, on late
// members too.
func TestRedReenters(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		h := locktest.MustLock(t, l)
		synctest.Wait()
		again, err := l.TryLock(h.Context())
		require.NoError(t, err)
		synctest.Wait()
		for i, c := range fl.clients {
			n, err := rlock.New(c, "r").HoldCount(h.Context())
			require.NoError(t, err)
			require.Equal(t, 2, n, "hold count of member %d", i)
		}
		locktest.MustUnlock(t, again)
		require.NoError(t, h.Context().Err())
		locktest.MustUnlock(t, h)
		clean(t, fl.envs...)

		ctx := latchkey.WithHolder(t.Context())
		_, err = l.Lock(ctx)
		require.NoError(t, err)
		_, err = l.Lock(ctx)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, l.Unlock(ctx))
		require.Equal(t, 5, fl.holding("r"))
		require.NoError(t, l.Unlock(ctx))
		require.ErrorIs(t, l.Unlock(ctx), latchkey.ErrNotHeld)
		clean(t, fl.envs...)
	})
}

// TestRedCancel checks that a call returns when its context ends, and leaves
// nothing behind.
func TestRedCancel(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		h := locktest.MustLock(t, l)
		other := fl.another(t)
		ctx, cancel := context.WithTimeout(t.Context(), 777*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := other.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(start), 877*time.Millisecond)
		fl.cut(true, 0, 1, 2, 3, 4)
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		start = time.Now()
		_, err = other.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(start), 120*time.Millisecond)
		fl.cut(false, 0, 1, 2, 3, 4)
		locktest.MustUnlock(t, h)
		time.Sleep(time.Minute)
		clean(t, fl.envs...)
	})
}

// TestRedClose checks that closed clients end the whole when they are a
// majority, without a loss.
func TestRedClose(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		h := locktest.MustLock(t, l)
		synctest.Wait()
		for i := range 2 {
			require.NoError(t, fl.clients[i].Close())
		}
		require.NoError(t, h.Context().Err())
		require.NoError(t, fl.clients[2].Close())
		ended(t, h, latchkey.ErrClosed)
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrClosed)
		_, err := l.Lock(t.Context())
		require.ErrorIs(t, err, latchkey.ErrClosed)
		clean(t, fl.envs...)
	})
}

// TestRedCloseWhileOthersWait checks that waiters in the line of a closed
// client continue with the members of the other clients as long as those are a
// majority, and then fail.
func TestRedCloseWhileOthersWait(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		busy := locktest.MustLock(t, fl.another(t))
		type result struct {
			h   *latchkey.Hold
			err error
		}
		got := make(chan result, 3)
		for range cap(got) {
			go func() {
				h, err := l.Lock(t.Context())
				got <- result{h, err}
			}()
		}
		time.Sleep(time.Second)
		for i := range 2 {
			require.NoError(t, fl.clients[i].Close())
		}
		time.Sleep(10 * time.Second)
		require.Empty(t, got)
		locktest.MustUnlock(t, busy)
		first := <-got
		require.NoError(t, first.err)
		require.NoError(t, first.h.Context().Err())
		time.Sleep(time.Second)
		require.Empty(t, got)
		require.NoError(t, fl.clients[2].Close())
		require.ErrorIs(t, first.h.Unlock(t.Context()), latchkey.ErrClosed)
		for range 2 {
			r := <-got
			require.ErrorIs(t, r.err, latchkey.ErrClosed)
			require.Nil(t, r.h)
		}
		clean(t, fl.envs...)
	})
}

// TestRedManyWaiters checks that several waiters all get the lock, one at a
// time.
func TestRedManyWaiters(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		inside := 0
		var wg sync.WaitGroup
		for range 6 {
			l := fl.another(t)
			wg.Go(func() {
				for range redistest.Many(10, 3) {
					h, err := l.Lock(t.Context())
					if !assert.NoError(t, err) {
						return
					}
					inside++
					assert.Equal(t, 1, inside, "holders")
					time.Sleep(3 * time.Millisecond)
					inside--
					assert.NoError(t, h.Unlock(t.Context()))
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		clean(t, fl.envs...)
	})
}

// TestRedAsync checks that a Hold that nobody receives is taken back.
func TestRedAsync(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		ctx, cancel := context.WithCancel(t.Context())
		ch := l.LockAsync(ctx)
		synctest.Wait()
		require.Equal(t, 5, fl.holding("r"))
		cancel()
		synctest.Wait()
		r := <-ch
		require.ErrorIs(t, r.Err, context.Canceled)
		clean(t, fl.envs...)
		r = <-l.TryLockAsync(t.Context())
		require.NoError(t, r.Err)
		require.NoError(t, <-r.Value.UnlockAsync(t.Context()))
		require.ErrorIs(t, <-l.UnlockAsync(t.Context()), latchkey.ErrNotHeld)
		clean(t, fl.envs...)
	})
}

// TestRedHoldAtLeast checks that the lock stays closed on every server.
func TestRedHoldAtLeast(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		h := locktest.MustLock(t, l, latchkey.HoldAtLeast(time.Minute))
		locktest.MustUnlock(t, h)
		refused(t, l)
		time.Sleep(59 * time.Second)
		refused(t, l)
		time.Sleep(time.Second + time.Millisecond)
		clean(t, fl.envs...)
		locktest.MustUnlock(t, locktest.MustLock(t, l))
	})
}

// TestRedIsSeenToWait checks that the wait for a majority counts as that for its first
// member, whether its caller asks or stands behind one that does.
func TestRedIsSeenToWait(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, _ *multilock.Lock) {
		var mu sync.Mutex
		var places []int
		clients := fl.more(t, latchkey.WithWaitGraph(), latchkey.WithSlowWait(5*time.Second), latchkey.WithObserver(latchkey.Observer{
			SlowWait: func(w latchkey.SlowWait) {
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, "r", w.Name)
				assert.Len(t, w.Holders, 1)
				places = append(places, w.Place)
			},
		}))
		other := multilock.NewRed(rlocks("r", clients...)...)
		for _, c := range fl.clients { // a majority need not have the first member
			locktest.MustLock(t, rlock.New(c, "r"))
		}
		mine := locktest.MustLock(t, rlock.New(clients[0], "a"))
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _, _ = other.TryLock(mine.Context(), latchkey.Wait(8*time.Second)) })
			synctest.Wait()
		}
		time.Sleep(7 * time.Second)
		waits, err := inspect.Waits(t.Context(), fl.clients[0], "a", []string{mine.HolderID()})
		require.NoError(t, err)
		require.Len(t, waits[mine.HolderID()], 1)
		require.Equal(t, "r", waits[mine.HolderID()][0].Key)
		all.Wait()
		time.Sleep(time.Second)
		waits, err = inspect.Waits(t.Context(), fl.clients[0], "a", []string{mine.HolderID()})
		require.NoError(t, err)
		require.Empty(t, waits)
		mu.Lock()
		require.Equal(t, []int{1, 2}, places)
		mu.Unlock()
		locktest.MustUnlock(t, mine)
	})
}

// TestRedSaysWhoHasIt checks that a refusal names whoever has a majority first, also to a
// caller that stood behind another.
func TestRedSaysWhoHasIt(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, _ *multilock.Lock) {
		clients := fl.more(t)
		for i, label := range []string{"bob", "", "ann", "ann", "ann"} {
			locktest.MustLock(t, rlock.New(clients[i], "r"), latchkey.Label(label), latchkey.Lease(time.Duration(i+1)*time.Minute))
		}
		var all sync.WaitGroup
		for _, details := range []bool{true, false} {
			var opts []latchkey.Option
			if details {
				opts = append(opts, latchkey.WithTakenDetails())
			}
			other := fl.another(t, opts...)
			for _, wait := range []time.Duration{0, 5 * time.Second, 5 * time.Second} {
				all.Go(func() {
					_, err := other.TryLock(t.Context(), latchkey.Wait(wait))
					var taken *latchkey.TakenError
					require.ErrorAs(t, err, &taken)
					require.Equal(t, "multilock", taken.Kind)
					require.Equal(t, other.Name(), taken.Name)
					require.NoError(t, taken.Err)
					if wait == 0 {
						require.InDelta(t, 4*time.Minute, taken.Lease, float64(2*time.Minute))
					}
					if !details {
						require.Empty(t, taken.Holders)
						require.Equal(t, "not acquired", taken.Error())
						return
					}
					require.NotEmpty(t, taken.Holders, err)
					require.Equal(t, "ann", taken.Holders[0].Label, err)
					require.Len(t, taken.Holders, 3, err)
				})
				synctest.Wait()
			}
			all.Wait()
		}
	})
}

// TestRedRefusalOfTheDead checks that members that do not answer take no longer than a second.
func TestRedRefusalOfTheDead(t *testing.T) {
	inRed(t, func(t *testing.T, fl *fleet, l *multilock.Lock) {
		locktest.MustLock(t, l, latchkey.Label("ann"))
		synctest.Wait()
		fl.cut(true, 0, 1)
		start := time.Now()
		_, err := fl.another(t, latchkey.WithTakenDetails()).TryLock(t.Context())
		var taken *latchkey.TakenError
		require.ErrorAs(t, err, &taken)
		require.Less(t, time.Since(start), 1100*time.Millisecond)
		require.NoError(t, taken.Err)
		require.Len(t, taken.Holders, 1)
		require.Contains(t, err.Error(), "held by ann (")
		fl.cut(false, 0, 1)
	})
}
