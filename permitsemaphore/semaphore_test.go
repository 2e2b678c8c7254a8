package permitsemaphore_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// lease is the watchdog's lease: how long a permit stays out after a crash.
const lease = 30 * time.Second

func set(t testing.TB, c *latchkey.Client, name string, n int) *permitsemaphore.Semaphore {
	t.Helper()
	s := permitsemaphore.New(c, name)
	ok, err := s.TrySetPermits(context.Background(), n)
	require.NoError(t, err)
	require.True(t, ok)
	return s
}

// counts checks how many permits are available and how many are out.
func counts(t testing.TB, s *permitsemaphore.Semaphore, available, out int) {
	t.Helper()
	ctx := context.Background()
	n, err := s.AvailablePermits(ctx)
	require.NoError(t, err)
	require.Equal(t, available, n, "available")
	n, err = s.AcquiredPermits(ctx)
	require.NoError(t, err)
	require.Equal(t, out, n, "out")
	n, err = s.Permits(ctx)
	require.NoError(t, err)
	require.Equal(t, available+out, n, "permits")
}

func lost(p *permitsemaphore.Permit) bool {
	select {
	case <-p.Lost():
		return true
	default:
		return false
	}
}

func TestPermits(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	c := locktest.NewClient(t, rdb)
	ctx := t.Context()
	s := permitsemaphore.New(c, "s")
	require.Equal(t, "s", s.Name())
	counts(t, s, 0, 0)
	_, err := s.TryAcquire(ctx)
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	require.Empty(t, rdb.Keys(ctx, "*").Val())

	s = set(t, c, "s", 4)
	ok, err := s.TrySetPermits(ctx, 9)
	require.NoError(t, err)
	require.False(t, ok)

	one, err := s.Acquire(ctx)
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{32}$", one.ID())
	raw, _ := hex.DecodeString(one.ID())
	ends, err := rdb.ZScore(ctx, "{s}:timeout", string(raw)).Result()
	require.NoError(t, err, "the id is 16 raw bytes")
	require.Equal(t, math.Trunc(ends), ends)
	require.InDelta(t, time.Now().Add(lease).UnixMilli(), ends, 5000)
	left, err := s.LeaseTime(ctx, one.ID())
	require.NoError(t, err)
	require.InDelta(t, lease, left, float64(5*time.Second))
	require.NoError(t, one.Context().Err())

	two, err := s.AcquireN(ctx, 2, latchkey.Lease(time.Minute))
	require.NoError(t, err)
	require.Len(t, two, 2)
	counts(t, s, 1, 3)
	_, err = s.TryAcquireN(ctx, 2)
	require.ErrorIs(t, err, latchkey.ErrNotAcquired, "all or none")
	none, err := s.AcquireN(ctx, 0)
	require.NoError(t, err)
	require.Empty(t, none)
	forever, err := s.TryAcquire(ctx, permitsemaphore.Permanent())
	require.NoError(t, err)
	left, err = s.LeaseTime(ctx, forever.ID())
	require.NoError(t, err)
	require.Negative(t, left)
	require.Equal(t, time.Duration(math.MaxInt64), forever.Remaining())
	raw, _ = hex.DecodeString(forever.ID())
	require.EqualValues(t, int64(922337203685477), rdb.ZScore(ctx, "{s}:timeout", string(raw)).Val())
	counts(t, s, 0, 4)
	require.Equal(t, 4, c.Stats().Held)

	require.NoError(t, one.Release(ctx))
	require.ErrorIs(t, one.Context().Err(), context.Canceled)
	require.False(t, lost(one))
	err = one.Release(ctx)
	require.ErrorIs(t, err, latchkey.ErrNotHeld, "SM-03: once")
	require.NotErrorIs(t, err, latchkey.ErrLeaseLost)
	require.ErrorIs(t, one.Extend(ctx, time.Second), latchkey.ErrNotHeld)
	require.ErrorIs(t, s.Release(ctx, one.ID()), latchkey.ErrNotHeld)
	counts(t, s, 1, 3)

	// All or none.
	err = s.Release(ctx, two[0].ID(), one.ID(), forever.ID(), strings.Repeat("ab", 16), "no id")
	require.ErrorIs(t, err, latchkey.ErrNotHeld)
	require.ErrorContains(t, err, "no id")
	err = s.Release(ctx, two[0].ID(), one.ID(), forever.ID(), strings.Repeat("ab", 16))
	require.ErrorIs(t, err, latchkey.ErrNotHeld)
	require.ErrorContains(t, err, one.ID())
	require.ErrorContains(t, err, strings.Repeat("ab", 16))
	require.NotContains(t, err.Error(), two[0].ID())
	n, err := s.TryRelease(ctx, two[0].ID(), one.ID())
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, two[0].Context().Err(), "nothing was released")
	counts(t, s, 1, 3)
	n, err = s.TryRelease(ctx, two[0].ID(), forever.ID())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.ErrorIs(t, two[0].Context().Err(), context.Canceled, "released by its id")
	require.ErrorIs(t, forever.Context().Err(), context.Canceled)
	require.ErrorIs(t, two[0].Release(ctx), latchkey.ErrNotHeld)

	// By somebody else.
	other := permitsemaphore.New(locktest.NewClient(t, rdb), "s")
	require.NoError(t, <-other.ReleaseAsync(ctx, two[1].ID()))
	counts(t, s, 4, 0)
	err = two[1].Release(ctx)
	require.ErrorIs(t, err, latchkey.ErrNotHeld)
	require.ErrorIs(t, err, latchkey.ErrLeaseLost, "it was ours, and was taken")
	require.True(t, lost(two[1]))
	require.Zero(t, c.Stats().Held)

	ok, err = s.Delete(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = s.Delete(ctx)
	require.NoError(t, err)
	require.False(t, ok)
}

