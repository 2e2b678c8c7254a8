package rlock_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

// pass runs rlock/pass within its deadline. It returns {status, token, more}.
func (s *scripted) pass(keys []string, from, to string, lease int, more ...any) []int64 {
	s.Helper()
	args := append([]any{from, to, lease, s.now() + within, ahead}, more...)
	return s.reply(1, lua.RLockPass, keys, args...)
}

// tokenIs checks the last token that was given out.
func (s *scripted) tokenIs(want int64) {
	s.Helper()
	require.Equal(s, fmt.Sprint(want), s.rdb.Get(s.Context(), "token").Val())
}

func (s *scripted) serverMicros() int64 {
	s.Helper()
	now, err := s.rdb.Time(s.Context()).Result()
	require.NoError(s, err)
	return now.UnixMicro()
}

func TestPassScript(t *testing.T) {
	lock := []string{"lock"}
	onBoth(t, func(s *scripted) {
		silent := s.listen("ch")
		s.acquire(lock, "me:1", 1, 30000)
		s.acquire(lock, "me:1", 2, 30000)
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:1", "me:2", 60000), "all that it had, for a lease of its own")
		require.Equal(s, "lock=map[me:2:1] leased", s.state())
		s.lease("lock", 60000)
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:1", "me:2", 60000), "once more")
		require.Equal(s, "lock=map[me:2:1] leased", s.state())

		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:2", "me:3", 10000), "a shorter lease")
		s.lease("lock", 10000)

		require.Equal(s, []int64{-1, 0, 0}, s.pass(lock, "me:1", "me:5", 30000), "who has it no more")
		require.Equal(s, []int64{-1, 0, 0}, s.pass([]string{"free"}, "me:1", "me:5", 30000), "a free lock")
		require.Equal(s, "lock=map[me:3:1] leased", s.state())
		s.lease("lock", 10000)

		s.do("PERSIST", "lock")
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:3", "me:4", 5000), "somebody had made it stay")
		s.lease("lock", 5000)
		require.Empty(s, silent(), "nobody is told")
	})
}

// A waiter sleeps for the lease that it has seen, so it must be notified of a
// shorter one.
func TestPassScriptTellsOfAShorterLease(t *testing.T) {
	lock := []string{"lock"}
	onBoth(t, func(s *scripted) {
		heard := s.listen("ch")
		s.acquire(lock, "me:1", 1, 30000)
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:1", "me:2", 30000, "", "ch", "PUBLISH"))
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:2", "me:3", 60000, "", "ch", "PUBLISH"))
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:3", "me:4", 60000, "", "ch", "PUBLISH"))
		require.Empty(s, heard(), "no shorter")
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:4", "me:5", 10000, "", "ch", "NONE"))
		require.Empty(s, heard(), "not to be told")
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:5", "me:6", 5000, "", "ch", "PUBLISH"))
		require.Equal(s, "0", heard())
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:5", "me:6", 5000, "", "ch", "PUBLISH"), "once more")
		require.Empty(s, heard())
		require.NoError(s, s.rdb.Persist(s.Context(), "lock").Err())
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:6", "me:7", 5000, "", "ch", "PUBLISH"), "somebody had made it stay")
		require.Equal(s, "0", heard())
	})
}

