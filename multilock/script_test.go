package multilock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/multilock"
)

// A rawGroup runs the scripts directly on a real server.
type rawGroup struct {
	t   *testing.T
	s   *redistest.Server
	rdb *redis.Client
}

func newRawGroup(t *testing.T, args ...string) *rawGroup {
	t.Helper()
	s := redistest.Start(t, args...)
	return &rawGroup{t, s, s.Client(t)}
}

func (g *rawGroup) now() int64 {
	g.t.Helper()
	at, err := g.rdb.Time(g.t.Context()).Result()
	require.NoError(g.t, err)
	return at.UnixMilli()
}

// run runs a script and returns its result, whose first number is the status.
func (g *rawGroup) run(s *lua.Script, keys []string, args ...any) []int64 {
	g.t.Helper()
	out, err := redistest.UserOnAny(g.t, g.rdb).Eval(g.t.Context(), s.Source, keys, args...).Int64Slice()
	require.NoError(g.t, err)
	return out
}

func claimOf(holder, set string) string { return "latchkey_group:{g}:" + holder + ":" + set }

func (g *rawGroup) acquire(holder string, count int, lease, notAfter int64, values ...any) []int64 {
	g.t.Helper()
	args := append([]any{holder, count, lease, notAfter, 10_000, ""}, values...)
	return g.run(lua.GroupAcquire, []string{"g", claimOf(holder, "s")}, args...)
}

func (g *rawGroup) release(holder string, count int, notAfter int64, values ...any) []int64 {
	g.t.Helper()
	args := append([]any{holder, count, notAfter, 10_000, "ch", "PUBLISH", 0, ""}, values...)
	return g.run(lua.GroupRelease, []string{"g", claimOf(holder, "s")}, args...)
}

func (g *rawGroup) counts(value, holder string) string {
	return g.rdb.HGet(g.t.Context(), "g", value+":"+holder+":lock_count").Val()
}

// TestScriptsReplay checks that a script that runs twice takes effect once.
func TestScriptsReplay(t *testing.T) {
	g := newRawGroup(t)
	soon := g.now() + 5000
	for range 3 {
		require.Equal(t, int64(1), g.acquire("c:1", 1, 60_000, soon, "a", "b")[0])
		require.Equal(t, "1", g.counts("a", "c:1"))
	}
	for range 3 {
		require.Equal(t, int64(1), g.acquire("c:1", 2, 60_000, soon, "a", "b")[0])
		require.Equal(t, "2", g.counts("b", "c:1"))
	}
	require.Equal(t, int64(1), g.release("c:1", 1, 0, "a", "b")[0])
	require.Equal(t, int64(2), g.release("c:1", 1, 0, "a", "b")[0])
	require.Equal(t, "1", g.counts("a", "c:1"))
	require.Equal(t, int64(1), g.release("c:1", 0, 0, "a", "b")[0])
	require.Equal(t, int64(-1), g.release("c:1", 0, 0, "a", "b")[0])
	require.Empty(t, g.s.Do(t, "KEYS", "*"))
}

// TestScriptsRefuse checks that a request that is late, uses a wrong clock,
// belongs to another holder, or builds on a lost hold changes nothing.
func TestScriptsRefuse(t *testing.T) {
	g := newRawGroup(t)
	now := g.now()
	require.Equal(t, int64(-2), g.acquire("c:1", 1, 60_000, now-1000, "a")[0], "late")
	require.Equal(t, int64(-2), g.acquire("c:1", 1, 60_000, now+60_000, "a")[0], "too far ahead")
	require.Equal(t, int64(-1), g.acquire("c:1", 2, 60_000, now+5000, "a")[0], "nothing to re-enter")
	require.Empty(t, g.s.Do(t, "KEYS", "*"))
	require.Equal(t, int64(1), g.acquire("c:1", 1, 60_000, now+5000, "a", "b")[0])
	was := g.rdb.HGetAll(t.Context(), "g").Val()
	got := g.acquire("d:1", 1, 60_000, now+5000, "b", "c")
	require.Zero(t, got[0])
	require.InDelta(t, 60_000, got[1], 5000)
	require.Equal(t, int64(-2), g.release("c:1", 0, now-1000, "a", "b")[0], "a release that comes late")
	require.Equal(t, int64(-1), g.release("d:1", 0, 0, "b", "c")[0])
	require.Equal(t, was, g.rdb.HGetAll(t.Context(), "g").Val())
}