func TestResize(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := permitsemaphore.New(c, "s")
		require.NoError(t, s.SetPermits(ctx, 2), "makes it")
		counts(t, s, 2, 0)
		two, err := s.AcquireN(ctx, 2)
		require.NoError(t, err)
		waiter := s.AcquireAsync(ctx)
		env.Advance(time.Second)
		require.NoError(t, s.SetPermits(ctx, 3))
		third := <-waiter
		require.NoError(t, third.Err)
		counts(t, s, 0, 3)
		require.NoError(t, s.SetPermits(ctx, 1), "with holders out")
		counts(t, s, -2, 3)
		require.NoError(t, s.AddPermits(ctx, 1))
		require.NoError(t, s.AddPermits(ctx, 0))
		counts(t, s, -1, 3)
		require.NoError(t, two[0].Release(ctx))
		require.NoError(t, two[1].Release(ctx))
		counts(t, s, 1, 1)
		require.NoError(t, s.AddPermits(ctx, -2))
		require.NoError(t, third.Value.Release(ctx))
		counts(t, s, 0, 0)
	})
}

func TestBadArguments(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	c := locktest.NewClient(t, rdb)
	ctx := t.Context()
	s := set(t, c, "s", 3)
	p, err := s.Acquire(ctx)
	require.NoError(t, err)
	for what, f := range map[string]func() error{
		"AcquireN":    func() error { _, err := s.AcquireN(ctx, -1); return err },
		"TryAcquireN": func() error { _, err := s.TryAcquireN(ctx, -1); return err },
		"Label":       func() error { _, err := s.Acquire(ctx, latchkey.Label("me"), permitsemaphore.Permanent()); return err },
		"HoldAtLeast": func() error { _, err := s.Acquire(ctx, latchkey.HoldAtLeast(time.Second)); return err },
		"Lease":       func() error { _, err := s.Acquire(ctx, latchkey.Lease(-1)); return err },
		"two leases": func() error {
			_, err := s.Acquire(ctx, latchkey.Lease(time.Second), permitsemaphore.Permanent())
			return err
		},
		"Release":       func() error { return s.Release(ctx) },
		"TryRelease":    func() error { _, err := s.TryRelease(ctx); return err },
		"twice":         func() error { return s.Release(ctx, p.ID(), p.ID()) },
		"TrySetPermits": func() error { _, err := s.TrySetPermits(ctx, -1); return err },
		"SetPermits":    func() error { return s.SetPermits(ctx, -1) },
		"too many":      func() error { _, err := s.TrySetPermits(ctx, math.MaxInt); return err },
		"too many set":  func() error { return s.SetPermits(ctx, math.MaxInt) },
		"too many more": func() error { return s.AddPermits(ctx, math.MaxInt) },
		"too many ids":  func() error { _, err := s.AcquireN(ctx, math.MaxInt); return err },
		"Lease of 2":    func() error { _, err := s.Acquire(ctx, latchkey.Lease(2*time.Millisecond)); return err },
		"MaxHold":       func() error { _, err := s.Acquire(ctx, latchkey.MaxHold(2*time.Millisecond)); return err },
		"Extend":        func() error { return p.Extend(ctx, 0) },
		"Extend by 2":   func() error { return p.Extend(ctx, 2*time.Millisecond) },
		"UpdateLease":   func() error { _, err := s.UpdateLease(ctx, p.ID(), 0); return err },
	} {
		if strings.HasPrefix(what, "too many") && math.MaxInt == math.MaxInt32 {
			continue // no int is too many
		}
		err := f()
		var e *latchkey.Error
		require.ErrorAs(t, err, &e, what)
		require.Equal(t, "permitsemaphore", e.Kind, what)
		require.False(t, e.MaybeApplied(), what)
		require.NotErrorIs(t, err, latchkey.ErrLeaseLost, what)
	}
	counts(t, s, 2, 1)
	ok, err := s.UpdateLease(ctx, "nobody's", time.Second)
	require.NoError(t, err)
	require.False(t, ok)
	_, err = s.LeaseTime(ctx, strings.Repeat("00", 16))
	require.ErrorIs(t, err, latchkey.ErrNotHeld)
	require.PanicsWithValue(t, "permitsemaphore: New: the client is nil", func() { permitsemaphore.New(nil, "s") })
	require.PanicsWithValue(t, "permitsemaphore: New: the name is empty", func() { permitsemaphore.New(c, "") })

	var none *permitsemaphore.Permit
	require.ErrorIs(t, none.Release(ctx), latchkey.ErrNotHeld)
	require.ErrorIs(t, none.Extend(ctx, time.Second), latchkey.ErrNotHeld)
	require.Error(t, none.Context().Err())
	require.Zero(t, none.Remaining())
	require.Nil(t, none.Lost())
	require.Empty(t, none.ID())
}

