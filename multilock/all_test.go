package multilock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// TestAllOnTwoServers checks that both members are held and both are given
// back.
func TestAllOnTwoServers(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		a, b := rlock.New(fl.clients[0], "a"), rlock.New(fl.clients[1], "b")
		l := multilock.New(b, a, a)
		require.Equal(t, "a+b", l.Name())
		h := locktest.MustLock(t, l)
		require.Equal(t, "a+b", h.Name())
		require.Positive(t, h.Remaining())
		require.NotEmpty(t, h.HolderID())
		refused(t, rlock.New(fl.more(t)[0], "a"))
		refused(t, b)
		refused(t, l)
		locktest.MustUnlock(t, h)
		ended(t, h, context.Canceled)
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrNotHeld)
		clean(t, fl.envs...)
		require.NoError(t, latchkey.Do(t.Context(), l, func(ctx context.Context) error {
			refused(t, a)
			return nil
		}))
		clean(t, fl.envs...)
	})
}

// TestAllOrNone checks that a refused member leaves nothing of the others.
func TestAllOrNone(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		a, b := rlock.New(fl.clients[0], "a"), rlock.New(fl.clients[1], "b")
		l := multilock.New(a, b)
		for _, taken := range []*rlock.Lock{a, b} {
			h := locktest.MustLock(t, taken)
			refused(t, l)
			start := time.Now()
			got, err := l.TryLock(t.Context(), latchkey.Wait(time.Second))
			require.ErrorIs(t, err, latchkey.ErrNotAcquired)
			require.Nil(t, got)
			require.Equal(t, time.Second, time.Since(start), "Wait is for the whole")
			locktest.MustUnlock(t, h)
			clean(t, fl.envs...)
		}
	})
}

// TestAllHoldsNothingForLong checks that while a member is missing, the others
// are held only for a bounded time.
func TestAllHoldsNothingForLong(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, fl *fleet) {
		c := fl.clients[0]
		a, b := rlock.New(c, "a"), rlock.New(c, "b")
		h := locktest.MustLock(t, b)
		got := make(chan *latchkey.Hold, 1)
		go func() {
			h, err := multilock.New(a, b).Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		time.Sleep(100 * time.Millisecond) // its first patience
		synctest.Wait()
		time.Sleep(time.Millisecond)
		for range redistest.Many(1000, 200) {
			free(t, a)
			time.Sleep(time.Second)
		}
		released := time.Now()
		locktest.MustUnlock(t, h)
		whole := <-got
		require.Equal(t, released, time.Now(), "when it was granted")
		locktest.MustUnlock(t, whole)
		clean(t, fl.envs...)
	})
}

// TestAllDoesNotSpendTheWaitOnTheFirst checks that a first member that is busy
// for a part of the wait leaves the rest of the wait for the others.
func TestAllDoesNotSpendTheWaitOnTheFirst(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, fl *fleet) {
		c := fl.clients[0]
		a, b := rlock.New(c, "a"), rlock.New(c, "b")
		ha, hb := locktest.MustLock(t, a), locktest.MustLock(t, b)
		time.AfterFunc(time.Second, func() { _ = ha.Unlock(context.Background()) })
		time.AfterFunc(3*time.Second, func() { _ = hb.Unlock(context.Background()) })
		start := time.Now()
		h, err := multilock.New(a, b).TryLock(t.Context(), latchkey.Wait(5*time.Second))
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(start))
		locktest.MustUnlock(t, h)
	})
}

// TestAllLosesWithItsFirstMember checks that the Context ends with the first
// loss, that the other members are held until Unlock, and that Unlock gives
// them back and reports the loss.
func TestAllLosesWithItsFirstMember(t *testing.T) {
	inFleet(t, 3, func(t *testing.T, fl *fleet) {
		ms := rlocks("m", fl.clients...)
		h := locktest.MustLock(t, multilock.New(ms...))
		lost := h.Lost()
		start := time.Now()
		fl.envs[1].Mini.Del("m")
		<-h.Context().Done()
		require.Equal(t, 10*time.Second, time.Since(start), "one renewal later")
		<-lost
		ended(t, h, latchkey.ErrLeaseLost)
		time.Sleep(time.Hour)
		require.Equal(t, 2, fl.holding("m"), "members held until Unlock")
		isLost(t, h.Extend(t.Context(), time.Minute))
		isLost(t, h.Unlock(t.Context()))
		clean(t, fl.envs...)
		isLost(t, h.Unlock(t.Context()))
	})
}

