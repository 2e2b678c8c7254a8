package leases_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// A dog is a client in a bubble that counts its renewals.
type dog struct {
	*redistest.Env
	c        *latchkey.Client
	rdb      *redis.Client // of c
	renewals atomic.Int64  // scripts, as Redis saw them
}

// keep runs f in a bubble with a client of its own.
func keep(t *testing.T, f func(t *testing.T, d *dog), opts ...latchkey.Option) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		d := &dog{Env: env, rdb: env.Client()}
		d.c = latchkey.New(d.rdb, opts...)
		t.Cleanup(func() { _ = d.c.Close() })
		env.OnCommand(func(args []string) {
			// By its text the first time, which the one by its digest asks for.
			if len(args) > 1 && args[1] == lua.RLockRenew.SHA {
				d.renewals.Add(1)
			}
		})
		f(t, d)
	})
}

// pttl returns what is left of the lease in Redis.
func (d *dog) pttl(name string) time.Duration { return d.Redis.PTTL(context.Background(), name).Val() }

// believable returns how long a lease is trusted.
func believable(lease time.Duration) time.Duration { return lease - lease/100 - 2*time.Millisecond }

func lost(h *latchkey.Hold) bool {
	select {
	case <-h.Lost():
		return true
	default:
		return false
	}
}

func requireLost(t *testing.T, h *latchkey.Hold) {
	t.Helper()
	require.True(t, lost(h))
	require.ErrorIs(t, context.Cause(h.Context()), latchkey.ErrLeaseLost)
	require.Zero(t, h.Remaining())
	err := h.Unlock(context.Background())
	require.ErrorIs(t, err, latchkey.ErrLeaseLost)
	require.ErrorIs(t, err, latchkey.ErrNotHeld)
}

func requireHeld(t *testing.T, h *latchkey.Hold) {
	t.Helper()
	require.False(t, lost(h))
	require.NoError(t, h.Context().Err())
	require.Positive(t, h.Remaining())
}

// An hour takes 360 renewals, one command every ten seconds, and nothing else.
func TestAnHourOfRenewals(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		h, err := rlock.New(d.c, "a").Lock(t.Context())
		require.NoError(t, err)
		before := d.Commands("")
		d.Advance(time.Hour)
		require.EqualValues(t, 360, d.renewals.Load())
		require.EqualValues(t, 361, d.Commands("")-before, "and the text of the script once")
		require.EqualValues(t, 360, d.c.Stats().Renewals)
		requireHeld(t, h)
		require.Equal(t, 30*time.Second, d.pttl("a"), "it has just been renewed")
		require.Equal(t, believable(30*time.Second), h.Remaining())

		require.NoError(t, h.Unlock(t.Context()))
		require.Zero(t, d.Redis.Exists(t.Context(), "a").Val())
		before = d.Commands("")
		d.Advance(time.Hour)
		require.Equal(t, before, d.Commands(""), "nothing after Unlock")
		require.False(t, lost(h))
	})
}

// A renewal may be executed although its reply is lost. The client then loses
// the hold, but Redis keeps it for long. Unlock releases it.
func TestUnheardRenewalOfALostHold(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		h, err := rlock.New(d.c, "a").Lock(t.Context())
		require.NoError(t, err)
		d.Advance(10 * time.Second)
		requireHeld(t, h) // and the script is known from here on
		d.Link(d.rdb).OnCommand(func(args []string) redistest.Act {
			if len(args) > 1 && args[1] == lua.RLockRenew.SHA {
				return redistest.Swallow
			}
			return redistest.Pass
		})
		<-h.Lost()
		require.Greater(t, d.pttl("a"), 20*time.Second)
		d.Link(d.rdb).OnCommand(nil)
		requireLost(t, h)
		require.Zero(t, d.Redis.Exists(t.Context(), "a").Val())
		sent := d.Commands("")
		requireLost(t, h)
		require.Equal(t, sent, d.Commands(""), "Redis has been asked")
	})
	keep(t, func(t *testing.T, d *dog) {
		h, err := rlock.New(d.c, "a").Lock(t.Context())
		require.NoError(t, err)
		d.Partition(d.rdb)
		<-h.Lost()
		start := time.Now()
		requireLost(t, h)
		require.LessOrEqual(t, time.Since(start), 1100*time.Millisecond, "of a silent Redis")
	})
}