func TestKeyConflict(t *testing.T) {
	for _, key := range []string{"s", "{s}:timeout"} {
		rdb := redistest.Start(t).Client(t)
		ctx := t.Context()
		s := permitsemaphore.New(locktest.NewClient(t, rdb), "s")
		require.NoError(t, rdb.HSet(ctx, key, "a", 1).Err())
		_, err := s.Acquire(ctx)
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		_, err = s.AvailablePermits(ctx)
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		_, err = s.TryRelease(ctx, strings.Repeat("ab", 16))
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		_, err = s.Delete(ctx)
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		require.ErrorIs(t, s.SetPermits(ctx, 3), latchkey.ErrKeyConflict)
		require.Equal(t, []string{key}, rdb.Keys(ctx, "*").Val())
	}
}

// A key that is not a number of permits is reported as such, and Delete leaves
// it alone.
func TestNoPermits(t *testing.T) {
	for _, value := range []string{"text", "1.5"} {
		rdb := redistest.Start(t).Client(t)
		ctx := t.Context()
		require.NoError(t, rdb.Set(ctx, "s", value, 0).Err())
		s := permitsemaphore.New(locktest.NewClient(t, rdb), "s")
		errs := map[string]error{
			"SetPermits": s.SetPermits(ctx, 3),
			"AddPermits": s.AddPermits(ctx, 1),
		}
		_, errs["Acquire"] = s.Acquire(ctx)
		_, errs["AvailablePermits"] = s.AvailablePermits(ctx)
		_, errs["TrySetPermits"] = s.TrySetPermits(ctx, 1)
		_, errs["Delete"] = s.Delete(ctx)
		for what, err := range errs {
			require.ErrorIs(t, err, latchkey.ErrKeyConflict, what)
		}
		require.Equal(t, value, rdb.Get(ctx, "s").Val())
		require.Equal(t, []string{"s"}, rdb.Keys(ctx, "*").Val(), "nothing else is written")
	}
}

