package semaphore_test

import (
	"fmt"
	"sort"
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
	"github.com/latchkey-go/latchkey/semaphore"
)

// The deadlines of the scripts: 5 s from now, and the caller's idea of the
// server's clock may be wrong by one second. Claims are kept for a minute.
const (
	within = 5000
	ahead  = within + 1000
	keep   = 60000
)

// A scripted is a server on which scripts run directly, without the library.
type scripted struct {
	*testing.T
	rdb *redis.Client
}

// onBoth runs f against a real server and against the in-memory one.
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

// run runs a script and returns the integers of its reply. A single integer,
// and a server time at the end, are shown as "now".
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
	for i, x := range list {
		if n := x.(int64); i == len(list)-1 && n >= before && n <= s.now() {
			x = "now"
		}
		out = append(out, fmt.Sprint(x))
	}
	return strings.Join(out, " ")
}

// state returns all strings on the server; "…" marks those that expire.
func (s *scripted) state() string {
	s.Helper()
	keys := s.rdb.Keys(s.Context(), "*").Val()
	sort.Strings(keys)
	var out []string
	for _, k := range keys {
		line := k + "=" + s.rdb.Get(s.Context(), k).Val()
		if left := s.rdb.PTTL(s.Context(), k).Val(); left > 0 {
			require.LessOrEqual(s, left, keep*time.Millisecond)
			line += "…"
		}
		out = append(out, line)
	}
	return strings.Join(out, " ")
}

func (s *scripted) acquire(claim string, n, number int) string {
	s.Helper()
	return s.run(lua.SemaphoreAcquire, "s "+claim, n, number, keep, s.now()+within, ahead)
}

func (s *scripted) release(claim string, n, number int, more ...any) string {
	s.Helper()
	args := append([]any{n, number, keep, s.now() + within, ahead, "ch", "PUBLISH"}, more...)
	return s.run(lua.SemaphoreRelease, "s "+claim, args...)
}

func (s *scripted) undo(claim string, n, number int) string {
	s.Helper()
	return s.run(lua.SemaphoreUndo, "s "+claim, n, number, keep, "ch", "PUBLISH")
}

func TestNoSemaphore(t *testing.T) {
	onBoth(t, func(s *scripted) {
		require.Equal(s, "0 0 now", s.acquire("c", 1, 1))
		require.Empty(s, s.state())
	})
}

// The life of one claim: granted, asked again, followed, undone.
func TestClaim(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.do("SET", "s", 5)
		require.Equal(s, "now", s.acquire("c", 3, 1))
		require.Equal(s, "c=1… s=2", s.state())
		require.Equal(s, "0 2 now", s.acquire("d", 3, 1), "too few for another")
		require.Equal(s, "1 2 now", s.acquire("c", 3, 1), "granted already, though there are too few")
		require.Equal(s, "c=1… s=2", s.state())
		require.Equal(s, "1 0 now", s.acquire("c", 2, 2), "the next request; none are left")
		require.Equal(s, "c=2… s=0", s.state())
		s.do("SET", "s", 9)
		require.Equal(s, "-2 0 now", s.acquire("c", 3, 1), "an old one comes again, late")
		require.Equal(s, "c=2… s=9", s.state())

		require.Equal(s, "1", s.undo("c", 2, 2))
		require.Equal(s, "c=-2… s=11", s.state())
		require.Equal(s, "0", s.undo("c", 2, 2), "undone once")
		require.Equal(s, "-2 0 now", s.acquire("c", 2, 2), "undone, and not granted again")
		require.Equal(s, "c=-2… s=11", s.state())
		require.Equal(s, "0", s.undo("c", 4, 3), "undone before it came")
		require.Equal(s, "-2 0 now", s.acquire("c", 4, 3))
		require.Equal(s, "0", s.undo("c", 4, 1), "an old undo")
		require.Equal(s, "c=-3… s=11", s.state())
		require.Equal(s, "now", s.acquire("c", 1, 4))
		require.Equal(s, "c=4… s=10", s.state())
		s.do("DEL", "s")
		require.Equal(s, "0", s.undo("c", 1, 4), "of a semaphore that is gone")
		require.Equal(s, "c=-4…", s.state())
	})
}

func TestReleaseScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		require.Equal(s, "0 now", s.release("c", 1, 1, 1), "only if there is one")
		require.Empty(s, s.state())
		require.Equal(s, "now", s.release("c", 2, 2))
		require.Equal(s, "now", s.release("c", 2, 2))
		require.Equal(s, "c=2… s=2", s.state(), "twice is once")
		require.Equal(s, "now", s.release("c", 1, 3, 1))
		require.Equal(s, "-2 now", s.release("c", 2, 2), "an old one comes again, late")
		require.Equal(s, "c=3… s=3", s.state())
		require.Equal(s, "now", s.release("c", -5, 4))
		require.Equal(s, "now", s.release("c", -5, 4))
		require.Equal(s, "c=4… s=-2", s.state())
		s.do("SET", "s", "9223372036854775807")
		require.Contains(s, s.release("d", 1, 1), "overflow")
		require.Equal(s, "c=4… s=9223372036854775807", s.state(), "what fails changes nothing")
	})
}

