package permitsemaphore_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/latchkeytest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// The deadlines of the scripts: 5 s from now, and the caller's idea of the
// server's clock may be wrong by one second. Claims are kept for a minute.
const (
	within = 5000
	ahead  = within + 1000
	keep   = 60000
)

// never is the end of a permanent lease.
const never int64 = 922337203685477

// A scripted is a server on which scripts run directly, without the library.
type scripted struct {
	*testing.T
	rdb *redis.Client
}

func onBoth(t *testing.T, f func(s *scripted)) {
	t.Run("Redis", func(t *testing.T) { f(&scripted{t, redistest.Start(t).Client(t)}) })
	t.Run("miniredis", func(t *testing.T) { f(&scripted{t, latchkeytest.NewServer(t).Redis(t)}) })
}

func (s *scripted) do(args ...any) any {
	s.Helper()
	v, err := s.rdb.Do(s.Context(), args...).Result()
	require.NoError(s, err, "%v", args)
	return v
}

func (s *scripted) now() int64 { return s.rdb.Time(s.Context()).Val().UnixMilli() }

// run runs a script and returns the integers of its reply. A server time is
// shown as "now".
func (s *scripted) run(script *lua.Script, keys string, args ...any) string {
	s.Helper()
	all := []any{"EVAL", script.Source, len(strings.Fields(keys))}
	for _, k := range strings.Fields(keys) {
		all = append(all, k)
	}
	before := s.now()
	v, err := redistest.UserOnAny(s, s.rdb).Do(s.Context(), append(all, args...)...).Result()
	if err != nil {
		return err.Error()
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, x := range list {
		if n := x.(int64); n >= before && n <= s.now() {
			x = "now"
		}
		out = append(out, fmt.Sprint(x))
	}
	return strings.Join(out, " ")
}

// acquire requests permits with the given ids for one caller. In its reply, the
// time until a lease ends is shown as "soon", if there is one.
func (s *scripted) acquire(lease int, ids ...any) string {
	s.Helper()
	args := append([]any{s.now() + within, ahead, "ch", "PUBLISH", len(ids), lease}, ids...)
	got := strings.Fields(s.run(lua.PermitAcquire, "p out", args...))
	if len(got) == 4 && got[2] != "-1" {
		got[2] = "soon"
	}
	return strings.Join(got, " ")
}

// state returns the number available, and the permits that are out: permanent,
// expired, or with the remaining seconds.
func (s *scripted) state() string {
	s.Helper()
	out := []string{s.rdb.Get(s.Context(), "p").Val()}
	for _, z := range s.rdb.ZRangeWithScores(s.Context(), "out", 0, -1).Val() {
		text := "∞"
		if z.Score != float64(never) {
			left := int64(z.Score) - s.now()
			text = fmt.Sprint((left + 999) / 1000)
			if left <= 0 {
				text = "over"
			}
		}
		out = append(out, fmt.Sprint(z.Member, ":", text))
	}
	return strings.Join(out, " ")
}

func TestAcquireScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		require.Equal(s, "0 0 -1 now", s.acquire(9000, "a"), "there is none")
		require.EqualValues(s, 0, s.do("EXISTS", "p", "out"))
		s.do("SET", "p", 3)
		for range 2 { // twice is once
			require.Equal(s, "1 1 soon now", s.acquire(9000, "a", "b"))
			require.Equal(s, "1 a:9 b:9", s.state())
		}
		require.Equal(s, "0 1 soon now", s.acquire(9000, "c", "d"), "all or none")
		require.Equal(s, "1 a:9 b:9", s.state())
		require.Equal(s, "1 1 soon now", s.acquire(20000, "a", "b"), "the same again: the lease is from now")
		require.Equal(s, "1 a:20 b:20", s.state())
		require.Equal(s, "1 0 soon now", s.acquire(0, "c"))
		require.Equal(s, "0 a:20 b:20 c:∞", s.state())
		s.do("ZADD", "out", s.now()-1, "a", s.now(), "b")
		require.Equal(s, "1 1 -1 now", s.acquire(0, "d"), "what is over is reclaimed")
		require.Equal(s, "1 c:∞ d:∞", s.state())
		s.do("PEXPIRE", "p", 30000)
		require.Equal(s, "1 0 soon now", s.acquire(1000, "e"))
		require.InDelta(s, 30*time.Second, s.rdb.PTTL(s.Context(), "out").Val(), float64(2*time.Second))

		for what, at := range map[string]int64{"late": s.now() - 1, "from a clock ahead": s.now() + ahead + 5000} {
			require.Equal(s, "-2 0 -1 now", s.run(lua.PermitAcquire, "p out", at, ahead, "ch", "PUBLISH", 1, 0, "x"), what)
			require.Equal(s, "-2 now", s.run(lua.PermitSet, "q c", 1, 1, keep, at, ahead, "ch", "PUBLISH"), what)
			require.Equal(s, "-2 now", s.run(lua.PermitAdd, "p c", 1, 1, keep, at, ahead, "ch", "PUBLISH"), what)
			require.Equal(s, "-2 now", s.run(lua.PermitResize, "p out c", 50, 1, keep, at, ahead, "ch", "PUBLISH"), what)
			require.Equal(s, "-2 now", s.run(lua.PermitUpdate, "out claim", "c", 50, 1, keep, at, ahead), what)
			require.Equal(s, "now", s.run(lua.PermitRenew, "out", at, ahead, "c", 5000), what)
		}
		require.Equal(s, "0 e:1 c:∞ d:∞", s.state())
	})
}