// TestAllUnlockFindsALoss checks that a loss that only Unlock finds is
// reported, and that the other members are free.
func TestAllUnlockFindsALoss(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		h := locktest.MustLock(t, multilock.New(rlocks("m", fl.clients...)...))
		lost := h.Lost()
		fl.envs[0].Mini.Del("m")
		isLost(t, h.Unlock(t.Context()))
		<-lost
		clean(t, fl.envs...)
	})
}

// TestAllUnlockTwiceAtOnce checks that one of two concurrent Unlocks releases
// the hold and the other reports that it is not held. They must not release
// some members each.
func TestAllUnlockTwiceAtOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := newClient(t, env.Client())
		for range 100 {
			h := locktest.MustLock(t, multilock.New(rlock.New(c, "a"), rlock.New(c, "b"), rlock.New(c, "c")))
			other := h.UnlockAsync(t.Context())
			errs := []error{h.Unlock(t.Context()), <-other}
			require.Contains(t, errs, nil)
			require.ErrorIs(t, errors.Join(errs...), latchkey.ErrNotHeld)
		}
	})
}

func TestAllRemaining(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		const lease = 10 * time.Second
		h := locktest.MustLock(t, multilock.New(rlocks("m", fl.clients...)...), latchkey.Lease(lease))
		require.Equal(t, window(lease), h.Remaining())
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		require.Equal(t, window(time.Minute), h.Remaining())
		start := time.Now()
		<-h.Lost()
		require.Equal(t, window(time.Minute), time.Since(start))
		isLost(t, h.Unlock(t.Context()))
	})
}

// TestAllShortLease has a member that is busy for longer than the lease. The
// lease is not over when the lock is acquired.
func TestAllShortLease(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, fl *fleet) {
		c := fl.clients[0]
		a, b := rlock.New(c, "a"), rlock.New(c, "b")
		hb := locktest.MustLock(t, b)
		time.AfterFunc(300*time.Millisecond, func() { _ = hb.Unlock(context.Background()) })
		h := locktest.MustLock(t, multilock.New(a, b), latchkey.Lease(200*time.Millisecond))
		require.Equal(t, window(200*time.Millisecond), h.Remaining())
		locktest.MustUnlock(t, h)
	})
}

// TestAllClose checks that the Close of a member's client ends the whole
// without a loss.
func TestAllClose(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		ms := rlocks("m", fl.clients...)
		l := multilock.New(ms...)
		h := locktest.MustLock(t, l)
		require.NoError(t, fl.clients[1].Close())
		ended(t, h, latchkey.ErrClosed)
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrClosed)
		clean(t, fl.envs...)
		_, err := l.Lock(t.Context())
		require.ErrorIs(t, err, latchkey.ErrClosed)
		require.ErrorIs(t, l.Unlock(t.Context()), latchkey.ErrClosed)
		clean(t, fl.envs...)
	})
}

// TestAllReenters re-enters with the Hold's Context and with a holder.
func TestAllReenters(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		a, b := rlock.New(fl.clients[0], "a"), rlock.New(fl.clients[1], "b")
		l := multilock.New(a, b)
		h := locktest.MustLock(t, l)
		inner, err := l.TryLock(h.Context())
		require.NoError(t, err)
		single, err := b.TryLock(inner.Context())
		require.NoError(t, err)
		n, err := b.HoldCount(h.Context())
		require.NoError(t, err)
		require.Equal(t, 3, n)
		locktest.MustUnlock(t, single)
		locktest.MustUnlock(t, inner)
		require.NoError(t, h.Context().Err())
		locktest.MustUnlock(t, h)
		clean(t, fl.envs...)

		ctx := latchkey.WithHolder(t.Context())
		me, _ := latchkey.HolderFrom(ctx)
		first, err := multilock.New(a, b).Lock(ctx)
		require.NoError(t, err)
		require.Equal(t, me, first.Holder())
		nested, err := a.Lock(ctx)
		require.NoError(t, err)
		second, err := multilock.New(b, a).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, multilock.New(a, b).Unlock(ctx), "the latest hold")
		ended(t, second, context.Canceled)
		require.NoError(t, first.Context().Err())
		require.NoError(t, multilock.New(a, b).Unlock(ctx))
		ended(t, first, context.Canceled)
		require.ErrorIs(t, l.Unlock(ctx), latchkey.ErrNotHeld)

		const goroutines = 4 // of one holder: each gives one back
		done := make(chan error)
		for range goroutines {
			_, err := l.Lock(ctx)
			require.NoError(t, err)
		}
		for range goroutines {
			go func() { done <- l.Unlock(ctx) }()
		}
		for range goroutines {
			require.NoError(t, <-done)
		}
		require.NoError(t, nested.Context().Err(), "a hold that is no part of it")
		locktest.MustUnlock(t, nested)
		clean(t, fl.envs...)
	})
}

