package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// The reply to a release was late, so the release was sent again and answered.
// The first request may still arrive, and must not end the next hold of its
// holder.
func TestFaultRepeatedReleaseSparesNextHoldOfItsHolder(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 100*time.Millisecond)
	ctx := latchkey.WithHolder(t.Context())
	l := rlock.New(c, "a")
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	r.on(1, lua.RLockRelease, redistest.Late)
	require.NoError(t, h.Unlock(ctx))
	require.EqualValues(t, 1, r.count(redistest.Late))
	r.free(t, "a")

	begun := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(ctx) })
	next := locktest.Within(t, begun, 5*time.Second).Hold
	require.NotNil(t, next)
	passed := r.count(redistest.Pass)
	r.heal() // now the late one arrives
	redistest.Until(t, "the late request to run", func() bool { return r.count(redistest.Pass) > passed })
	require.Equal(t, map[string]string{next.HolderID(): "1"}, r.fields(t, "a"))
	require.NoError(t, next.Unlock(ctx))
	r.free(t, "a")
}

// twice makes the network deliver the next run of a script twice: at once,
// after which it calls done, and again after the time held. Only the second run
// is answered.
func twice(t *testing.T, env *redistest.Env, rdb *redis.Client, script *lua.Script, held time.Duration, done func()) *redistest.Proxy {
	link := env.Link(rdb)
	link.HoldFor(held)
	first := true
	link.OnCommand(func(args []string) redistest.Act {
		if !first || !locktest.Runs(args, script) {
			return redistest.Pass
		}
		first = false
		all := make([]any, len(args))
		for i, a := range args {
			all[i] = a
		}
		assert.NoError(t, env.Redis.Do(context.Background(), all...).Err())
		done()
		return redistest.Late
	})
	return link
}

// A request that the network delivers twice may be refused as too late although
// its first delivery was granted. A caller that then gives up leaves nothing
// behind.
func TestFaultTooLateTheSecondTime(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client(func(o *redis.Options) { o.ReadTimeout = time.Minute })
		c := locktest.NewClient(t, rdb, latchkey.WithAnswerTimeout(30*time.Second))
		locktest.MustUnlock(t, locktest.MustLock(t, rlock.New(c, "b"))) // the scripts are known from now on
		const held = 7 * time.Second                                    // longer than a request may take
		link := twice(t, env, rdb, lua.RLockAcquire, held, func() {
			assert.True(t, env.Mini.Exists("a"), "it was granted")
		})
		ctx, cancel := context.WithTimeout(t.Context(), held+2*time.Millisecond)
		defer cancel()
		_, err := rlock.New(c, "a").Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, link.Count(redistest.Late))
		env.Advance(2 * time.Second)
		require.False(t, env.Mini.Exists("a"), "held by nobody until its lease ends")
	})
}

// A first request that is refused as too late because the clocks differ leaves
// no doubt. Nor does one that was too late before a plain refusal.
func TestFaultClockAheadIsNoDoubt(t *testing.T) {
	for _, off := range []time.Duration{-1500 * time.Millisecond, -time.Hour, 8 * time.Second} {
		redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
			h := locktest.MustLock(t, rlock.New(locktest.NewClient(t, env.Client()), "a"))
			env.Mini.SetTime(time.Now().Add(off))
			c := locktest.NewClient(t, env.Client())
			_, err := rlock.New(c, "a").TryLock(t.Context())
			require.ErrorIs(t, err, latchkey.ErrNotAcquired)
			var e *latchkey.Error
			require.ErrorAs(t, err, &e)
			require.False(t, e.MaybeApplied(), "%v", off)
			begun := time.Now()
			require.NoError(t, c.Close())
			require.Zero(t, time.Since(begun), "%v", off)
			locktest.MustUnlock(t, h)
		})
	}
}

