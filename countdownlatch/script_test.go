package countdownlatch_test

import (
	"context"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/latchkeytest"
	"github.com/latchkey-go/latchkey/lua"
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

func onBoth(t *testing.T, f func(s *scripted)) {
	t.Run("Redis", func(t *testing.T) { f(&scripted{t, redistest.Start(t).Client(t)}) })
	t.Run("miniredis", func(t *testing.T) { f(&scripted{t, latchkeytest.NewServer(t).Redis(t)}) })
}

func (s *scripted) now() int64 { return s.rdb.Time(s.Context()).Val().UnixMilli() }

// run runs a script and returns the first integer of its reply.
func (s *scripted) run(script *lua.Script, keys string, args ...any) int64 {
	s.Helper()
	all := []any{"EVAL", script.Source, len(strings.Fields(keys))}
	for _, k := range strings.Fields(keys) {
		all = append(all, k)
	}
	v, err := redistest.UserOnAny(s, s.rdb).Do(s.Context(), append(all, args...)...).Result()
	require.NoError(s, err)
	if list, ok := v.([]any); ok {
		v = list[0]
	}
	return v.(int64)
}

// state returns all strings on the server; those that expire are without a
// value.
func (s *scripted) state() string {
	s.Helper()
	keys := s.rdb.Keys(s.Context(), "*").Val()
	sort.Strings(keys)
	var out []string
	for _, k := range keys {
		line := k + "=" + s.rdb.Get(s.Context(), k).Val()
		if left := s.rdb.PTTL(s.Context(), k).Val(); left > 0 {
			require.LessOrEqual(s, left, keep*time.Millisecond)
			line = k + "…"
		}
		out = append(out, line)
	}
	return strings.Join(out, " ")
}

func TestScripts(t *testing.T) {
	onBoth(t, func(s *scripted) {
		set := func(claim string, n, number int, at int64) int64 {
			return s.run(lua.LatchSet, "l "+claim, n, number, keep, at, ahead, "ch", "PUBLISH")
		}
		down := func(claim string, number int, at int64) int64 {
			return s.run(lua.LatchCountDown, "l "+claim+" ended", number, keep, at, ahead, "ch", "PUBLISH")
		}
		soon := s.now() + within
		require.EqualValues(s, 0, down("a", 1, soon), "there is nothing to count")
		require.Empty(s, s.state())
		require.EqualValues(s, -2, set("a", 2, 1, s.now()-1), "late")
		require.EqualValues(s, -2, set("a", 2, 1, s.now()+60000), "from a clock ahead")
		require.Empty(s, s.state())
		require.EqualValues(s, 1, set("a", 2, 1, soon))
		require.EqualValues(s, 1, set("a", 2, 1, soon), "the same again")
		require.EqualValues(s, 0, set("b", 7, 1, soon), "another")
		require.Equal(s, "a… l=2", s.state())
		require.EqualValues(s, -2, down("b", 1, s.now()-1), "late")
		require.EqualValues(s, 1, down("b", 1, soon))
		require.EqualValues(s, 1, down("b", 1, soon))
		require.Equal(s, "a… b… l=1", s.state(), "CL-06: twice is once")
		require.EqualValues(s, 1, down("b", 2, soon))
		require.EqualValues(s, 1, down("b", 2, soon))
		require.Equal(s, "a… b… ended…", s.state())
		require.EqualValues(s, 1, set("a", 3, 2, soon))
		require.EqualValues(s, 1, down("b", 2, soon), "it does not count for the next count")
		require.EqualValues(s, -2, down("b", 1, soon), "an old one comes again, late")
		require.Equal(s, "a… b… ended… l=3", s.state())
		require.EqualValues(s, 1, s.run(lua.LatchDelete, "l ended", keep, "ch", "PUBLISH"))
		require.EqualValues(s, 0, s.run(lua.LatchDelete, "l ended", keep, "ch", "PUBLISH"))
		require.EqualValues(s, 0, s.run(lua.LatchState, "l ended"))

		// A count of 0, which only Java begins.
		require.NoError(s, s.rdb.Set(s.Context(), "l", 0, 0).Err())
		require.EqualValues(s, 0, down("c", 1, soon))
		require.EqualValues(s, 0, s.rdb.Exists(s.Context(), "l").Val())
	})
}

// §13 and §19.6 of the notes on Redisson, in both directions.
func TestRawPeer(t *testing.T) {
	const channel = "redisson_countdownlatch__channel__{l}"
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	ctx := t.Context()
	c := locktest.NewClient(t, srv.Client(t))
	l := countdownlatch.New(c, "l")
	ps := rdb.Subscribe(ctx, channel)
	defer ps.Close()
	_, err := ps.Receive(ctx)
	require.NoError(t, err)
	heard := func(want ...string) {
		t.Helper()
		require.NoError(t, rdb.Publish(ctx, channel, "end").Err())
		var got []string
		for m := range ps.Channel() {
			if m.Payload == "end" {
				break
			}
			got = append(got, m.Payload)
		}
		require.Equal(t, want, got)
	}
	set(t, l, 2)
	heard("1")
	require.Equal(t, "2", rdb.Get(ctx, "l").Val())
	require.Equal(t, time.Duration(-1), rdb.PTTL(ctx, "l").Val())
	require.NoError(t, l.CountDown(ctx))
	require.Equal(t, "1", rdb.Get(ctx, "l").Val())
	heard()
	require.NoError(t, l.CountDown(ctx))
	require.Zero(t, rdb.Exists(ctx, "l").Val())
	heard("0")
	require.NoError(t, l.CountDown(ctx))
	require.NoError(t, l.CountDown(ctx))
	require.Zero(t, rdb.Exists(ctx, "l").Val())
	heard()
	set(t, l, 9)
	_, err = l.Delete(ctx)
	require.NoError(t, err)
	heard("1", "0") // and not "1", on which Java's waiters sleep on

	// Java sets the count and counts down.
	javaSet := redis.NewScript(`if redis.call('exists', KEYS[1]) == 0 then redis.call('set', KEYS[1], ARGV[2]); redis.call('publish', KEYS[2], ARGV[1]); return 1 else return 0 end`)
	javaDown := redis.NewScript(`local v = redis.call('decr', KEYS[1]); if v <= 0 then redis.call('del', KEYS[1]) end; if v == 0 then redis.call('publish', KEYS[2], ARGV[1]) end; return v`)
	var worst time.Duration
	for range 20 {
		require.EqualValues(t, 1, must(javaSet.Run(ctx, rdb, []string{"l", channel}, 1, 2).Int64()))
		require.EqualValues(t, 2, count(t, l))
		ok, err := l.TrySetCount(ctx, 5)
		require.NoError(t, err)
		require.False(t, ok)
		got := make(chan time.Time, 1)
		go func() {
			if l.Await(ctx) == nil {
				got <- time.Now()
			}
		}()
		redistest.Until(t, "a waiter", func() bool { return srv.Do(t, "PUBSUB", "NUMSUB", channel)[1] == "2" && c.Stats().Waiting == 1 })
		require.EqualValues(t, 1, must(javaDown.Run(ctx, rdb, []string{"l", channel}, 0).Int64()))
		start := time.Now()
		require.EqualValues(t, 0, must(javaDown.Run(ctx, rdb, []string{"l", channel}, 0).Int64()))
		worst = max(worst, locktest.Receive(t, "the end", got).Sub(start))
	}
	t.Log("a count-down by Java wakes a waiter after at most", worst)
	require.Less(t, worst, 4*time.Second, "before it asks by itself")
}

func must(n int64, err error) int64 {
	if err != nil {
		panic(err)
	}
	return n
}

// CL-06: replies are lost and delayed, and connections are cut; each CountDown
// counts exactly once.
func TestCountsOnce(t *testing.T) {
	const callers, each = 16, 20
	srv := redistest.Start(t)
	proxy := redistest.NewProxy(t, srv.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: 200 * time.Millisecond})
	defer rdb.Close()
	c := locktest.NewClient(t, rdb)
	watch := countdownlatch.New(locktest.NewClient(t, srv.Client(t)), "l")
	set(t, watch, callers*each+1)
	var mu sync.Mutex
	n := 0
	proxy.OnCommand(func(args []string) redistest.Act {
		mu.Lock()
		defer mu.Unlock()
		if n++; !strings.HasPrefix(strings.ToLower(args[0]), "eval") {
			return redistest.Pass
		}
		switch {
		case n%7 == 0:
			return redistest.LoseRST
		case n%11 == 0:
			return redistest.RefuseRST
		case n%31 == 0:
			return redistest.Late
		}
		return redistest.Pass
	})
	proxy.HoldFor(250 * time.Millisecond)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			l := countdownlatch.New(c, "l")
			for range each {
				assert.NoError(t, l.CountDown(context.Background()))
			}
		})
	}
	wg.Wait()
	proxy.OnCommand(nil)
	proxy.Release()
	require.Positive(t, proxy.Count(redistest.LoseRST))
	require.NoError(t, c.Close())
	require.EqualValues(t, 1, count(t, watch))
	t.Logf("lost replies %d, refused %d, late %d", proxy.Count(redistest.LoseRST), proxy.Count(redistest.RefuseRST), proxy.Count(redistest.Late))
}

