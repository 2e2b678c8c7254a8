package rlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

// acquireMany runs rlock/acquire_many within its deadline. It returns the
// answers.
func (s *scripted) acquireMany(keys []string, lease int, holders ...any) []int64 {
	s.Helper()
	return s.reply(0, lua.RLockAcquireMany, keys, append([]any{lease, s.now() + within, ahead}, holders...)...)
}

// releaseMany runs rlock/release_many for holders that do not come again. It
// returns the answers.
func (s *scripted) releaseMany(keys []string, verb string, args ...any) []int64 {
	s.Helper()
	got, err := s.run(lua.RLockReleaseMany, keys, append([]any{verb, 0, 0}, args...)...)
	require.NoError(s, err)
	require.Zero(s, got[0], "no time is told that was not asked for")
	return got[1:]
}

// TestAcquireManyScript checks that each lock is either taken as rlock/acquire
// takes it, or left alone.
func TestAcquireManyScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.acquire([]string{"mine"}, "me:2", 1, 20000)
		s.acquire([]string{"yours"}, "you:1", 1, 20000)
		s.do("HSET", "endless", "you:1", 1)
		s.do("SET", "odd", "x")
		keys := []string{"free", "mine", "yours", "endless", "odd", "free2"}
		got := s.acquireMany(keys, 30000, "me:1", "me:2", "me:3", "me:4", "me:5", "me:6")
		require.Greater(s, got[2], int64(-20001))
		require.Less(s, got[2], int64(-16000), "what is left of another's lease")
		got[2] = -1
		require.Equal(s, []int64{1, 0, -1, 0, 0, 1}, got)
		state := "endless=map[you:1:1]; free=map[me:1:1] leased; free2=map[me:6:1] leased; " +
			"mine=map[me:2:1] leased; odd=x; yours=map[you:1:1] leased"
		require.Equal(s, state, s.state())
		s.lease("free", 30000)
		s.lease("mine", 20000)

		got = s.acquireMany(keys, 60000, "me:1", "me:2", "me:3", "me:4", "me:5", "me:6")
		got[2] = -1
		require.Equal(s, []int64{0, 0, -1, 0, 0, 0}, got, "again: rlock/acquire tells")
		require.Equal(s, state, s.state(), "again")
		s.lease("free", 30000)
	})
}

func TestReleaseManyScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.listen("ch")
		for _, lists := range []bool{false, true} {
			s.flush()
			s.acquireMany([]string{"a", "b", "listed"}, 30000, "me:1", "me:2", "me:3")
			s.acquire([]string{"yours"}, "you:1", 1, 20000)
			s.do("SET", "odd", "x")
			keys := []string{"a", "yours", "listed", "odd", "gone", "b"}
			want := []int64{2, 0, 2, 0, 0, 2}
			state := "odd=x; yours=map[you:1:1] leased"
			if lists {
				s.do("ZADD", "list:listed", 1, "somebody")
				keys = append(keys, "list:a", "list:yours", "list:listed", "list:odd", "list:gone", "list:b")
				want[2] = 0 // who is listed is given it by rlock/release
				state = "list:listed=zset; listed=map[me:3:1] leased; " + state
			}
			args := []any{"me:1", "ch", "me:1", "ch", "me:3", "ch", "me:1", "ch", "me:1", "ch", "me:2", "ch"}
			require.Equal(s, want, s.releaseMany(keys, "PUBLISH", args...))
			require.Equal(s, state, s.state())
			require.Equal(s, map[bool]string{false: "000", true: "00"}[lists], heard(), "one message for each that was freed")

			require.Equal(s, []int64{0, 0, 0, 0, 0, 0}, s.releaseMany(keys, "PUBLISH", args...), "again: rlock/release tells")
			require.Equal(s, state, s.state(), "again")
			require.Empty(s, heard(), "again")
		}
		s.flush()
		s.acquireMany([]string{"a"}, 30000, "me:1")
		require.Equal(s, []int64{1}, s.releaseMany([]string{"a"}, "NONE", "me:1", "ch"))
		require.Empty(s, heard(), "NONE")
		require.Empty(s, s.state(), "NONE")
	})
}

func TestManyScriptsRefuseToActOutOfTime(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.acquire([]string{"lock"}, "me:1", 1, 30000)
		state := s.state()
		for _, at := range []int64{-1, -10_000_000, ahead + 1000, 10_000_000} {
			got := s.reply(0, lua.RLockAcquireMany, []string{"free"}, 30000, s.now()+at, ahead, "me:2")
			require.Empty(s, got, "acquire, %d ms", at)
			got = s.reply(0, lua.RLockReleaseMany, []string{"lock"}, "PUBLISH", s.now()+at, ahead, "me:1", "ch")
			require.Empty(s, got, "release, %d ms", at)
			require.Equal(s, state, s.state())
		}
		got := s.reply(0, lua.RLockReleaseMany, []string{"lock"}, "PUBLISH", s.now()+within, ahead, "me:1", "ch")
		require.Equal(s, []int64{1}, got, "in time")
		require.Empty(s, s.state(), "in time")
	})
}

// TestManyScriptsThatAreHindered checks that nothing can be taken at the memory
// limit and everything can be given back. The same holds if a user may not run
// one of the commands.
func TestManyScriptsThatAreHindered(t *testing.T) {
	server := redistest.Start(t)
	s := &scripted{T: t, rdb: server.Client(t)}
	s.acquireMany([]string{"a", "b"}, 20000, "me:1", "me:2")
	held := s.state()
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.Equal(t, []int64{0, 0}, s.acquireMany([]string{"c", "d"}, 20000, "me:3", "me:4"))
	require.Equal(t, held, s.state())
	require.Equal(t, []int64{1, 1}, s.releaseMany([]string{"a", "b"}, "PUBLISH", "me:1", "ch", "me:2", "ch"))
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")

	for _, denied := range []string{"hset", "pexpire", "hget", "hdel", "exists", "publish"} {
		s.flush()
		s.acquire([]string{"yours"}, "you:1", 1, 20000)
		allow := server.Deny(t, denied)
		got := s.acquireMany([]string{"a", "yours", "b"}, 20000, "me:1", "me:2", "me:3")
		switch denied {
		case "hset", "pexpire":
			require.Equal(t, []int64{0, 0}, []int64{got[0], got[2]}, "without %s", denied)
		case "hget":
			require.Zero(t, got[1], "without %s", denied)
		default:
			got = s.releaseMany([]string{"a", "b", "list a", "list b"}, "PUBLISH", "me:1", "ch", "me:3", "ch")
			if denied == "publish" {
				require.Equal(t, []int64{1, 1}, got, "without %s", denied)
			} else {
				require.Equal(t, []int64{0, 0}, got, "without %s", denied)
			}
		}
		allow()
		want := map[string]int{"hget": 3, "hdel": 3, "exists": 3}[denied]
		require.EqualValues(t, max(want, 1), s.rdb.DBSize(t.Context()).Val(), "without %s", denied)
	}
}