// A permit is renewed until it is released. If its holder is gone, it comes
// back at the end of the lease, to a waiter that sleeps until then.
func TestLeases(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 1)
		p, err := s.Acquire(ctx)
		require.NoError(t, err)
		env.Advance(10 * time.Minute)
		require.NoError(t, p.Context().Err())
		counts(t, s, 0, 1)
		require.EqualValues(t, 60, c.Stats().Renewals)

		doomed := env.Client()
		crash := permitsemaphore.New(locktest.NewClient(t, doomed), "s")
		require.NoError(t, p.Release(ctx))
		p, err = crash.Acquire(ctx)
		require.NoError(t, err)
		waiter := s.AcquireAsync(ctx)
		env.Advance(15 * time.Second) // renewed once
		env.Partition(doomed)
		start := time.Now()
		got := <-waiter
		require.NoError(t, got.Err)
		// Renewed at 10 s, so it ends at 40 s, and 5 s of that were over.
		require.InDelta(t, 25*time.Second, time.Since(start), float64(20*time.Millisecond))
		require.True(t, lost(p), "before anybody else has it")
		require.ErrorIs(t, context.Cause(p.Context()), latchkey.ErrLeaseLost)
		require.Zero(t, p.Remaining())
		counts(t, s, 0, 1)
		require.Zero(t, c.Stats().Rechecked, "the waiter knew when")
	})
}

func TestFixedLease(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 2)
		p, err := s.Acquire(ctx, latchkey.Lease(10*time.Second))
		require.NoError(t, err)
		bounded, err := s.Acquire(ctx, latchkey.MaxHold(time.Minute))
		require.NoError(t, err)
		start := time.Now()
		<-p.Lost()
		require.InDelta(t, 10*time.Second, time.Since(start), float64(200*time.Millisecond))
		require.LessOrEqual(t, time.Since(start), 10*time.Second)
		env.Advance(500 * time.Millisecond)
		counts(t, s, 1, 1) // SM-06: seen at once
		err = p.Release(ctx)
		require.ErrorIs(t, err, latchkey.ErrNotHeld)
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
		require.ErrorIs(t, s.Release(ctx, p.ID()), latchkey.ErrNotHeld, "SM-05: lapsed")
		counts(t, s, 1, 1)
		<-bounded.Lost()
		require.LessOrEqual(t, time.Since(start), time.Minute)
		require.Greater(t, time.Since(start), 59*time.Second)
		env.Advance(time.Minute)
		require.ElementsMatch(t, []string{"s", "{s}:timeout"}, env.Redis.Keys(ctx, "*").Val())
		counts(t, s, 2, 0)
		require.Equal(t, []string{"s"}, env.Redis.Keys(ctx, "*").Val(), "nothing but the count is left")
	})
}

// Extend goes no further than MaxHold. Another lease ends the MaxHold.
func TestExtendWithinMaxHold(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c, ctx := latchkey.New(env.Client()), t.Context()
		defer c.Close()
		s := set(t, c, "s", 2)
		start := time.Now()
		p, err := s.Acquire(ctx, latchkey.MaxHold(10*time.Second))
		require.NoError(t, err)
		relet, err := s.Acquire(ctx, latchkey.MaxHold(10*time.Second))
		require.NoError(t, err)
		ok, err := s.UpdateLease(ctx, relet.ID(), time.Minute)
		require.NoError(t, err)
		require.True(t, ok)
		env.Advance(4 * time.Second)
		require.NoError(t, p.Extend(ctx, time.Hour))
		require.LessOrEqual(t, p.Remaining(), 6*time.Second)
		require.Greater(t, p.Remaining(), 5*time.Second)
		<-p.Lost()
		require.LessOrEqual(t, time.Since(start), 10*time.Second)
		require.ErrorIs(t, p.Extend(ctx, time.Hour), latchkey.ErrLeaseLost)
		env.Advance(10*time.Second + 2*time.Millisecond - time.Since(start))
		counts(t, s, 1, 1)
		require.NoError(t, relet.Extend(ctx, time.Hour))
		require.Greater(t, relet.Remaining(), 59*time.Minute)
		require.NoError(t, relet.Release(ctx))
	})
}