func TestSetAndDrainScripts(t *testing.T) {
	onBoth(t, func(s *scripted) {
		set := func(claim string, n, number, ttl int) string {
			return s.run(lua.SemaphoreSet, "s "+claim, n, number, keep, s.now()+within, ahead, "ch", "PUBLISH", ttl)
		}
		drain := func(claim string, number int) string {
			return s.run(lua.SemaphoreDrain, "s "+claim, number, keep, s.now()+within, ahead)
		}
		require.Equal(s, "1 now", set("c", 3, 1, 0))
		require.Equal(s, "1 now", set("c", 3, 1, 0), "the same again")
		require.Equal(s, "0 now", set("d", 4, 1, 0), "another")
		require.Equal(s, "c=1… s=3", s.state())
		require.Equal(s, "1 3 now", drain("e", 7))
		s.do("SET", "s", 9)
		require.Equal(s, "1 3 now", drain("e", 7), "the same again, with the same answer")
		require.Equal(s, "c=1… e=7:3… s=9", s.state())
		s.do("SET", "s", -4)
		require.Equal(s, "1 -4 now", drain("e", 8))
		require.Equal(s, "c=1… e=8:-4… s=0", s.state())
		s.do("FLUSHALL")
		require.Equal(s, "1 0 now", drain("e", 9))
		require.Equal(s, "1 now", set("c", 0, 1, 9000))
		require.Equal(s, "c=1… s=0…", s.state(), "with a time to live")
	})
}

func TestAcquireManyScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		many := func(keys string, pairs ...any) string {
			args := append([]any{keep, s.now() + within, ahead}, pairs...)
			return s.run(lua.SemaphoreAcquireMany, "s "+keys, args...)
		}
		s.do("SET", "s", 5)
		require.Equal(s, "2 1 now", many("a b c", 1, 1, 3, 1, 2, 1), "until one finds too few")
		require.Equal(s, "a=1… b=1… s=1", s.state())
		require.Equal(s, "2 1 now", many("a b c", 1, 1, 3, 1, 2, 1), "twice is once")
		require.Equal(s, "a=1… b=1… s=1", s.state())
		require.Equal(s, "0 1 now", many("d a", 2, 1, 1, 2), "nobody overtakes")
		require.Equal(s, "0", s.undo("e", 1, 1))
		require.Equal(s, "3 0 now", many("b e d", 3, 1, 1, 1, 1, 1), "one who has left is passed over")
		require.Equal(s, "-2 0 now", many("e b", 1, 1, 3, 1), "but does not ask")
		require.Equal(s, "a=1… b=1… d=1… e=-1… s=0", s.state())
	})
}

func TestLateRequests(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.do("SET", "s", 5)
		for what, at := range map[string]int64{"late": s.now() - 1, "from a clock ahead": s.now() + ahead + 5000} {
			require.Equal(s, "-2 0 now", s.run(lua.SemaphoreAcquire, "s c", 1, 1, keep, at, ahead), what)
			require.Equal(s, "-2 0 now", s.run(lua.SemaphoreAcquireMany, "s c", keep, at, ahead, 1, 1), what)
			require.Equal(s, "-2 now", s.run(lua.SemaphoreRelease, "s c", 1, 1, keep, at, ahead, "ch", "PUBLISH"), what)
			require.Equal(s, "-2 now", s.run(lua.SemaphoreSet, "x c", 1, 1, keep, at, ahead, "ch", "PUBLISH", 0), what)
			require.Equal(s, "-2 0 now", s.run(lua.SemaphoreDrain, "s c", 1, keep, at, ahead), what)
		}
		require.Equal(s, "s=5", s.state())
	})
}

// A request that was executed in time and arrives again after its deadline is
// reported as done. A caller that was told that it came too late would not undo
// it.
func TestLateRepeats(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.do("SET", "s", 5)
		late := s.now() - 1
		require.Equal(s, "now", s.acquire("a", 2, 1))
		require.Equal(s, "1 0 now", s.run(lua.SemaphoreAcquire, "s a", 2, 1, keep, late, ahead))
		require.Equal(s, "1 0 now", s.run(lua.SemaphoreAcquireMany, "s a b", keep, late, ahead, 2, 1, 1, 1))
		require.Equal(s, "-2 0 now", s.run(lua.SemaphoreAcquireMany, "s b a", keep, late, ahead, 1, 1, 2, 1))
		require.Equal(s, "-2 0 now", s.run(lua.SemaphoreAcquire, "s a", 2, 2, keep, late, ahead), "another one")
		require.Equal(s, "now", s.release("c", 1, 1))
		require.Equal(s, "now", s.run(lua.SemaphoreRelease, "s c", 1, 1, keep, late, ahead, "ch", "PUBLISH"))
		require.Equal(s, "-2 now", s.run(lua.SemaphoreRelease, "s c", 1, 2, keep, late, ahead, "ch", "PUBLISH"), "another one")
		require.Equal(s, "a=1… c=1… s=4", s.state())
		require.Equal(s, "1 4 now", s.run(lua.SemaphoreDrain, "s d", 1, keep, s.now()+within, ahead))
		require.Equal(s, "1 4 now", s.run(lua.SemaphoreDrain, "s d", 1, keep, late, ahead))
		require.Equal(s, "-2 0 now", s.run(lua.SemaphoreDrain, "s d", 2, keep, late, ahead), "another one")
	})
}