// The same on a real server: a waiter of another client does not wait for the
// lease.
func TestFaultUnheardRenewalOfALostHold(t *testing.T) {
	const lease = 3 * time.Second
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	rdb := s.Client(t, func(o *redis.Options) { o.Addr = proxy.Addr() })
	require.NoError(t, rdb.ScriptLoad(t.Context(), lua.RLockRenew.Source).Err())
	c := latchkey.New(redistest.User(t, rdb), latchkey.WithWatchdogTimeout(lease))
	other := latchkey.New(redistest.User(t, s.Client(t)))
	t.Cleanup(func() { require.NoError(t, errors.Join(c.Close(), other.Close())) })
	h, err := rlock.New(c, "a").Lock(t.Context())
	require.NoError(t, err)
	proxy.OnCommand(func(args []string) redistest.Act {
		if len(args) > 1 && args[1] == lua.RLockRenew.SHA {
			return redistest.Swallow
		}
		return redistest.Pass
	})
	next := rlock.New(other, "a").LockAsync(t.Context())
	<-h.Lost()
	proxy.OnCommand(nil)
	require.Greater(t, s.Client(t).PTTL(t.Context(), "a").Val(), lease/4)
	requireLost(t, h)
	left := s.Client(t).HGet(t.Context(), "a", h.HolderID()).Val()
	require.Empty(t, left, "given back")
	got := <-next
	require.NoError(t, got.Err)
	require.NoError(t, got.Value.Unlock(t.Context()))
}

// The holder has taken the lock again while its earlier hold was being lost. An
// Unlock of the earlier hold takes nothing away.
func TestUnlockAfterLossSparesTheNextHold(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		ctx := latchkey.WithHolder(t.Context())
		l := rlock.New(d.c, "a")
		h, err := l.Lock(ctx, latchkey.Lease(10*time.Second))
		require.NoError(t, err)
		d.Advance(9850 * time.Millisecond)
		p := d.Link(d.rdb)
		p.HoldFor(200 * time.Millisecond)
		p.OnNext(1, "evalsha", redistest.Late)
		reenters := l.LockAsync(ctx) // what is gone when it gets there
		d.Advance(40 * time.Millisecond)
		requireHeld(t, h)
		next := l.LockAsync(ctx) // behind that one
		require.ErrorIs(t, (<-reenters).Err, latchkey.ErrLeaseLost)
		got := <-next
		require.NoError(t, got.Err)
		requireLost(t, h)
		require.EqualValues(t, 1, d.Redis.Exists(ctx, "a").Val())
		requireHeld(t, got.Value)
		require.NoError(t, got.Value.Unlock(ctx))
	})
}