// Redis keeps a permit for longer than its holder trusts it, here by the margin
// of the window. A Release that comes too late gives it back and lets a waiter
// in.
func TestLateReleaseGivesBackTheRest(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		ctx := t.Context()
		rdb := env.Client()
		s := set(t, locktest.NewClient(t, rdb), "s", 1)
		p, err := s.Acquire(ctx, latchkey.Lease(10*time.Second), latchkey.Label("x"))
		require.NoError(t, err)
		other := permitsemaphore.New(locktest.NewClient(t, env.Client()), "s")
		waiter := other.AcquireAsync(ctx)
		<-p.Lost()
		lost := time.Now()
		counts(t, other, 0, 1)
		require.Len(t, env.Redis.Keys(ctx, "latchkey_label*").Val(), 1)
		err = p.Release(ctx)
		require.ErrorIs(t, err, latchkey.ErrNotHeld)
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
		got := <-waiter
		require.NoError(t, got.Err)
		require.LessOrEqual(t, time.Since(lost), time.Millisecond)
		sent := env.Commands("")
		require.ErrorIs(t, p.Release(ctx), latchkey.ErrLeaseLost)
		require.Equal(t, sent, env.Commands(""), "Redis has been asked")
		require.NoError(t, got.Value.Release(ctx))
		counts(t, s, 1, 0)
		require.Empty(t, env.Redis.Keys(ctx, "latchkey_label*").Val())

		p, err = s.Acquire(ctx, latchkey.Lease(10*time.Second))
		require.NoError(t, err)
		env.Partition(rdb)
		<-p.Lost()
		start := time.Now()
		require.ErrorIs(t, p.Release(ctx), latchkey.ErrLeaseLost)
		require.LessOrEqual(t, time.Since(start), time.Second, "of a silent Redis")
		env.Heal(rdb)
	})
}

// A grant whose reply comes after the lease is requested again. If the round
// trip always takes longer than the lease, the call fails and no permit is out.
func TestLateGrantIsAskedForAgain(t *testing.T) {
	for _, always := range []bool{false, true} {
		redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
			ctx := t.Context()
			rdb := env.Client()
			s := set(t, locktest.NewClient(t, rdb), "s", 2)
			p, err := s.Acquire(ctx)
			require.NoError(t, err)
			require.NoError(t, p.Release(ctx))
			env.Link(rdb).Delay(1200 * time.Millisecond)
			got := make(chan error, 1)
			go func() {
				ps, err := s.AcquireN(ctx, 2, latchkey.Lease(time.Second))
				if err == nil {
					assert.Positive(t, ps[1].Remaining())
					err = ps[0].Release(ctx)
				}
				if err == nil {
					err = ps[1].Release(ctx)
				}
				got <- err
			}()
			env.Advance(100 * time.Millisecond)
			if !always {
				env.Link(rdb).Delay(0)
				require.NoError(t, <-got)
			} else {
				start := time.Now()
				require.ErrorIs(t, <-got, latchkey.ErrLeaseLost)
				require.Greater(t, time.Since(start), 3*time.Second, "it has tried again")
			}
			env.Link(rdb).Delay(0)
			env.Advance(time.Minute)
			counts(t, s, 2, 0)
		})
	}
}

// A caller that asks again after such a grant, and finds that others have come
// meanwhile, waits no longer in all than its Wait.
func TestLateGrantEndsWithTheWait(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		ctx := t.Context()
		rdb := env.Client()
		s := set(t, locktest.NewClient(t, rdb), "s", 1)
		other := permitsemaphore.New(locktest.NewClient(t, env.Client()), "s")
		p, err := s.Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx))
		env.Link(rdb).Delay(1200 * time.Millisecond)
		start := time.Now()
		got := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx, latchkey.Lease(time.Second), latchkey.Wait(3*time.Second))
			got <- err
		}()
		env.Advance(1100 * time.Millisecond)
		p, err = other.TryAcquire(ctx) // the lease is over for Redis
		require.NoError(t, err)
		require.ErrorIs(t, <-got, latchkey.ErrNotAcquired)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.NoError(t, p.Release(ctx))
		env.Link(rdb).Delay(0)
		env.Advance(time.Minute)
		counts(t, s, 1, 0)
	})
}