// TestScriptsLease checks that a re-entry never shortens the lease, and that
// the fields and the key have the same lease.
func TestScriptsLease(t *testing.T) {
	g := newRawGroup(t)
	soon := g.now() + 5000
	till := func() int64 {
		ms, err := g.rdb.HGet(t.Context(), "g", "a:c:1:expire_time").Int64()
		require.NoError(t, err)
		return ms - g.now()
	}
	g.acquire("c:1", 1, 60_000, soon, "a")
	g.acquire("c:1", 2, 1_000, soon, "a")
	require.InDelta(t, 60_000, till(), 2000)
	require.InDelta(t, time.Minute, g.rdb.PTTL(t.Context(), "g").Val(), float64(2*time.Second))
	require.InDelta(t, time.Minute, g.rdb.PTTL(t.Context(), claimOf("c:1", "s")).Val(), float64(2*time.Second))
	keys := []string{"g", claimOf("c:1", "s")}
	require.Equal(t, int64(1), g.run(lua.GroupRenew, keys, soon, 10_000, "c:1", 10, 0, 1, "a")[1])
	require.InDelta(t, 60_000, till(), 2000, "a shorter renewal")
	require.Equal(t, int64(1), g.run(lua.GroupRenew, keys, soon, 10_000, "c:1", 120_000, 0, 1, "a")[1])
	require.InDelta(t, 120_000, till(), 2000)
	require.Zero(t, g.run(lua.GroupRenew, keys, soon, 10_000, "c:1", 120_000, 0, 2, "a", "b")[1], "not whole")
	require.Zero(t, g.run(lua.GroupRenew, keys, soon, 10_000, "d:1", 120_000, 0, 1, "a")[1], "another's")
	require.Len(t, g.run(lua.GroupRenew, keys, soon-60_000, 10_000, "c:1", 1, 0, 1, "a"), 1, "late")
	// A value that expired alone, as Java's may, is not held.
	g.rdb.HSet(t.Context(), "g", "a:c:1:expire_time", strconv.FormatInt(g.now()-1, 10))
	require.Zero(t, g.run(lua.GroupRenew, keys, soon, 10_000, "c:1", 120_000, 0, 1, "a")[1])
	require.Equal(t, int64(1), g.acquire("d:1", 1, 60_000, soon, "a")[0])
	require.Equal(t, int64(3), g.rdb.HLen(t.Context(), "g").Val(), "the fields of the dead are gone")
}

// TestScriptsAtMemoryLimit checks that an acquire is refused, and that renewals
// and releases work.
func TestScriptsAtMemoryLimit(t *testing.T) {
	g := newRawGroup(t)
	c := newClient(t, g.rdb, latchkey.WithWatchdogTimeout(600*time.Millisecond))
	l := multilock.NewGroup(c, "g", "a", "b")
	h := locktest.MustLock(t, l)
	inner, err := l.Lock(h.Context())
	require.NoError(t, err)
	lingers := locktest.MustLock(t, multilock.NewGroup(c, "g", "c"), latchkey.HoldAtLeast(2*time.Second))
	g.s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	_, err = multilock.NewGroup(c, "g", "d").TryLock(t.Context())
	require.ErrorContains(t, err, "OOM")
	renewals := c.Stats().Renewals
	redistest.Until(t, "renewals", func() bool { return c.Stats().Renewals > renewals+6 })
	require.Zero(t, c.Stats().Losses)
	locktest.MustUnlock(t, lingers)
	locktest.MustUnlock(t, inner)
	locktest.MustUnlock(t, h)
	g.s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	refused(t, multilock.NewGroup(c, "g", "c"))
	redistest.Until(t, "the rest to lapse", func() bool { return len(g.s.Do(t, "KEYS", "*")) == 0 })
}

// Fields that dead holders have left for values that nobody wants are removed
// by holders of other values, so the group does not grow without bound. Fields
// of a holder that is alive, or was a minute ago, stay.
func TestGroupLosesWhatTheDeadHaveLeft(t *testing.T) {
	g := newRawGroup(t)
	const put = `for i = 1, 200 do
	local owner, value = 'h' .. i .. ':1', ARGV[2] .. i
	redis.call('HSET', KEYS[1], value, owner, value .. ':' .. owner .. ':expire_time', ARGV[1], value .. ':' .. owner .. ':lock_count', 1)
end
redis.call('HSET', KEYS[1], ARGV[2] .. '1:other:2:expire_time', ARGV[1])
return redis.call('PEXPIRE', KEYS[1], 3600000)`
	group := func(ago time.Duration, prefix string) {
		require.NoError(t, g.rdb.Eval(t.Context(), put, []string{"g"}, g.now()-ago.Milliseconds(), prefix).Err())
	}
	group(-time.Hour, "alive")
	group(30*time.Second, "late")
	group(2*time.Minute, "dead")
	fields := func() (n int) {
		for f := range g.rdb.HGetAll(t.Context(), "g").Val() {
			if f[:4] == "dead" {
				n++
			}
		}
		return n
	}
	require.Equal(t, 601, fields())
	for i := 0; fields() > 0; i++ {
		require.Less(t, i, 100, "%d fields are left", fields())
		for range 100 {
			require.EqualValues(t, 1, g.acquire("me:1", 1, 30_000, g.now()+5000, "a", "b")[0])
			require.EqualValues(t, 1, g.release("me:1", 0, g.now()+5000, "a", "b")[0])
		}
	}
	require.EqualValues(t, 2*601, g.rdb.HLen(t.Context(), "g").Val())
	require.EqualValues(t, 0, g.acquire("you:1", 1, 30_000, g.now()+5000, "alive7")[0])
}
