package semaphore_test

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/semaphore"
)

// TestNeverHalfWay checks that a script that stops in the middle, because the
// user may not run one of its commands, neither loses nor makes a permit.
func TestNeverHalfWay(t *testing.T) {
	const look = `return tostring(redis.call('GET', KEYS[1]))`
	const drained = `return tostring(redis.call('GET', KEYS[1])) .. (string.match(redis.call('GET', KEYS[2]) or '', ':.*') or '')`
	begin := [][]any{{"SET", "s", 5}}
	claimed := append(slices.Clone(begin), []any{"SET", "c", 3, "PX", keep})
	taken := append(slices.Clone(begin), []any{"SET", "c", 7, "PX", keep})
	acquire := func(now int64) []any { return []any{2, 7, keep, now + within, ahead} }
	many := func(now int64) []any { return []any{keep, now + within, ahead, 1, 7, 3, 8, 2, 9} }
	release := func(existing int) func(int64) []any {
		return func(now int64) []any { return []any{2, 7, keep, now + within, ahead, "ch", "PUBLISH", existing} }
	}
	drain := func(now int64) []any { return []any{7, keep, now + within, ahead} }
	set := func(ttl int) func(int64) []any {
		return func(now int64) []any { return []any{5, 7, keep, now + within, ahead, "ch", "PUBLISH", ttl} }
	}
	undo := func(int64) []any { return []any{2, 7, keep, "ch", "PUBLISH"} }
	one, more := []string{"s", "c"}, []string{"s", "c", "d", "e"}
	locktest.NeverHalfWay(t,
		locktest.HalfWay{Script: lua.SemaphoreAcquire, Keys: one, Begin: begin, Args: acquire, Look: look},
		locktest.HalfWay{Script: lua.SemaphoreAcquire, Keys: one, Begin: claimed, Args: acquire, Look: look},
		locktest.HalfWay{Script: lua.SemaphoreAcquireMany, Keys: more, Begin: begin, Args: many, Look: look},
		locktest.HalfWay{Script: lua.SemaphoreAcquireMany, Keys: more, Begin: claimed, Args: many, Look: look},
		locktest.HalfWay{Script: lua.SemaphoreRelease, Keys: one, Begin: begin, Args: release(0), Look: look},
		locktest.HalfWay{Script: lua.SemaphoreRelease, Keys: one, Begin: claimed, Args: release(1), Look: look},
		locktest.HalfWay{Script: lua.SemaphoreRelease, Keys: one, Args: release(0), Look: look},
		locktest.HalfWay{Script: lua.SemaphoreDrain, Keys: one, Begin: begin, Args: drain, Look: drained},
		locktest.HalfWay{Script: lua.SemaphoreDrain, Keys: one, Begin: claimed, Args: drain, Look: drained},
		locktest.HalfWay{Script: lua.SemaphoreSet, Keys: one, Args: set(0), Look: look},
		locktest.HalfWay{Script: lua.SemaphoreSet, Keys: one, Args: set(60000), Look: look},
		locktest.HalfWay{Script: lua.SemaphoreUndo, Keys: one, Begin: taken, Args: undo, Look: look},
	)
}

// TestUndoWithoutRights checks that permits of a call that ended without a
// reply come back even if the right to give them back is missing for a while.
func TestUndoWithoutRights(t *testing.T) {
	srv := redistest.Start(t)
	proxy := redistest.NewProxy(t, srv.Addr)
	rdb := redis.NewClient(redistest.AsUser(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1}))
	t.Cleanup(func() { _ = rdb.Close() })
	c := latchkey.New(rdb)
	t.Cleanup(func() { _ = c.Close() })
	s := semaphore.New(c, "s")
	_, err := s.TrySetPermits(t.Context(), 3)
	require.NoError(t, err)
	require.NoError(t, s.Acquire(t.Context(), 1)) // so that Redis knows the script
	require.NoError(t, s.Release(t.Context(), 1))

	ctx, cancel := context.WithCancel(t.Context())
	proxy.OnNext(1, "evalsha", redistest.Swallow)
	done := make(chan error, 1)
	go func() { done <- s.Acquire(ctx, 2) }()
	redistest.Until(t, "the permits to be taken", func() bool { return srv.Do(t, "GET", "s")[0] == "1" })
	srv.Do(t, "ACL", "LOG", "RESET")
	allow := srv.Deny(t, "incrby")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	redistest.Until(t, "the undo to be refused", func() bool { return len(srv.Do(t, "ACL", "LOG")) > 0 })
	allow()
	redistest.Until(t, "all permits to be there", func() bool { return srv.Do(t, "GET", "s")[0] == "3" })
}