// A late reply to Extend does not affect the lease that the permit has got
// since.
func TestLateExtendSparesNextLease(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		rdb := env.Client()
		s := set(t, locktest.NewClient(t, rdb), "s", 1)
		p, err := s.Acquire(ctx, latchkey.Lease(10*time.Second))
		require.NoError(t, err)
		var updated atomic.Bool
		locktest.AfterScripts(rdb, func(any) {
			if updated.CompareAndSwap(false, true) {
				ok, err := s.UpdateLease(ctx, p.ID(), 3*time.Second)
				assert.NoError(t, err)
				assert.True(t, ok)
			}
		})
		require.NoError(t, p.Extend(ctx, time.Hour))
		require.InDelta(t, 3*time.Second, p.Remaining(), float64(time.Second))
		start := time.Now()
		<-p.Lost()
		require.InDelta(t, 3*time.Second, time.Since(start), float64(100*time.Millisecond))
	})
}

func TestExtendAndUpdate(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 3)
		p, err := s.Acquire(ctx, latchkey.Lease(10*time.Second))
		require.NoError(t, err)
		env.Advance(5 * time.Second)
		require.NoError(t, p.Extend(ctx, 20*time.Second))
		left, err := s.LeaseTime(ctx, p.ID())
		require.NoError(t, err)
		require.Equal(t, 20*time.Second, left)
		require.NoError(t, p.Extend(ctx, time.Second), "never shorter")
		left, err = s.LeaseTime(ctx, p.ID())
		require.NoError(t, err)
		require.Equal(t, 20*time.Second, left)
		require.InDelta(t, 20*time.Second, p.Remaining(), float64(time.Second))

		ok, err := s.UpdateLease(ctx, p.ID(), 3*time.Second)
		require.NoError(t, err)
		require.True(t, ok)
		start := time.Now()
		<-p.Lost()
		require.InDelta(t, 3*time.Second, time.Since(start), float64(100*time.Millisecond))

		renewed, err := s.Acquire(ctx)
		require.NoError(t, err)
		ok, err = s.UpdateLease(ctx, renewed.ID(), -1)
		require.NoError(t, err)
		require.True(t, ok)
		env.Advance(time.Hour)
		left, err = s.LeaseTime(ctx, renewed.ID())
		require.NoError(t, err)
		require.Negative(t, left)
		require.NoError(t, renewed.Context().Err())
		require.NoError(t, renewed.Release(ctx))

		other, err := s.Acquire(ctx)
		require.NoError(t, err)
		ok, err = s.UpdateLease(ctx, other.ID(), 5*time.Second)
		require.NoError(t, err)
		require.True(t, ok)
		start = time.Now()
		<-other.Lost()
		require.InDelta(t, 5*time.Second, time.Since(start), float64(100*time.Millisecond), "it is not renewed any more")
		ok, err = s.UpdateLease(ctx, p.ID(), 3*time.Second)
		require.NoError(t, err)
		require.False(t, ok)
	})
}

// A permit is held all the time while its lease is changed.
func TestUpdateAtAnyMoment(t *testing.T) {
	s := set(t, locktest.NewClient(t, redistest.Start(t).Client(t)), "s", 1)
	p, err := s.Acquire(t.Context())
	require.NoError(t, err)
	var gone atomic.Bool
	var looking sync.WaitGroup
	looks, end := context.WithCancel(t.Context())
	for range 4 {
		looking.Go(func() {
			for looks.Err() == nil && !gone.Load() {
				gone.CompareAndSwap(false, p.Remaining() == 0)
			}
		})
	}
	for start := time.Now(); time.Since(start) < time.Second && !gone.Load(); {
		_, err := s.UpdateLease(t.Context(), p.ID(), time.Minute)
		require.NoError(t, err)
	}
	end()
	looking.Wait()
	require.False(t, gone.Load(), "it is not held for a moment")
	require.NoError(t, p.Release(t.Context()))
}

// Lost is closed within one renewal after the permit has vanished.
func TestVanished(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 2)
		p, err := s.Acquire(ctx)
		require.NoError(t, err)
		q, err := s.Acquire(ctx)
		require.NoError(t, err)
		_, err = s.Delete(ctx)
		require.NoError(t, err)
		start := time.Now()
		<-p.Lost()
		<-q.Lost()
		synctest.Wait() // it is counted behind that
		require.LessOrEqual(t, time.Since(start), 10*time.Second)
		require.EqualValues(t, 2, c.Stats().Losses)
		require.Zero(t, c.Stats().Held)
	})
}