// At the memory limit Redis refuses what may need more memory. Giving back must
// work all the same.
func TestMemoryLimit(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	c := locktest.NewClient(t, rdb)
	s := set(t, c, "s", 5)
	require.NoError(t, s.Acquire(ctx, 2))
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	err := s.Acquire(ctx, 1)
	require.ErrorContains(t, err, "OOM")
	var e *latchkey.Error
	require.ErrorAs(t, err, &e)
	require.False(t, e.MaybeApplied())
	require.NoError(t, s.Release(ctx, 2))
	require.Equal(t, 5, available(t, s))
	n, err := s.DrainPermits(ctx)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.NoError(t, s.AddPermits(ctx, 5))
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
	require.Equal(t, 5, available(t, s))
}

// A raw peer does what Java does on the wire: §11 of the notes on Redisson.
func TestRawPeer(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	ctx := t.Context()
	c := locktest.NewClient(t, srv.Client(t))
	s := semaphore.New(c, "s")
	ps := rdb.Subscribe(ctx, "redisson_sc:{s}")
	defer ps.Close()
	_, err := ps.Receive(ctx)
	require.NoError(t, err)
	heard := func(want ...string) {
		t.Helper()
		require.NoError(t, rdb.Publish(ctx, "redisson_sc:{s}", "end").Err())
		var got []string
		for m := range ps.Channel() {
			if m.Payload == "end" {
				break
			}
			got = append(got, m.Payload)
		}
		require.Equal(t, want, got)
	}

	ok, err := s.TrySetPermits(ctx, 3)
	require.NoError(t, err)
	require.True(t, ok)
	heard("3")
	require.Equal(t, "3", rdb.Get(ctx, "s").Val())
	require.NoError(t, s.Release(ctx, 2))
	heard("5") // the total, not what was added
	require.NoError(t, s.AddPermits(ctx, 1))
	heard("6")
	require.NoError(t, s.AddPermits(ctx, -1))
	_, err = s.DrainPermits(ctx)
	require.NoError(t, err)
	heard()
	require.NoError(t, s.AddPermits(ctx, -5))
	require.NoError(t, s.Release(ctx, 2)) // §19.6
	require.Equal(t, "-3", rdb.Get(ctx, "s").Val())
	heard() // never zero or negative
	require.NoError(t, s.Release(ctx, 3))
	heard()
	_, err = s.Delete(ctx)
	require.NoError(t, err)
	_, err = s.TrySetPermits(ctx, 0)
	require.NoError(t, err)
	heard()

	// Java releases: INCRBY and PUBLISH of the total.
	release := redis.NewScript(`local v = redis.call('incrby', KEYS[1], ARGV[1]); redis.call('publish', KEYS[2], v)`)
	var worst time.Duration
	for range 20 {
		got := make(chan time.Time, 1)
		go func() {
			if s.Acquire(ctx, 1) == nil {
				got <- time.Now()
			}
		}()
		redistest.Until(t, "a waiter", func() bool { return c.Stats().Waiting == 1 && c.Stats().Subscriptions == 1 })
		redistest.Until(t, "its subscription", func() bool {
			return srv.Do(t, "PUBSUB", "NUMSUB", "redisson_sc:{s}")[1] == "2"
		})
		start := time.Now()
		require.ErrorIs(t, release.Run(ctx, rdb, []string{"s", "redisson_sc:{s}"}, 1).Err(), redis.Nil)
		worst = max(worst, locktest.Receive(t, "the permit", got).Sub(start))
	}
	t.Log("a release by Java wakes a waiter after at most", worst)
	require.Less(t, worst, 50*time.Millisecond+slack)
}

// slack is the tolerance for the race detector and a busy machine.
const slack = 150 * time.Millisecond

// In a cluster all keys of a semaphore are in one slot.
func TestCluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	c := locktest.NewClient(t, cl.Client(t))
	ctx := t.Context()
	for _, name := range []string{"s", "a{b}", "{b}a"} {
		s := set(t, c, name, 1)
		require.NoError(t, s.Acquire(ctx, 1))
		got := s.AcquireAsync(ctx, 1)
		redistest.Until(t, "a waiter", func() bool { return c.Stats().Waiting == 1 })
		require.NoError(t, s.Release(ctx, 1))
		require.NoError(t, locktest.Receive(t, "the permit", got))
	}
	require.ErrorContains(t, semaphore.New(c, "a{b").Acquire(ctx, 1), "different slots")
}