// A lock for which there is a claim is passed only to who claims it, and he is told.
func TestPassScriptClaim(t *testing.T) {
	onBoth(t, func(s *scripted) {
		for _, keys := range [][]string{{"lock", "claim"}, {"lock", "token", "claim"}, {"lock", "token", "claim", "list"}} {
			s.do("DEL", "lock", "token", "claim", "list")
			heard := s.listen("told")
			silent := s.listen("ch")
			var tokens any = ""
			if len(keys) > 2 {
				tokens = 1
			}
			more := []any{tokens, "ch", "PUBLISH", "told"}
			if len(keys) > 3 {
				s.do("ZADD", "list", 1, "entry")
				more = append(more, "entry")
			}
			status := func(from, to string) int64 { s.Helper(); return s.pass(keys, from, to, 30000, more...)[0] }
			s.acquire([]string{"lock"}, "me:1", 1, 30000)
			require.EqualValues(s, 0, status("me:1", "me:2"), "there is no claim")
			s.do("HSET", "claim", "accepted", "me:3")
			require.EqualValues(s, 0, status("me:1", "me:2"), "that of another")
			require.EqualValues(s, -1, status("me:7", "me:3"), "by who has nothing")
			require.Equal(s, map[string]string{"me:1": "1"}, s.rdb.HGetAll(s.Context(), "lock").Val())
			require.Zero(s, s.rdb.Exists(s.Context(), "token").Val(), "no token is taken")
			require.Empty(s, heard())
			s.do("HSET", "claim", "accepted", "me:2")
			require.EqualValues(s, 1, status("me:1", "me:2"))
			require.Equal(s, "me:2", heard())
			s.do("DEL", "claim")
			require.EqualValues(s, 1, status("me:1", "me:2"), "once more")
			require.Equal(s, "me:2", heard())
			require.Equal(s, map[string]string{"me:2": "1"}, s.rdb.HGetAll(s.Context(), "lock").Val())
			require.Zero(s, s.rdb.Exists(s.Context(), "list").Val())
			require.Empty(s, silent(), "its lease is no shorter")
			s.do("SET", "claim", "x")
			_, err := s.run(lua.RLockPass, keys, append([]any{"me:2", "me:4", 30000, s.now() + within, ahead}, more...)...)
			require.ErrorContains(s, err, "WRONGTYPE")
			require.Equal(s, map[string]string{"me:2": "1"}, s.rdb.HGetAll(s.Context(), "lock").Val())
		}
	})
}

func TestPassScriptOutOfTime(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.acquire([]string{"lock"}, "me:1", 1, 30000)
		for what, notAfter := range map[string]int64{"late": s.now() - 1, "too far ahead": s.now() + ahead + 1000} {
			got := s.reply(1, lua.RLockPass, []string{"lock"}, "me:1", "me:2", 30000, notAfter, ahead)
			require.Equal(s, []int64{-2, 0, 0}, got, what)
		}
		got := s.reply(1, lua.RLockPass, []string{"lock", "token"}, "me:1", "me:2", 30000, s.now()-1, ahead, 1)
		require.Equal(s, []int64{-2, 0, 0}, got)
		require.Equal(s, "lock=map[me:1:1] leased", s.state())
	})
}