// The nearest deadline wakes a waiter, without a recheck or a message.
func TestNearestDeadline(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		other := set(t, locktest.NewClient(t, env.Client()), "s", 3)
		for _, d := range []time.Duration{4 * time.Second, 2700 * time.Millisecond, time.Hour} {
			_, err := other.Acquire(ctx, latchkey.Lease(d))
			require.NoError(t, err)
		}
		s := permitsemaphore.New(c, "s")
		one, two := s.AcquireAsync(ctx), (<-chan latchkey.Result[*permitsemaphore.Permit])(nil)
		synctest.Wait()
		two = s.AcquireAsync(ctx)
		start := time.Now()
		require.NoError(t, (<-one).Err)
		require.InDelta(t, 2700*time.Millisecond, time.Since(start), float64(10*time.Millisecond))
		require.NoError(t, (<-two).Err)
		require.InDelta(t, 4*time.Second, time.Since(start), float64(10*time.Millisecond))
	})
}

// No message announces the end of a lease. So the next waiter also knows the
// end of the lease of a waiter of its own client that was served before it.
func TestNearestDeadlineBehindAGrant(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		s := set(t, locktest.NewClient(t, env.Redis, latchkey.WithRecheck(time.Hour)), "s", 1)
		p, err := s.Acquire(t.Context())
		require.NoError(t, err)
		first := s.AcquireAsync(t.Context(), latchkey.Lease(500*time.Millisecond))
		synctest.Wait()
		next := s.AcquireAsync(t.Context())
		time.Sleep(time.Minute)
		start := time.Now()
		require.NoError(t, p.Release(t.Context()))
		require.NoError(t, (<-first).Err) // and it is not released
		got := <-next
		require.NoError(t, got.Err)
		assert.Equal(t, 502*time.Millisecond, time.Since(start))
		require.NoError(t, got.Value.Release(t.Context()))
	})
}

func TestTTL(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 2)
		require.NoError(t, env.Redis.PExpire(ctx, "s", time.Hour).Err())
		_, err := s.Acquire(ctx)
		require.NoError(t, err)
		require.Equal(t, time.Hour, env.Redis.PTTL(ctx, "{s}:timeout").Val(), "SM-10: both keys end together")
		require.NoError(t, s.AddPermits(ctx, 3))
		require.NoError(t, s.SetPermits(ctx, 9))
		require.Equal(t, time.Hour, env.Redis.PTTL(ctx, "s").Val())
	})
}

// SM-10: each key may vanish alone.
func TestKeysVanish(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 2)
		_, err := s.Acquire(ctx, latchkey.Lease(time.Second))
		require.NoError(t, err)
		require.NoError(t, env.Redis.Del(ctx, "{s}:timeout").Err())
		_, err = s.TryAcquire(ctx, latchkey.Lease(time.Second))
		require.NoError(t, err)
		require.NoError(t, env.Redis.Del(ctx, "s").Err())
		env.Advance(2 * time.Second)
		_, err = s.TryAcquire(ctx)
		require.NoError(t, err, "what lapsed is there again")
	})
}

func TestManyAreRenewedTogether(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		const n = 250
		s := set(t, c, "s", n)
		all, err := s.AcquireN(ctx, n)
		require.NoError(t, err)
		before := env.Commands("evalsha")
		env.Advance(10*time.Second + time.Millisecond)
		require.LessOrEqual(t, env.Commands("evalsha")-before, int64(4), "100 by one script")
		env.Advance(time.Minute)
		for _, p := range all {
			require.NoError(t, p.Context().Err())
		}
		before = env.Commands("evalsha")
		require.NoError(t, c.Close())
		require.LessOrEqual(t, env.Commands("evalsha")-before, int64(4), "Close gives back 100 by one script")
		require.Equal(t, "250", env.Redis.Get(ctx, "s").Val())
		require.ErrorIs(t, context.Cause(all[0].Context()), latchkey.ErrClosed)
		require.False(t, lost(all[0]))
		require.ErrorIs(t, all[0].Release(ctx), latchkey.ErrClosed)
	})
}