func TestAcquireScriptForMany(t *testing.T) {
	onBoth(t, func(s *scripted) {
		many := func(args ...any) string {
			return s.run(lua.PermitAcquire, "p out", append([]any{s.now() + within, ahead, "ch", "PUBLISH"}, args...)...)
		}
		s.do("SET", "p", 4)
		for range 2 {
			require.Equal(s, "2 1 -1 now", many(1, 0, "a", 2, 0, "b", "c", 2, 0, "d", "e", 1, 0, "f"), "nobody overtakes")
			require.Equal(s, "1 a:∞ b:∞ c:∞", s.state())
		}
	})
}

func TestReleaseScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		release := func(mode string, ids ...any) string {
			return s.run(lua.PermitRelease, "p out", append([]any{mode, "ch", "PUBLISH", "label:"}, ids...)...)
		}
		s.do("SET", "p", 0)
		s.do("ZADD", "out", never, "a", s.now()+20000, "b", never, "c", s.now()-1, "over")
		require.Equal(s, "0 1 0", release("ALL", "a", "x"))
		require.Equal(s, "1 b:20 a:∞ c:∞", s.state(), "what was over is reclaimed, nothing else given back")
		require.Equal(s, "0 1 0", release("ALL", "a", "over"), "SM-05")
		require.Equal(s, "2 1 1", release("ALL", "a", "b"))
		require.Equal(s, "0 0 0", release("ALL", "a", "b"), "SM-03: once")
		require.Equal(s, "3 c:∞", s.state())
		require.Equal(s, "1 0 1", release("ANY", "a", "c"))
		require.Equal(s, "4", s.state())
	})
}