func TestMemoryLimit(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	l := countdownlatch.New(locktest.NewClient(t, rdb), "l")
	set(t, l, 2)
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	require.NoError(t, l.CountDown(ctx))
	require.EqualValues(t, 1, count(t, l))
	require.NoError(t, l.CountDown(ctx))
	_, err := l.TrySetCount(ctx, 1)
	require.ErrorContains(t, err, "OOM")
}

// In a cluster a latch with a hash tag works too, although Java's does not.
func TestCluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	c := locktest.NewClient(t, cl.Client(t))
	for _, name := range []string{"l", "a{b}"} {
		l := countdownlatch.New(c, name)
		set(t, l, 1)
		waiter := l.AwaitAsync(t.Context())
		redistest.Until(t, "a waiter", func() bool { return c.Stats().Waiting == 1 })
		require.NoError(t, l.CountDown(t.Context()))
		require.NoError(t, locktest.Receive(t, "the end", waiter))
	}
}

// A primary that was demoted does not reply that there is nothing to count,
// because it does not know what its successor does.
func TestReplicaCountsNothing(t *testing.T) {
	rdb := redistest.StartReplica(t, redistest.Start(t)).Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
	c := latchkey.New(redistest.User(t, rdb))
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	err := countdownlatch.New(c, "latch").CountDown(t.Context())
	require.ErrorContains(t, err, "READONLY")
}