func TestPassScriptFenced(t *testing.T) {
	keys, lock := []string{"lock", "token"}, []string{"lock"}
	onBoth(t, func(s *scripted) {
		first := s.acquire(keys, "me:1", 1, 30000, 1)[2]
		got := s.pass(keys, "me:1", "me:2", 30000, 1)
		require.Equal(s, int64(1), got[0])
		require.Greater(s, got[1], first)
		require.Equal(s, got, s.pass(keys, "me:1", "me:2", 30000, 1), "the same token when it is asked again")
		require.Equal(s, []int64{-1, 0, 0}, s.pass(keys, "me:1", "me:3", 30000, 1))

		s.do("SET", "token", "9007199254740000") // a clock that was ahead
		require.Equal(s, []int64{1, 9007199254740001, 0}, s.pass(keys, "me:2", "me:3", 30000, 1))
		s.do("DEL", "token") // a loss of data
		require.Greater(s, s.pass(keys, "me:3", "me:4", 30000, 1)[1], got[1])
		require.EqualValues(s, -1, s.pttl("token"), "it never expires")

		got = s.pass(keys, "me:4", "me:5", 30000, 1000)
		s.tokenIs(got[1] + got[2])
		last := s.serverMicros() - 1_000_000
		s.do("SET", "token", last)
		got = s.pass(keys, "me:5", "me:4", 30000, 1000)
		require.Equal(s, []int64{1, 999}, []int64{got[0], got[2]}, "as many as it has asked for")
		require.Greater(s, got[1], last+1, "the newest ones of that time")
		last = got[1] + 999
		s.tokenIs(last)
		require.LessOrEqual(s, last, s.serverMicros(), "they are not ahead of the clock")
		require.Equal(s, []int64{1, last, 0}, s.pass(keys, "me:5", "me:4", 30000, 1000), "asked again: one token that nobody else has")
		s.tokenIs(last)
		require.Equal(s, []int64{1, 0, 0}, s.pass(lock, "me:4", "me:5", 30000))
		s.tokenIs(last) // no token asked for, none taken

		got = s.pass(keys, "me:5", "me:4", 30000, 1_000_000_000)
		require.Equal(s, last+1, got[1], "all since the last one")
		require.Positive(s, got[2])
		require.LessOrEqual(s, got[1]+got[2], s.serverMicros())
		s.tokenIs(got[1] + got[2])

		last += 1_000_000_000
		s.do("SET", "token", last)
		require.Equal(s, []int64{1, last + 1, 0}, s.pass(keys, "me:4", "me:5", 30000, 1000), "ahead of the clock already")
		before := s.serverMicros()
		s.do("DEL", "token") // those of the time before may have been taken
		got = s.pass(keys, "me:5", "me:4", 30000, 1000)
		require.GreaterOrEqual(s, got[1], before)
		require.Zero(s, got[2])
		require.Equal(s, got, s.pass(keys, "me:5", "me:4", 30000, 1000))
		s.do("DEL", "token")
		again := s.pass(keys, "me:5", "me:4", 30000, 1000)
		require.Greater(s, again[1], got[1], "lost since then")
		s.tokenIs(again[1])

		state := s.state()
		s.do("RENAME", "token", "kept")
		s.do("RPUSH", "token", "x")
		_, err := s.run(lua.RLockPass, keys, "me:4", "me:5", 30000, s.now()+within, ahead, 1)
		require.ErrorContains(s, err, "WRONGTYPE")
		s.do("RENAME", "kept", "token")
		require.Equal(s, state, s.state())
	})
}

func TestPassScriptLeavesOtherTypesAlone(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.do("SET", "lock", "x")
		_, err := s.run(lua.RLockPass, []string{"lock"}, "me:1", "me:2", 30000, s.now()+within, ahead)
		require.ErrorContains(s, err, "WRONGTYPE")
		require.Equal(s, "lock=x", s.state())
	})
}

// A lock that is held can be passed on by a server at its memory limit.
func TestPassScriptAtTheMemoryLimit(t *testing.T) {
	server := redistest.Start(t)
	s := &scripted{T: t, rdb: server.Client(t)}
	s.acquire([]string{"a"}, "me:1", 1, 20000)
	token := s.acquire([]string{"b", "token"}, "me:1", 1, 20000, 1)[2]
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	_, err := s.run(lua.RLockAcquire, []string{"c"}, "me:1", 1, 30000, s.now()+within, ahead)
	require.ErrorContains(s, err, "OOM")
	require.Equal(s, []int64{1, 0, 0}, s.pass([]string{"a"}, "me:1", "me:2", 20000))
	s.lease("a", 20000)
	require.Greater(s, s.pass([]string{"b", "token"}, "me:1", "me:2", 30000, 1)[1], token)
	require.Equal(s, map[string]string{"me:2": "1"}, s.rdb.HGetAll(s.Context(), "a").Val())
	require.Equal(s, map[string]string{"me:2": "1"}, s.rdb.HGetAll(s.Context(), "b").Val())
}

// A lock that is passed on in the last millisecond of its lease has a new one, or is free.
func TestPassScriptKeepsALease(t *testing.T) {
	s := &scripted{T: t, rdb: redistest.Start(t).Client(t)}
	for range 200 {
		s.acquire([]string{"lock"}, "me:1", 1, 1)
		switch s.pass([]string{"lock"}, "me:1", "me:2", 30000)[0] {
		case 1:
			s.lease("lock", 30000)
			s.do("DEL", "lock")
		default:
			require.Empty(t, s.state())
		}
	}
}