func TestOtherScripts(t *testing.T) {
	onBoth(t, func(s *scripted) {
		soon := s.now() + within
		state := func() string { return s.run(lua.PermitState, "p out", "ch", "PUBLISH") }
		require.Equal(s, "0 0 0", state())
		for range 2 {
			require.Equal(s, "1 now", s.run(lua.PermitSet, "p c", 3, 1, keep, soon, ahead, "ch", "PUBLISH"))
		}
		require.Equal(s, "0 now", s.run(lua.PermitSet, "p d", 5, 1, keep, soon, ahead, "ch", "PUBLISH"))
		for range 2 {
			require.Equal(s, "1 now", s.run(lua.PermitAdd, "p c", 2, 2, keep, soon, ahead, "ch", "PUBLISH"))
		}
		require.Equal(s, "-2 now", s.run(lua.PermitAdd, "p c", 3, 1, keep, soon, ahead, "ch", "PUBLISH"), "an old one")
		require.Equal(s, "5", s.state())
		s.do("ZADD", "out", never, "a", s.now()+20000, "b", s.now()-1, "over")
		require.Equal(s, "1 6 2", state())
		for range 2 {
			require.Equal(s, "1 now", s.run(lua.PermitResize, "p out c", 1, 3, keep, soon, ahead, "ch", "PUBLISH"))
		}
		require.Equal(s, "-1 b:20 a:∞", s.state())
		require.Equal(s, "-2 now", s.run(lua.PermitResize, "p out c", 9, 2, keep, soon, ahead, "ch", "PUBLISH"), "an old one")

		require.Equal(s, "-1", s.run(lua.PermitLease, "out", "a"))
		require.Equal(s, "-2", s.run(lua.PermitLease, "out", "over"))
		require.Equal(s, "1 now", s.run(lua.PermitUpdate, "out c", "a", 7000, 4, keep, soon, ahead))
		require.Equal(s, "1 now", s.run(lua.PermitUpdate, "out c", "b", 0, 5, keep, soon, ahead))
		require.Equal(s, "-2 now", s.run(lua.PermitUpdate, "out c", "a", 1, 4, keep, soon, ahead), "an old one")
		require.Equal(s, "0 now", s.run(lua.PermitUpdate, "out c", "x", 7000, 6, keep, soon, ahead))
		require.Equal(s, "-1 a:7 b:∞", s.state())
		s.do("HSET", "hash", "a", 1)
		s.do("ZADD", "out", s.now(), "over")
		require.Equal(s, "now 1 1 0 0 0 1", s.run(lua.PermitRenew, "out out out out hash out", soon, ahead,
			"a", 9000, "b", 9000, "x", 9000, "over", 9000, "a", 9000, "a", 1000))
		s.do("ZREM", "out", "over")
		require.Equal(s, "-1 a:9 b:∞", s.state(), "never shorter")
		require.Equal(s, "1", s.run(lua.PermitDelete, "p out", "label:"))
		require.Equal(s, "0", s.run(lua.PermitDelete, "p out", "label:"))
	})
}

