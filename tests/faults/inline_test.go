package faults_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// With ContextTimeoutEnabled a command is sent on its caller's goroutine. A
// command that is lost is sent again, and a caller whose context ends returns
// at once, even if the server is silent.
func TestFaultInline(t *testing.T) {
	r := newFaultRig(t)
	c := locktest.NewClient(t, r.dial(t, redis.UniversalOptions{ContextTimeoutEnabled: true}))
	l := rlock.New(c, "a")
	for _, act := range []redistest.Act{redistest.LoseRST, redistest.LoseFIN, redistest.RefuseRST, redistest.Swallow, redistest.Drop} {
		r.proxies[0].OnNext(1, "evalsha", act)
		h, err := l.Lock(t.Context())
		require.NoError(t, err, "%v", act)
		require.Equal(t, "1", r.direct.HGet(t.Context(), "a", h.HolderID()).Val(), "%v", act)
		r.proxies[0].OnNext(1, "evalsha", act)
		require.NoError(t, h.Unlock(t.Context()), "%v", act)
		require.Zero(t, r.direct.Exists(t.Context(), "a").Val(), "%v", act)
		require.Positive(t, r.count(act), "%v", act)
	}

	r.proxies[0].Mute(true)
	for range 2 { // the server answers in time until now, and is known to be slow then
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan time.Time, 1)
		time.AfterFunc(200*time.Millisecond, func() { ended <- time.Now(); cancel() })
		_, err := l.Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, time.Since(<-ended), prompt)
	}
	r.proxies[0].Mute(false)
	redistest.Until(t, "the lock to be free", func() bool {
		h, err := l.TryLock(t.Context())
		return err == nil && h.Unlock(t.Context()) == nil
	})
}

// With ContextTimeoutEnabled a command needs no goroutine, even if its caller's
// context may be cancelled.
func TestInlineNeedsNoGoroutine(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.User(t, s.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true }))
	var mu sync.Mutex
	var callers []string
	locktest.AfterScripts(rdb, func(any) {
		var stack [16 << 10]byte
		mu.Lock()
		defer mu.Unlock()
		callers = append(callers, string(stack[:runtime.Stack(stack[:], false)]))
	})
	l := rlock.New(locktest.NewClient(t, rdb), "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	redistest.Until(t, "commands on the caller's goroutine", func() bool { // a busy machine may make it wait for one
		mu.Lock()
		callers = nil
		mu.Unlock()
		h, err := l.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		mu.Lock()
		defer mu.Unlock()
		return len(callers) > 0 && !slices.ContainsFunc(callers, func(stack string) bool {
			return !strings.Contains(stack, "TestInlineNeedsNoGoroutine")
		})
	})
}

// If a server answers later than a command may take on its caller's goroutine,
// later commands get goroutines of their own, until the server is fast again.
func TestInlineOnASlowServer(t *testing.T) {
	r := newFaultRig(t)
	c := locktest.NewClient(t, r.dial(t, redis.UniversalOptions{ContextTimeoutEnabled: true}))
	l := rlock.New(c, "a")
	r.proxies[0].Delay(80 * time.Millisecond)
	h, err := l.Lock(t.Context()) // finds out
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	var asked atomic.Int64
	r.proxies[0].OnCommand(func(args []string) redistest.Act {
		if locktest.Runs(args, lua.RLockAcquire) {
			asked.Add(1)
		}
		return redistest.Pass
	})
	for range 3 {
		h, err := l.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.EqualValues(t, 3, asked.Load(), "each is asked once")
}

// A command that is not repeated after a lost reply is not given up after the
// time that a command may take on its caller's goroutine.
func TestForceUnlockOnASlowServer(t *testing.T) {
	r := newFaultRig(t)
	c := locktest.NewClient(t, r.dial(t, redis.UniversalOptions{ContextTimeoutEnabled: true}))
	l := rlock.New(c, "a")
	_, err := l.Lock(t.Context())
	require.NoError(t, err)
	r.proxies[0].Delay(80 * time.Millisecond)
	freed, err := l.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
}
