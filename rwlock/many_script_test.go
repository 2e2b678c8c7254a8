package rwlock_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

const channel = "redisson_rwlock:{lock}"

// many runs one of the scripts that serve many holders. shared are the
// arguments before the deadline. It returns the answers.
func (s *scripted) many(script *lua.Script, keys []string, shared []any, notAfter int64, holders ...string) []int64 {
	s.Helper()
	args := append(shared, notAfter, ahead)
	for _, h := range holders {
		keys = append(keys, unshort(h+"#1"))
		args = append(args, h)
	}
	list := []any{script.Source, len(keys)}
	for _, k := range keys {
		list = append(list, k)
	}
	reply, err := s.rdb.Do(s.Context(), append([]any{"EVAL"}, append(list, args...)...)...).Int64Slice()
	require.NoError(s, err)
	if notAfter == 0 {
		require.Zero(s, reply[0], "no time is told that was not asked for")
	} else {
		require.InDelta(s, s.now(), reply[0], 4000)
	}
	return reply[1:]
}

func (s *scripted) readMany(holders ...string) []int64 {
	s.Helper()
	return s.many(lua.RWLockAcquireReadMany, []string{"lock", sign}, []any{30000}, s.now()+within, holders...)
}

func (s *scripted) leaveMany(holders ...string) []int64 {
	s.Helper()
	return s.many(lua.RWLockReleaseReadMany, []string{"lock"}, []any{"PUBLISH", channel, prefix}, 0, holders...)
}

func TestAcquireReadManyScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.scene("")
		all := "lock=a:1 b:1 mode:read for 30000; a#1 for 30000; b#1 for 30000"
		require.Equal(s, []int64{1, 1}, s.readMany("a", "b"), "a free lock")
		require.Equal(s, all, s.state())
		require.Equal(s, []int64{0, 0}, s.readMany("a", "b"), "again: rwlock/acquire_read tells")
		require.Equal(s, all, s.state())

		s.scene("lock=a:2 mode:read for 60000; a#1 for 60000; a#2 for 10000")
		require.Equal(s, []int64{0, 1, 1}, s.readMany("a", "b", "c"), "beside others")
		require.Equal(s, "lock=a:2 b:1 c:1 mode:read for 60000; a#1 for 60000; a#2 for 10000; b#1 for 30000; c#1 for 30000", s.state())
		s.scene("lock=a:1 mode:read for 10000; a#1 for 10000")
		require.Equal(s, []int64{1}, s.readMany("b"), "for a longer lease")
		require.Equal(s, "lock=a:1 b:1 mode:read for 30000; a#1 for 10000; b#1 for 30000", s.state())

		written := "lock=mode:write w:write:1 for 10000"
		s.scene(written)
		got := s.readMany("a", "w", "b")
		for _, i := range []int{0, 2} {
			require.InDelta(s, -8000, got[i], 2000, "what is left of a writer's lease")
		}
		require.Zero(s, got[1], "the writer's own: rwlock/acquire_read tells")
		require.Equal(s, written, s.state())

		s.scene("")
		now := s.now()
		s.do("SET", sign, fmt.Sprint(now-1000, " ", now+10000), "PX", 20000)
		require.InDelta(s, -8000, s.readMany("a")[0], 2000, "a writer comes first")
		s.do("SET", sign, fmt.Sprint(now+10000, " ", now+20000), "PX", 30000)
		require.Equal(s, []int64{1}, s.readMany("a"), "a writer who does not yet")

		s.do("FLUSHALL")
		s.do("SET", "lock", "x")
		require.Equal(s, []int64{0}, s.readMany("a"), "another type")
		s.do("DEL", "lock")
		s.do("HSET", "lock", "x", "1")
		require.Equal(s, []int64{0}, s.readMany("a"), "another kind of lock")
		s.do("HSET", "lock", "mode", "read")
		require.Equal(s, []int64{0}, s.readMany("a"), "a lock without an end")
	})
}

// A writer keeps readers out to the last millisecond of its lease.
func TestAcquireReadManyAtTheEndOfAWriter(t *testing.T) {
	onBoth(t, func(s *scripted) {
		for range 30 {
			s.scene("lock=mode:write w:write:1 for 3")
			for s.readMany("a")[0] != 1 {
				require.NotEqual(s, int64(30000), rounded(s.pttl("lock")))
			}
			require.Equal(s, "lock=a:1 mode:read for 30000; a#1 for 30000", s.state())
		}
	})
}

func TestReleaseReadManyScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		sub := s.rdb.Subscribe(s.Context(), channel)
		defer sub.Close()
		_, err := sub.Receive(s.Context())
		require.NoError(s, err)
		told := func(n int) {
			s.Helper()
			for range n {
				m, err := sub.ReceiveMessage(s.Context())
				require.NoError(s, err)
				require.Equal(s, "0", m.Payload)
			}
			s.do("PUBLISH", channel, "end")
			m, err := sub.ReceiveMessage(s.Context())
			require.NoError(s, err)
			require.Equal(s, "end", m.Payload)
		}

		s.scene("lock=a:1 b:1 mode:read for 30000; a#1 for 30000; b#1 for 30000")
		require.Equal(s, []int64{1, 1}, s.leaveMany("a", "b"))
		require.Empty(s, s.state(), "the last ones")
		told(1)
		require.Equal(s, []int64{0, 0}, s.leaveMany("a", "b"), "again: rwlock/release_read tells")
		told(0)

		s.scene("lock=a:1 b:1 c:2 d:1 mode:read for 30000; a#1 for 30000; b#1 for 5000; c#1 for 10000; c#2 for 20000; d#1 for 30000")
		require.Equal(s, []int64{1, 0, 1, 0}, s.leaveMany("a", "c", "d", "nobody"))
		require.Equal(s, "lock=b:1 c:2 mode:read for 20000; b#1 for 5000; c#1 for 10000; c#2 for 20000", s.state(), "the longest that is left")
		told(0)
		s.scene("lock=a:1 b:1 dead:1 mode:read for 30000; a#1 for 30000; b#1 for 5000")
		require.Equal(s, []int64{1}, s.leaveMany("a"))
		require.Equal(s, "lock=b:1 mode:read for 5000; b#1 for 5000", s.state(), "the dead are taken out")
		told(1) // it is over before those who wait ask again
		s.scene("lock=a:1 dead:1 mode:read for 30000; a#1 for 30000")
		require.Equal(s, []int64{1}, s.leaveMany("a"))
		require.Empty(s, s.state(), "nobody is left who is alive")
		told(1)

		for _, scene := range []string{
			"lock=a:1 mode:write a:write:1 for 30000; a#1 for 30000", "lock=a:2 mode:read for 30000; a#1 for 30000; a#2 for 30000",
			"lock=a:1 mode:read", "lock=a:1 for 30000", "",
		} {
			s.scene(scene)
			state := s.state()
			require.Equal(s, []int64{0}, s.leaveMany("a"), scene)
			require.Equal(s, state, s.state())
		}
		s.do("SET", "lock", "x")
		require.Equal(s, []int64{0}, s.leaveMany("a"), "another type")
		told(0)
	})
}

func TestReadManyScriptsRefuseToActOutOfTime(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.scene("lock=a:1 mode:read for 30000; a#1 for 30000")
		state := s.state()
		acquire := func(at int64) []int64 {
			return s.many(lua.RWLockAcquireReadMany, []string{"lock", sign}, []any{30000}, s.now()+at, "b")
		}
		release := func(at int64) []int64 {
			return s.many(lua.RWLockReleaseReadMany, []string{"lock"}, []any{"PUBLISH", channel, prefix}, s.now()+at, "a")
		}
		for _, at := range []int64{-1, -10_000_000, ahead + 1000, 10_000_000} {
			require.Empty(s, acquire(at), "acquire, %d ms", at)
			require.Empty(s, release(at), "release, %d ms", at)
			require.Equal(s, state, s.state())
		}
		require.Equal(s, []int64{1}, acquire(within), "in time")
		require.Equal(s, []int64{1}, release(within), "in time")
		require.Equal(s, "lock=b:1 mode:read for 30000; b#1 for 30000", s.state())
	})
}

// At the memory limit nothing can be taken and everything can be given back. If
// a user may not run one of the commands, nothing is half done.
func TestReadManyScriptsThatAreHindered(t *testing.T) {
	server := redistest.Start(t)
	s := &scripted{t, server.Client(t)}
	s.readMany("a", "b", "c")
	held := s.state()
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.Equal(t, []int64{0, 0}, s.readMany("d", "e"))
	require.Equal(t, held, s.state())
	require.Equal(t, []int64{1, 1}, s.leaveMany("a", "b"))
	require.Equal(t, []int64{1}, s.leaveMany("c"))
	require.Empty(t, s.state())
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")

	for _, denied := range []string{"set", "hset", "pexpire", "hmget", "hrandfield"} {
		for _, scene := range []string{"", "lock=a:1 mode:read for 10000; a#1 for 10000"} {
			s.scene(scene)
			server.Do(t, "ACL", "SETUSER", "default", "-"+denied)
			got := s.readMany("b", "c")
			if denied == "hrandfield" {
				require.Equal(t, []int64{1, 1}, got)
				require.Equal(t, []int64{1, 1}, s.leaveMany("b", "c"), "without %s", denied)
			} else {
				require.Equal(t, []int64{0, 0}, got, "without %s", denied)
			}
			server.Do(t, "ACL", "SETUSER", "default", "+"+denied)
			require.Equal(t, scene, s.state(), "without %s", denied)
		}
	}
}