// A holder whose lease has ended because the server's clock was set forward
// learns of it at Unlock, even if its first request is too late by the unknown
// clock and asks for the lock for another caller as well.
func TestFaultClockLeapIsNoDoubt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		slice time.Duration // without a token it would be handed on in memory in it
		opts  []rlock.Option
	}{
		{"in turn", 0, nil},
		{"fenced, in turn", 0, []rlock.Option{rlock.Fenced()}},
		{"fenced, in a slice", time.Minute, []rlock.Option{rlock.Fenced()}},
	} {
		redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
			c := locktest.NewClient(t, env.Client(), latchkey.WithHandOver(tt.slice))
			l := rlock.New(c, "a", tt.opts...)
			h := locktest.MustLock(t, l)
			waiting := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
			env.Advance(time.Second)
			require.Equal(t, 1, c.Stats().Waiting)
			env.Mini.SetTime(time.Now().Add(time.Hour))
			env.Mini.Del("a")
			require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost, tt.name)
			next := locktest.Within(t, waiting, 100*time.Millisecond)
			require.NoError(t, next.Err)
			locktest.MustUnlock(t, next.Hold)
		})
	}
}

// A release that the network delivers twice may be refused as too late although
// its first delivery was executed. The hold was not lost then.
func TestFaultReleaseTooLateTheSecondTime(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		const held = 800 * time.Millisecond // less than a request may take, but for the clock
		rdb := env.Client(func(o *redis.Options) { o.ReadTimeout = -1 })
		c := locktest.NewClient(t, rdb, latchkey.WithHandOver(0))
		locktest.MustUnlock(t, locktest.MustLock(t, rlock.New(c, "b"))) // the scripts are known from now on
		l := rlock.New(c, "a")
		h := locktest.MustLock(t, l)
		waiting := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
		env.Advance(time.Second)
		require.Equal(t, 1, c.Stats().Waiting)
		env.Mini.SetTime(time.Now().Add(300 * time.Millisecond))
		link := twice(t, env, rdb, lua.RLockRelease, held, func() {
			env.Mini.SetTime(time.Now().Add(held + 300*time.Millisecond)) // it does not go by itself
		})
		require.NoError(t, h.Unlock(t.Context()))
		require.EqualValues(t, 1, link.Count(redistest.Late))
		next := locktest.Within(t, waiting, 4*time.Second)
		require.NoError(t, next.Err)
		locktest.MustUnlock(t, next.Hold)
	})
}

// An event that has broken the connection for wake-ups may have cost Redis its
// data. Holds are looked at then, not only at their next renewal.
func TestFaultLookedAtAfterReconnect(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0, latchkey.WithRecheck(time.Hour))
	h, err := rlock.New(c, "a").Lock(t.Context())
	require.NoError(t, err)
	busy, err := rlock.New(r.client(t, 0), "busy").Lock(t.Context())
	require.NoError(t, err)
	waiting := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "busy").Lock(t.Context()) })
	redistest.Until(t, "the subscription", func() bool {
		return r.servers[0].Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{busy}")[1] == "1" && c.Stats().Waiting > 0
	})

	require.NoError(t, r.direct.Del(t.Context(), "a").Err())
	require.NoError(t, r.direct.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	select {
	case <-h.Lost():
	case <-time.After(5 * time.Second): // the next renewal comes after 10 s
		require.FailNow(t, "not looked at")
	}
	require.NoError(t, busy.Unlock(t.Context()))
	require.NoError(t, locktest.Within(t, waiting, 5*time.Second).Hold.Unlock(t.Context()))
}

// An Extend that was sent and not answered reports MaybeApplied.
func TestFaultExtendWithoutAnswer(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := locktest.NewClient(t, env.Redis)
		h := locktest.MustLock(t, rlock.New(c, "a"))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err := h.Extend(ended, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, maybeApplied(t, err), "nothing was sent")

		env.Link(env.Redis).OnCommand(func(args []string) redistest.Act {
			if locktest.Runs(args, lua.RLockRenew) {
				return redistest.Swallow
			}
			return redistest.Pass
		})
		err = h.Extend(t.Context(), time.Hour)
		require.Error(t, err)
		require.True(t, maybeApplied(t, err))
		require.NoError(t, h.Unlock(t.Context()))
	})
}