func TestKeyVanishes(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		h, err := rlock.New(d.c, "a").Lock(t.Context())
		require.NoError(t, err)
		d.Advance(25 * time.Second)
		require.NoError(t, d.Redis.Del(t.Context(), "a").Err())
		d.Advance(5*time.Second - 1)
		requireHeld(t, h)
		d.Advance(1)
		requireLost(t, h)
		require.EqualValues(t, 1, d.c.Stats().Losses)
		require.Zero(t, d.Redis.Exists(t.Context(), "a").Val(), "renewal does not create")
		n := d.renewals.Load()
		d.Advance(time.Hour)
		require.Equal(t, n, d.renewals.Load())

		// A lost one is not in the way of the next (WD-05).
		h, err = rlock.New(d.c, "a").Lock(t.Context())
		require.NoError(t, err)
		d.Advance(time.Minute)
		requireHeld(t, h)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// The server falls silent. The hold ends on the client's side first.
func TestSilentServer(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		h, err := rlock.New(d.c, "a").Lock(t.Context())
		require.NoError(t, err)
		d.Advance(35 * time.Second) // renewed at 30 s
		d.Partition(d.rdb)
		last := h.Remaining()
		for !lost(h) {
			left := d.pttl("a")
			require.Positive(t, left, "Redis would let another one in")
			require.LessOrEqual(t, h.Remaining(), left)
			require.LessOrEqual(t, h.Remaining(), last)
			last = h.Remaining()
			time.Sleep(7 * time.Millisecond)
		}
		d.Advance(0)
		left := d.pttl("a")
		require.Positive(t, left)
		require.LessOrEqual(t, left, 30*time.Second-believable(30*time.Second), "no earlier than it must")
		requireLost(t, h)

		d.Heal(d.rdb)
		d.Advance(time.Minute)
		require.Zero(t, d.Redis.Exists(t.Context(), "a").Val(), "what was lost is not renewed")
		h, err = rlock.New(d.c, "a").Lock(t.Context())
		require.NoError(t, err)
		d.Advance(time.Minute)
		requireHeld(t, h)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// Two of three renewals get no reply, in all ways in turn, for an hour.
func TestFailedRenewalsAreNoLoss(t *testing.T) {
	for _, act := range []redistest.Act{redistest.LoseRST, redistest.Swallow, redistest.Drop, redistest.RefuseRST} {
		t.Run(act.String(), func(t *testing.T) {
			keep(t, func(t *testing.T, d *dog) {
				h, err := rlock.New(d.c, "a").Lock(t.Context())
				require.NoError(t, err)
				nth := 0
				d.Link(d.rdb).OnCommand(func(args []string) redistest.Act {
					if len(args) > 1 && args[1] == lua.RLockRenew.SHA {
						if nth++; nth%3 != 0 {
							return act
						}
					}
					return redistest.Pass
				})
				d.Advance(10 * time.Minute)
				requireHeld(t, h)
				require.Positive(t, d.Link(d.rdb).Count(act))
				d.Link(d.rdb).OnCommand(nil)
				d.Advance(10 * time.Second)
				require.NoError(t, h.Unlock(t.Context()))
			})
		})
	}
}

func TestMaxHold(t *testing.T) {
	for _, most := range []time.Duration{2 * time.Second, 30 * time.Second, 40 * time.Second, 95 * time.Second} {
		keep(t, func(t *testing.T, d *dog) {
			start := time.Now()
			h, err := rlock.New(d.c, "a").Lock(t.Context(), latchkey.MaxHold(most))
			require.NoError(t, err)
			<-h.Lost()
			took := time.Since(start)
			require.Less(t, took, most)
			require.Greater(t, took, most-2*time.Second)
			d.Advance(time.Until(start.Add(most)) - 1)
			require.EqualValues(t, 1, d.Redis.Exists(t.Context(), "a").Val())
			d.Advance(1)
			require.Zero(t, d.Redis.Exists(t.Context(), "a").Val(), "at most %v, in Redis too", most)
			requireLost(t, h)
		})
	}
}

func TestHoldAtLeast(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		l, ctx := rlock.New(d.c, "a"), t.Context()
		h, err := l.Lock(ctx, latchkey.HoldAtLeast(90*time.Second))
		require.NoError(t, err)
		d.Advance(50 * time.Second) // longer than a lease: it is renewed meanwhile
		require.NoError(t, h.Unlock(ctx))
		require.False(t, lost(h))
		require.Equal(t, 40*time.Second, d.pttl("a"))
		n := d.renewals.Load()
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		d.Advance(40*time.Second - 1)
		_, err = l.TryLock(ctx)
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		d.Advance(1)
		require.Equal(t, n, d.renewals.Load(), "nobody renews what lingers")
		h, err = l.TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestFixedLease(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		const lease = 10 * time.Minute
		h, err := rlock.New(d.c, "a").Lock(t.Context(), latchkey.Lease(lease))
		require.NoError(t, err)
		before := d.Commands("")
		d.Advance(believable(lease) - 1)
		require.Equal(t, before, d.Commands(""), "never renewed")
		requireHeld(t, h)
		require.Equal(t, time.Duration(1), h.Remaining())
		d.Advance(1)
		require.Positive(t, d.pttl("a"))
		requireLost(t, h)
	})
}

// Extend makes the lease longer than the watchdog would. The watchdog continues
// all the same.
func TestExtendAndThenTheWatchdog(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		h, err := rlock.New(d.c, "a").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Extend(t.Context(), 5*time.Minute))
		d.Advance(4 * time.Minute)
		require.Equal(t, time.Minute, d.pttl("a"), "what is longer is left alone")
		d.Advance(time.Hour)
		requireHeld(t, h)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// A holder that has extended its hold learns of a loss as soon as any other.
func TestExtendedHoldHearsOfItsLoss(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		h, err := rlock.New(d.c, "a").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Extend(t.Context(), time.Hour))
		d.Advance(10 * time.Minute)
		requireHeld(t, h)
		require.NoError(t, d.Redis.Del(t.Context(), "a").Err())
		d.Advance(10 * time.Second)
		requireLost(t, h)
	})
}