func TestAsync(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		ctx := t.Context()
		s := set(t, c, "s", 3)
		r := <-s.TryAcquireAsync(ctx)
		require.NoError(t, r.Err)
		require.NoError(t, <-r.Value.ReleaseAsync(ctx))
		rs := <-s.AcquireNAsync(ctx, 2)
		require.NoError(t, rs.Err)
		n := <-s.TryReleaseAsync(ctx, rs.Value[0].ID(), rs.Value[1].ID())
		require.NoError(t, n.Err)
		require.Equal(t, 2, n.Value)

		unread, cancel := context.WithCancel(ctx)
		one, many := s.AcquireAsync(unread), s.TryAcquireNAsync(unread, 2)
		synctest.Wait()
		counts(t, s, 0, 3)
		cancel()
		synctest.Wait()
		counts(t, s, 3, 0)
		require.ErrorIs(t, (<-one).Err, context.Canceled)
		require.ErrorIs(t, (<-many).Err, context.Canceled)
	})
}

// A waiter that gives up at any moment leaves nothing behind.
func TestCancelStorm(t *testing.T) {
	srv := redistest.Start(t)
	c := locktest.NewClient(t, srv.Client(t))
	s := set(t, c, "s", 3)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%20)*time.Millisecond)
			defer cancel()
			permits, err := s.AcquireN(ctx, 1+i%3)
			if err != nil {
				assert.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
				return
			}
			for _, p := range permits {
				assert.NoError(t, p.Release(ctx))
			}
		})
	}
	wg.Wait()
	redistest.Until(t, "all permits to be back", func() bool {
		n, err := s.AvailablePermits(context.Background())
		return err == nil && n == 3
	})
	counts(t, s, 3, 0)
	require.Zero(t, c.Stats().Held)
	require.Zero(t, c.Stats().Waiting)
}

// A Release during another slow Release still has the whole unlock timeout.
func TestReleaseBehindSlowRelease(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		const unlockTimeout = 3 * time.Second
		c := locktest.NewClient(t, env.Redis)
		s := set(t, c, "s", 2)
		one, err := s.Acquire(t.Context())
		require.NoError(t, err)
		two, err := s.Acquire(t.Context())
		require.NoError(t, err)

		link := env.Link(env.Redis)
		link.Delay(100 * time.Millisecond)
		require.NoError(t, one.Release(t.Context()))
		link.Delay(0)
		env.Partition()
		start := time.Now()
		require.Error(t, two.Release(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), unlockTimeout-500*time.Millisecond)
		env.Heal()
		require.NoError(t, two.Release(t.Context()))
		counts(t, s, 2, 0)
	})
}

// Only undoing brings back a permanent permit of an acquire without a reply.
// Close waits for that as long as it may, and reports when it could not be
// done.
func TestCloseUndoesPermanent(t *testing.T) {
	for _, heals := range []bool{true, false} {
		t.Run(fmt.Sprintf("heals=%v", heals), func(t *testing.T) {
			locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, other *latchkey.Client) {
				rdb := env.Client()
				c := latchkey.New(redistest.User(t, rdb), latchkey.WithUnlockTimeout(5*time.Second))
				s := set(t, c, "s", 1)
				p, err := s.Acquire(t.Context()) // so that Redis knows the script
				require.NoError(t, err)
				require.NoError(t, p.Release(t.Context()))
				env.Link(rdb).OnNext(1, "evalsha", redistest.Swallow)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				time.AfterFunc(50*time.Millisecond, func() { env.Partition(rdb) }) // before anything is undone
				_, err = s.Acquire(ctx, permitsemaphore.Permanent())
				require.ErrorIs(t, err, context.DeadlineExceeded)
				all := permitsemaphore.New(other, "s")
				counts(t, all, 0, 1)
				if heals {
					time.AfterFunc(3*time.Second, func() { env.Heal(rdb) })
				}
				start := time.Now()
				err = c.Close()
				require.LessOrEqual(t, time.Since(start), 7*time.Second, "the unlock timeout and two seconds")
				if heals {
					require.NoError(t, err)
					counts(t, all, 1, 0)
					return
				}
				require.ErrorContains(t, err, `close "s"`)
				require.ErrorContains(t, err, "could not be undone")
			})
		})
	}
}