// TestAllPartGivenBack checks that a member that its holder releases by itself
// ends the whole without a loss.
func TestAllPartGivenBack(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		a, b := rlock.New(fl.clients[0], "a"), rlock.New(fl.clients[1], "b")
		ctx := latchkey.WithHolder(t.Context())
		h, err := multilock.New(a, b).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, a.Unlock(ctx))
		ended(t, h, context.Canceled)
		require.ErrorIs(t, h.Unlock(ctx), latchkey.ErrNotHeld)
		clean(t, fl.envs...)
	})
}

// TestAllNonReentrantMember checks that the error of a member that can never be
// acquired ends the acquire.
func TestAllNonReentrantMember(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		a, b := rlock.New(fl.clients[0], "a"), rlock.New(fl.clients[1], "b", rlock.NonReentrant())
		l := multilock.New(a, b)
		h := locktest.MustLock(t, l)
		_, err := l.Lock(h.Context())
		require.ErrorIs(t, err, latchkey.ErrReentry)
		n, err := a.HoldCount(h.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		locktest.MustUnlock(t, h)
		require.NoError(t, fl.envs[1].Mini.Set("b", "a string"))
		_, err = l.Lock(t.Context())
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		var e *latchkey.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "multilock", e.Kind)
		require.Equal(t, "a+b", e.Name)
		fl.envs[1].Mini.Del("b")
		clean(t, fl.envs...)
	})
}

// TestAllBothHalves checks that both halves of a read-write lock have one
// holder.
func TestAllBothHalves(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, fl *fleet) {
		rw := rwlock.New(fl.clients[0], "rw")
		h := locktest.MustLock(t, multilock.New(rw.ReadLock(), rw.WriteLock()))
		refused(t, rw.ReadLock())
		locktest.MustUnlock(t, h)
		clean(t, fl.envs...)
	})
}

// TestAllNested has members that are multi-locks themselves, of all members or
// of a majority.
func TestAllNested(t *testing.T) {
	inFleet(t, 3, func(t *testing.T, fl *fleet) {
		red := multilock.NewRed(rlocks("r", fl.clients...)...)
		a, b := rlock.New(fl.clients[0], "a"), rlock.New(fl.clients[1], "b")
		g := multilock.NewGroup(fl.clients[2], "g", "1", "2")
		l := multilock.New(red, multilock.New(b, g), a)
		h := locktest.MustLock(t, l)
		for _, m := range []latchkey.Locker{a, b, red, g} {
			refused(t, m)
		}
		again, err := l.TryLock(h.Context())
		require.NoError(t, err)
		locktest.MustUnlock(t, again)
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		synctest.Wait()
		fl.envs[2].Mini.Del("r") // one is a minority
		time.Sleep(time.Minute)
		require.NoError(t, h.Context().Err())
		fl.cut(true, 1)
		<-h.Context().Done()
		ended(t, h, latchkey.ErrLeaseLost)
		fl.cut(false, 1)
		time.Sleep(10 * time.Second)
		isLost(t, h.Unlock(t.Context()))
		clean(t, fl.envs...)

		ctx := latchkey.WithHolder(t.Context())
		_, err = l.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
		clean(t, fl.envs...)
	})
}

// TestAllHoldAtLeast checks that members that were held stay closed, and that
// members that were rolled back do not.
func TestAllHoldAtLeast(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		a, b := rlock.New(fl.clients[0], "a"), rlock.New(fl.clients[1], "b")
		l := multilock.New(a, b)
		hb := locktest.MustLock(t, b)
		_, err := l.TryLock(t.Context(), latchkey.HoldAtLeast(time.Minute))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		free(t, a)
		locktest.MustUnlock(t, hb)
		locktest.MustUnlock(t, locktest.MustLock(t, l, latchkey.HoldAtLeast(time.Minute)))
		refused(t, a)
		refused(t, b)
		time.Sleep(time.Minute + time.Millisecond)
		clean(t, fl.envs...)
	})
}

// TestAllToken checks the token of the only fenced member.
func TestAllToken(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		a, b := rlock.New(fl.clients[0], "a", rlock.Fenced()), rlock.New(fl.clients[1], "b")
		h := locktest.MustLock(t, multilock.New(a, b))
		token, err := a.Token(t.Context())
		require.NoError(t, err)
		require.Equal(t, token, h.Token())
		locktest.MustUnlock(t, h)
		h = locktest.MustLock(t, multilock.New(a, rlock.New(fl.clients[1], "b", rlock.Fenced())))
		require.Zero(t, h.Token(), "tokens of two servers")
		locktest.MustUnlock(t, h)
	})
}

