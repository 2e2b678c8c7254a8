package permitsemaphore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// TestRightsTakenAway takes away the right to one of the commands while permits
// expire, are requested and given back. No permit is lost.
func TestRightsTakenAway(t *testing.T) {
	for _, right := range []string{"incrby", "zadd", "zrem"} {
		t.Run(right, func(t *testing.T) {
			s := redistest.Start(t)
			c := latchkey.New(redistest.User(t, s.Client(t)), latchkey.WithUnlockTimeout(200*time.Millisecond))
			t.Cleanup(func() { _ = c.Close() })
			sem := permitsemaphore.New(c, "rights")
			require.NoError(t, sem.SetPermits(t.Context(), 3))
			_, err := sem.Acquire(t.Context(), latchkey.Lease(20*time.Millisecond)) // lapses
			require.NoError(t, err)
			held, err := sem.Acquire(t.Context())
			require.NoError(t, err)
			redistest.Until(t, "a permit to lapse", func() bool {
				return s.Do(t, "EVAL", "local t = redis.call('TIME') return redis.call('ZCOUNT', KEYS[1], 0, t[1] * 1000 + t[2] / 1000)",
					"1", "{rights}:timeout")[0] == "1"
			})
			allow := s.Deny(t, right)
			all := []*permitsemaphore.Permit{held}
			if p, err := sem.TryAcquire(t.Context()); err == nil {
				all = append(all, p)
			}
			all = slices.DeleteFunc(all, func(p *permitsemaphore.Permit) bool { return p.Release(t.Context()) == nil })
			allow()
			for _, p := range all {
				require.NoError(t, p.Release(t.Context()))
			}
			redistest.Until(t, "all permits to be there", func() bool {
				n, err := sem.AvailablePermits(t.Context())
				return err == nil && n == 3
			})
		})
	}
}

// TestNeverHalfWay is the same for each script that changes more than one
// thing, wherever it stops. Two permits are out, and a third has expired.
func TestNeverHalfWay(t *testing.T) {
	const look = `
		local n, out = tonumber(redis.call('GET', KEYS[1]) or 0), {}
		local all = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
		for i = 1, #all, 2 do
			if tonumber(all[i + 1]) <= tonumber(ARGV[1]) then
				n = n + 1
			elseif tonumber(all[i + 1]) > tonumber(ARGV[1]) + 50000 then
				out[#out + 1] = all[i] .. ' long'
			else
				out[#out + 1] = all[i]
			end
		end
		table.sort(out)
		return ((n > 0 or redis.call('EXISTS', KEYS[1]) == 1) and n or 'none') .. ': ' .. table.concat(out, ', ')`
	future := time.Now().Add(30 * time.Second).UnixMilli()
	begin := [][]any{{"SET", "p", 2}, {"ZADD", "out", 1, "over", future, "a", future, "b"}}
	expiring := append(slices.Clone(begin), []any{"PEXPIRE", "p", 60000})
	claimed := append(slices.Clone(begin), []any{"SET", "c", 3, "PX", keep})
	acquire := func(now int64) []any {
		return []any{now + within, ahead, "ch", "PUBLISH", 1, 30000, "c", 2, 0, "d", "e", 1, 30000, "f"}
	}
	changed := func(n int) func(int64) []any {
		return func(now int64) []any { return []any{n, 7, keep, now + within, ahead, "ch", "PUBLISH"} }
	}
	release := func(mode string, ids ...any) func(int64) []any {
		return func(int64) []any { return append([]any{mode, "ch", "PUBLISH", "label:"}, ids...) }
	}
	locktest.NeverHalfWay(t,
		locktest.HalfWay{Script: lua.PermitAcquire, Keys: []string{"p", "out"}, Begin: begin, Args: acquire, Look: look},
		locktest.HalfWay{Script: lua.PermitAcquire, Keys: []string{"p", "out"}, Begin: expiring, Args: acquire, Look: look},
		locktest.HalfWay{Script: lua.PermitAcquire, Keys: []string{"p", "out"}, Begin: begin[:1], Args: acquire, Look: look},
		locktest.HalfWay{Script: lua.PermitAcquire, Keys: []string{"p", "out"}, Begin: begin[1:], Args: acquire, Look: look},
		locktest.HalfWay{Script: lua.PermitRelease, Keys: []string{"p", "out"}, Begin: begin, Args: release("ALL", "a", "b"), Look: look},
		locktest.HalfWay{Script: lua.PermitRelease, Keys: []string{"p", "out"}, Begin: begin, Args: release("ANY", "a", "a", "x"), Look: look},
		locktest.HalfWay{Script: lua.PermitRelease, Keys: []string{"p", "out"}, Begin: begin, Args: release("ALL", "a", "x"), Look: look},
		locktest.HalfWay{Script: lua.PermitRelease, Keys: []string{"p", "out"}, Begin: begin[1:], Args: release("ANY", "a"), Look: look},
		locktest.HalfWay{Script: lua.PermitState, Keys: []string{"p", "out"}, Begin: begin, Args: release("ch", "PUBLISH"), Look: look},
		locktest.HalfWay{Script: lua.PermitDelete, Keys: []string{"p", "out"}, Begin: begin, Args: release("ALL"), Look: look},
		locktest.HalfWay{Script: lua.PermitAdd, Keys: []string{"p", "c"}, Begin: begin, Args: changed(5), Look: available},
		locktest.HalfWay{Script: lua.PermitAdd, Keys: []string{"p", "c"}, Begin: claimed, Args: changed(-5), Look: available},
		locktest.HalfWay{Script: lua.PermitAdd, Keys: []string{"p", "c"}, Args: changed(5), Look: available},
		locktest.HalfWay{Script: lua.PermitSet, Keys: []string{"p", "c"}, Args: changed(5), Look: available},
		locktest.HalfWay{Script: lua.PermitResize, Keys: []string{"p", "out", "c"}, Begin: begin, Args: changed(9), Look: look},
		locktest.HalfWay{Script: lua.PermitResize, Keys: []string{"p", "out", "c"}, Begin: claimed, Args: changed(1), Look: look},
		locktest.HalfWay{Script: lua.PermitResize, Keys: []string{"p", "out", "c"}, Args: changed(1), Look: look},
		locktest.HalfWay{
			Script: lua.PermitUpdate, Keys: []string{"out", "c"}, Begin: begin, Look: leases,
			Args: func(now int64) []any {
				return []any{"a", 90000, 7, keep, now + within, ahead, "ch", "PUBLISH", "label:61"}
			},
		},
	)
}

const (
	available = `return tostring(redis.call('GET', KEYS[1]))`
	leases    = `
		local out = {}
		for i, v in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')) do
			out[i] = i % 2 == 1 and v or math.max(math.floor((v - ARGV[1]) / 60000), -1)
		end
		return table.concat(out, ' ')`
)