// A raw peer does what Java does on the wire: the vectors of §19.5 of the notes
// on Redisson, in both directions.
func TestRawPeer(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	ctx := t.Context()
	c := locktest.NewClient(t, srv.Client(t))
	s := permitsemaphore.New(c, "p")
	ps := rdb.Subscribe(ctx, "redisson_sc:{p}")
	defer ps.Close()
	_, err := ps.Receive(ctx)
	require.NoError(t, err)
	heard := func(want ...string) {
		t.Helper()
		require.NoError(t, rdb.Publish(ctx, "redisson_sc:{p}", "end").Err())
		var got []string
		for m := range ps.Channel() {
			if m.Payload == "end" {
				break
			}
			got = append(got, m.Payload)
		}
		require.Equal(t, want, got)
	}
	is := func(want string) {
		t.Helper()
		require.Equal(t, want, rdb.Get(ctx, "p").Val())
	}

	_, err = s.TrySetPermits(ctx, 2)
	require.NoError(t, err)
	heard("2")
	_, err = s.Acquire(ctx, latchkey.Lease(300*time.Millisecond)) // acquire 1
	require.NoError(t, err)
	is("1")
	_, err = s.TryAcquireN(ctx, 2) // acquire 2: refused, with the nearest deadline
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	is("1")
	heard()
	two, err := s.AcquireN(ctx, 2, permitsemaphore.Permanent()) // reclaimed first, message 2
	require.NoError(t, err)
	is("0")
	heard("2")
	_, err = s.TryAcquire(ctx)
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	left, err := s.LeaseTime(ctx, two[0].ID())
	require.NoError(t, err)
	require.EqualValues(t, -1, left)
	require.NoError(t, s.SetPermits(ctx, 10))
	is("8")
	heard("10")
	require.NoError(t, s.SetPermits(ctx, 1))
	is("-1")
	heard("1")
	require.NoError(t, two[0].Release(ctx))
	heard() // none are available
	require.NoError(t, two[1].Release(ctx))
	is("1")
	heard("1")
	require.NoError(t, rdb.Set(ctx, "p", 0, time.Hour).Err())
	require.NoError(t, s.AddPermits(ctx, 3))
	is("3")
	heard("3")
	require.Positive(t, rdb.PTTL(ctx, "p").Val(), "which Redisson drops")
	require.NoError(t, rdb.Del(ctx, "p").Err())

	// Java takes a permit, with an id and a deadline of its own, and gives it back.
	require.NoError(t, s.SetPermits(ctx, 1))
	raw := string([]byte{0, 255, 1, 254, 2, 253, 3, 252, 4, 251, 5, 250, 6, 249, 7, 248})
	take := func(ends int64) {
		require.NoError(t, rdb.DecrBy(ctx, "p", 1).Err())
		require.NoError(t, rdb.Do(ctx, "ZADD", "{p}:timeout", ends, raw).Err())
	}
	take(never)
	left, err = s.LeaseTime(ctx, hex.EncodeToString([]byte(raw)))
	require.NoError(t, err)
	require.Negative(t, left)
	require.NoError(t, s.Release(ctx, hex.EncodeToString([]byte(raw))), "Go releases Java's")
	release := redis.NewScript(`local r = redis.call('zrem', KEYS[3], ARGV[1]); if r ~= 1 then return 0 end
local v = redis.call('incrby', KEYS[1], ARGV[2]); redis.call('publish', KEYS[2], v); return 1`)
	var worst time.Duration
	for range 20 {
		take(never)
		got := make(chan time.Time, 1)
		id := make(chan string, 1)
		go func() {
			if p, err := s.Acquire(ctx); err == nil {
				got <- time.Now()
				id <- p.ID()
			}
		}()
		redistest.Until(t, "a waiter", func() bool {
			return c.Stats().Waiting == 1 && srv.Do(t, "PUBSUB", "NUMSUB", "redisson_sc:{p}")[1] == "2"
		})
		start := time.Now()
		require.NoError(t, release.Run(ctx, rdb, []string{"p", "redisson_sc:{p}", "{p}:timeout"}, raw, 1).Err())
		worst = max(worst, locktest.Receive(t, "the permit", got).Sub(start))
		mine, _ := hex.DecodeString(<-id)
		// Java releases Go's.
		require.NoError(t, release.Run(ctx, rdb, []string{"p", "redisson_sc:{p}", "{p}:timeout"}, string(mine), 1).Err())
	}
	t.Log("a release by Java wakes a waiter after at most", worst)
	require.Less(t, worst, 50*time.Millisecond+slack)
}

// slack is the tolerance for the race detector and a busy machine.
const slack = 150 * time.Millisecond

// At the memory limit, permits that are out are renewed and can be given back.
func TestMemoryLimit(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	c := locktest.NewClient(t, rdb, latchkey.WithWatchdogTimeout(900*time.Millisecond))
	s := set(t, c, "s", 2)
	two, err := s.AcquireN(ctx, 2)
	require.NoError(t, err)
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	before := c.Stats().Renewals
	redistest.Until(t, "four renewals", func() bool { return c.Stats().Renewals >= before+8 })
	require.NoError(t, two[0].Context().Err())
	require.NoError(t, two[0].Release(ctx))
	require.NoError(t, s.Release(ctx, two[1].ID()))
	counts(t, s, 2, 0)
}

func TestCluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	c := locktest.NewClient(t, cl.Client(t), latchkey.WithWatchdogTimeout(600*time.Millisecond))
	ctx := t.Context()
	var all []*permitsemaphore.Permit
	for _, name := range []string{"s", "a{b}", "{b}a", "other"} {
		s := set(t, c, name, 1)
		p, err := s.Acquire(ctx)
		require.NoError(t, err)
		all = append(all, p)
	}
	redistest.Until(t, "renewals", func() bool { return c.Stats().Renewals >= 12 })
	for _, p := range all {
		require.NoError(t, p.Release(ctx))
	}
	_, err := permitsemaphore.New(c, "a{b").Acquire(ctx)
	require.ErrorContains(t, err, "different slots")
}