// Whatever took one hold may have taken more. A hold with a fixed lease learns
// of its loss together with the first hold that does, not at the end of its
// lease.
func TestLossIsLookedFor(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		fixed, err := rlock.New(d.c, "fixed").Lock(t.Context(), latchkey.Lease(time.Hour))
		require.NoError(t, err)
		other, err := rlock.New(d.c, "other").Lock(t.Context(), latchkey.Lease(time.Hour))
		require.NoError(t, err)
		renewed, err := rlock.New(d.c, "renewed").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, d.Redis.Del(t.Context(), "fixed", "renewed").Err())
		d.Advance(11 * time.Second)
		requireLost(t, renewed)
		requireLost(t, fixed)
		requireHeld(t, other)
	})
}

// The longer lease counts, and a renewed lease outweighs a fixed one.
func TestNestedLeases(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		l := rlock.New(d.c, "a")
		outer, err := l.Lock(t.Context(), latchkey.Lease(2*time.Minute))
		require.NoError(t, err)
		inner, err := l.Lock(outer.Context())
		require.NoError(t, err)
		require.Equal(t, 2*time.Minute, d.pttl("a"), "never shortened")
		d.Advance(10 * time.Minute)
		requireHeld(t, outer)
		requireHeld(t, inner)
		require.NoError(t, inner.Unlock(t.Context()))
		n, left := d.renewals.Load(), d.pttl("a")
		d.Advance(left - 1)
		require.Equal(t, n, d.renewals.Load(), "what is left has a fixed lease")
		requireLost(t, outer)
	})
	keep(t, func(t *testing.T, d *dog) {
		l := rlock.New(d.c, "a")
		outer, err := l.Lock(t.Context())
		require.NoError(t, err)
		inner, err := l.Lock(outer.Context(), latchkey.Lease(2*time.Minute))
		require.NoError(t, err)
		short, err := l.Lock(outer.Context(), latchkey.Lease(time.Second), latchkey.Label("x"))
		require.NoError(t, err)
		d.Advance(10 * time.Minute)
		for _, h := range []*latchkey.Hold{short, inner, outer} {
			requireHeld(t, h)
			require.NoError(t, h.Unlock(t.Context()))
			require.False(t, lost(outer))
		}
		require.Empty(t, d.Redis.Keys(t.Context(), "*").Val())
	})
	keep(t, func(t *testing.T, d *dog) {
		l := rlock.New(d.c, "a")
		outer, err := l.Lock(t.Context(), latchkey.MaxHold(time.Minute))
		require.NoError(t, err)
		inner, err := l.Lock(outer.Context(), latchkey.MaxHold(10*time.Minute))
		require.NoError(t, err)
		d.Advance(9 * time.Minute)
		requireHeld(t, inner)
		requireHeld(t, outer)
		free, err := l.Lock(outer.Context())
		require.NoError(t, err)
		d.Advance(10 * time.Minute)
		requireHeld(t, inner)
		require.NoError(t, free.Unlock(t.Context())) // over long since, but for this one
		d.Advance(30 * time.Second)
		requireLost(t, inner)
		requireLost(t, outer)
	})
	keep(t, func(t *testing.T, d *dog) {
		l := rlock.New(d.c, "a")
		outer, err := l.Lock(t.Context(), latchkey.MaxHold(time.Minute))
		require.NoError(t, err)
		inner, err := l.Lock(outer.Context(), latchkey.MaxHold(10*time.Minute))
		require.NoError(t, err)
		d.Advance(9 * time.Minute)
		requireHeld(t, inner)
		d.Advance(time.Minute)
		requireLost(t, inner)
		requireLost(t, outer)
	})
}