// TestAllSilentServer checks that a cancelled call returns at once, whatever a
// server does, and leaves nothing behind.
func TestAllSilentServer(t *testing.T) {
	inFleet(t, 3, func(t *testing.T, fl *fleet) {
		l := multilock.New(rlocks("m", fl.clients...)...)
		for silent := range fl.envs {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			fl.cut(true, silent)
			start := time.Now()
			_, err := l.Lock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.LessOrEqual(t, time.Since(start), time.Second+100*time.Millisecond)
			cancel()
			fl.cut(false, silent)
			time.Sleep(30 * time.Second)
			clean(t, fl.envs...)
		}
	})
}

// TestAllUnlockSilentServer checks that Unlock tries every member and may be
// called again.
func TestAllUnlockSilentServer(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, fl *fleet) {
		h := locktest.MustLock(t, multilock.New(rlocks("m", fl.clients...)...))
		fl.cut(true, 1)
		start := time.Now()
		err := h.Unlock(t.Context())
		require.Error(t, err)
		var e *latchkey.Error
		require.ErrorAs(t, err, &e)
		require.True(t, e.MaybeApplied())
		require.LessOrEqual(t, time.Since(start), 4*time.Second)
		require.False(t, fl.envs[0].Mini.Exists("m"), "the other member is free")
		fl.cut(false, 1)
		require.NoError(t, h.Unlock(t.Context()), "Unlock again")
		clean(t, fl.envs...)
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrNotHeld)
	})
}

// TestAllForeignMember has a Locker of another package as a member.
func TestAllForeignMember(t *testing.T) {
	type foreign struct{ latchkey.Locker }
	inFleet(t, 1, func(t *testing.T, fl *fleet) {
		a := rlock.New(fl.clients[0], "a")
		l := multilock.New(foreign{a}, rlock.New(fl.clients[0], "b"))
		h := locktest.MustLock(t, l)
		refused(t, a)
		locktest.MustUnlock(t, h)
		_, err := multilock.New(nothing{}).Lock(t.Context())
		require.ErrorContains(t, err, "no Hold and no error")
		clean(t, fl.envs...)
	})
}

type nothing struct{}

func (nothing) Name() string { return "nothing" }

func (nothing) Lock(context.Context, ...latchkey.LockOption) (*latchkey.Hold, error) { return nil, nil } //nolint:nilnil // that is the fault

func (nothing) TryLock(context.Context, ...latchkey.LockOption) (*latchkey.Hold, error) {
	return nil, errors.New("not reached")
}

// TestBadArguments checks that constructors panic, and that invalid options
// fail the acquire before anything is sent.
func TestBadArguments(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := newClient(t, env.Redis)
		panics(t, "New: there are no locks", func() { multilock.New() })
		panics(t, "New: lock 2 is nil", func() { multilock.New(rlock.New(c, "a"), nil) })
		panics(t, "NewRed: there are no locks", func() { multilock.NewRed() })
		panics(t, "locks 1 and 2 are on the same client", func() { multilock.NewRed(rlocks("a", c, c)...) })
		panics(t, "locks 1 and 2 are both on 127.0.0.1:6379", func() {
			multilock.NewRed(rlocks("a", c, newClient(t, env.Client()))...)
		})
		panics(t, "the client is nil", func() { multilock.NewGroup(nil, "g", "a") })
		panics(t, "the name is empty", func() { multilock.NewGroup(c, "", "a") })
		panics(t, "there are no values", func() { multilock.NewGroup(c, "g") })

		l := multilock.New(rlock.New(c, "a"), rlock.New(c, "b"))
		for _, opts := range [][]latchkey.LockOption{
			{latchkey.Lease(-1)},
			{latchkey.Lease(2 * time.Millisecond)},
			{latchkey.MaxHold(2 * time.Millisecond)},
			{latchkey.Lease(time.Second), latchkey.MaxHold(time.Second)},
			{latchkey.Lease(time.Second), latchkey.HoldAtLeast(time.Minute)},
		} {
			_, err := l.Lock(t.Context(), opts...)
			require.ErrorContains(t, err, "multilock: lock")
			_, err = multilock.NewRed(rlock.New(c, "a")).TryLock(t.Context(), opts...)
			require.Error(t, err)
		}
		require.Zero(t, env.Commands(""))
	})
}