// An acquire that was given up leaves nothing behind that is renewed.
func TestAbandonedAcquireIsNotRenewed(t *testing.T) {
	for _, act := range []redistest.Act{redistest.Hold, redistest.Late, redistest.Swallow, redistest.LoseRST} {
		t.Run(act.String(), func(t *testing.T) {
			keep(t, func(t *testing.T, d *dog) {
				l := rlock.New(d.c, "a")
				h, err := l.Lock(t.Context()) // the script is known now
				require.NoError(t, err)
				require.NoError(t, h.Unlock(t.Context()))
				link := d.Link(d.rdb)
				link.HoldFor(2 * time.Second)
				link.OnNext(1, "evalsha", act)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				start := time.Now()
				h, err = l.Lock(ctx)
				if act == redistest.LoseRST { // asked again at once, and told
					require.NoError(t, err)
					require.NoError(t, h.Unlock(t.Context()))
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Equal(t, 300*time.Millisecond, time.Since(start))
				}
				d.Advance(10 * time.Second)
				require.EqualValues(t, 1, link.Count(act))
				require.Zero(t, d.Redis.Exists(t.Context(), "a").Val())
				require.Zero(t, d.c.Stats().Held)
				d.Advance(time.Hour)
				require.Zero(t, d.renewals.Load())
			})
		})
	}
}

// In its last millisecond, 0 ms of a lease remain, which does not mean that its
// rest is unknown.
func TestLastMillisecond(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		l := rlock.New(d.c, "a")
		_, err := l.Lock(t.Context(), latchkey.Lease(10*time.Second))
		require.NoError(t, err)
		d.Advance(10*time.Second - 300*time.Microsecond)
		start := time.Now()
		h, err := l.Lock(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 5*time.Millisecond)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

func TestManyHolds(t *testing.T) {
	keep(t, func(t *testing.T, d *dog) {
		const n = 300
		before := runtime.NumGoroutine()
		var holds []*latchkey.Hold
		for i := range n {
			h, err := rlock.New(d.c, fmt.Sprint("lock ", i)).Lock(t.Context())
			require.NoError(t, err)
			holds = append(holds, h)
		}
		d.Advance(time.Second)
		require.LessOrEqual(t, runtime.NumGoroutine(), before+20, "connections and the loop")
		require.Equal(t, n, d.c.Stats().Held)
		for range 5 {
			scripts := d.renewals.Load()
			d.Advance(10 * time.Second)
			require.EqualValues(t, n/100, d.renewals.Load()-scripts)
		}
		for i, h := range holds {
			requireHeld(t, h)
			require.Greater(t, d.pttl(fmt.Sprint("lock ", i)), 15*time.Second)
		}
		start := time.Now()
		require.NoError(t, d.c.Close())
		require.Less(t, time.Since(start), time.Second)
		require.Empty(t, d.Redis.Keys(t.Context(), "*").Val())
		for _, h := range holds {
			require.False(t, lost(h))
			require.ErrorIs(t, context.Cause(h.Context()), latchkey.ErrClosed)
		}
		sent := d.Commands("")
		d.Advance(time.Hour)
		require.Equal(t, sent, d.Commands(""), "Close stops everything")
	})
}

// Close and an Unlock that waits for its turn run while a renewal is under way.
// The hold is not lost, and the lock is given back.
//
// The outer Unlock continues as soon as the inner one lets it and may return
// first, so each has an error channel of its own.
func TestCloseMeetsUnlock(t *testing.T) {
	slow := latchkey.Observer{RenewFailed: func(string, string, error) { time.Sleep(200 * time.Millisecond) }}
	keep(t, func(t *testing.T, d *dog) {
		l := rlock.New(d.c, "a")
		outer, err := l.Lock(t.Context())
		require.NoError(t, err)
		inner, err := l.Lock(outer.Context())
		require.NoError(t, err)
		d.Link(d.rdb).Delay(100 * time.Millisecond)
		for range 5 { // so that nobody has to dial
			go d.rdb.Ping(t.Context())
		}
		d.Advance(10*time.Second - 50*time.Millisecond)
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- inner.Unlock(t.Context()) }()
		synctest.Wait()
		go func() { second <- outer.Unlock(t.Context()) }()
		d.Advance(70 * time.Millisecond) // the renewal is under way
		require.NotZero(t, d.renewals.Load())
		require.NoError(t, d.c.Close())
		require.NoError(t, <-first)
		require.ErrorIs(t, <-second, latchkey.ErrClosed)
		require.False(t, lost(outer))
		require.Zero(t, d.c.Stats().Losses)
		require.Zero(t, d.Redis.Exists(t.Context(), "a").Val())
	}, latchkey.WithObserver(slow))
}
