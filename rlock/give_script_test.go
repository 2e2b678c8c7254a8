package rlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

// TestReleaseScriptGives checks each reply of rlock/release with a waitlist.
func TestReleaseScriptGives(t *testing.T) {
	onBoth(t, func(s *scripted) {
		const lease = 30000
		release := func(want int64, entry, gone string, listens int) {
			s.Helper()
			for range 20 { // now and then it is open to all
				s.do("DEL", "lock")
				s.acquire([]string{"lock"}, "me:1", 1, lease)
				got := freed(s.reply(2, lua.RLockRelease, []string{"lock", "list"},
					"me:1", 0, s.now()+within, ahead, "ch", "PUBLISH", 0, entry, 0, 0, listens, 15000, gone))
				if got[0] == want {
					return
				}
				require.Contains(s, []int64{1, 5}, got[0])
				if entry != "" {
					s.do("ZREM", "list", entry)
				}
			}
			require.FailNow(s, "never", "%d", want)
		}
		since := func(ago time.Duration) int64 { return (s.now() - ago.Milliseconds()) * 1000 }
		own, ch := s.listen("ch:you"), s.listen("ch")

		// Our own is the only one.
		release(3, "me:2 20000 me p", "", 1)
		require.Equal(s, "lock=map[me:2:1] leased", s.state())
		s.lease("lock", 20000)

		// Another client listens, and is told; ours waits behind it.
		s.flush()
		s.do("ZADD", "list", since(time.Second), "you:5 10000 you p", since(2*time.Second), "gone:1 10000 gone p")
		release(4, "me:2 20000 me p", "", 1)
		require.Regexp(s, `^\+5 10000 \d{13} p$`, own())
		require.Equal(s, map[string]string{"you:5": "1"}, s.rdb.HGetAll(s.Context(), "lock").Val())
		s.lease("lock", 10000)
		require.Equal(s, []string{"me:2 20000 me p"}, s.rdb.ZRange(s.Context(), "list", 0, -1).Val())

		// An entry of ours that is taken out is not given the lock, nor is an old one.
		s.flush()
		ch()
		s.do("ZADD", "list", since(time.Second), "you:6 10000 you p", since(16*time.Second), "you:7 10000 you p")
		redistest.Until(s, "it to be tried", func() bool { // when it is not the turn of all
			release(1, "", "you:6 10000 you p", 1)
			return s.rdb.Exists(s.Context(), "list").Val() == 0
		})
		require.Empty(s, own())
		require.Zero(s, s.rdb.Exists(s.Context(), "list", "lock").Val())
		require.NotEmpty(s, ch(), "it is open to all")

		// A server that does not hear us: open to all, and the list stays.
		s.do("ZADD", "list", since(time.Second), "you:6 10000 you p")
		release(5, "me:2 20000 me p", "", 9)
		require.NotEmpty(s, ch())
		require.Empty(s, own())
		require.EqualValues(s, 2, s.rdb.ZCard(s.Context(), "list").Val())
		s.flush()
		s.do("ZADD", "list", since(time.Second), "you:6 10000 you p")
		release(1, "", "", 9)
		require.EqualValues(s, 1, s.rdb.ZCard(s.Context(), "list").Val())
		s.lease("list", 15000)
		s.flush()

		// One who listens and is in no list: open to all, and the list stays.
		s.do("ZADD", "list", since(time.Second), "you:6 10000 you p")
		more := s.listen("ch")
		release(5, "me:2 20000 me p", "", 0)
		require.NotEmpty(s, more())
		require.Empty(s, own())

		// What is no list, or no entry, is nobody.
		s.flush()
		s.do("SET", "list", "x")
		release(1, "", "", 1)
		s.flush()
		s.do("ZADD", "list", since(0), "nonsense")
		release(1, "", "", 1)
		require.Empty(s, own())
	})
}

// TestReleaseScriptRenewsTheList checks the expiry of the waitlist. If entries
// come and go quickly, only some releases renew it, but it always has an
// expiry.
func TestReleaseScriptRenewsTheList(t *testing.T) {
	onBoth(t, func(s *scripted) {
		own := s.listen("ch:you")
		for range 3 {
			s.listen("ch")
		}
		given, renewed := 0, 0
		for range 400 {
			s.flush()
			at, err := s.rdb.Time(s.Context()).Result()
			require.NoError(s, err)
			s.do("ZADD", "list", at.UnixMicro(), "you:5 10000 you p", at.UnixMicro()+1, "other:1 10000 other p")
			s.do("PEXPIRE", "list", 5000)
			s.do("HSET", "lock", "me:1", 1)
			got := freed(s.reply(2, lua.RLockRelease, []string{"lock", "list"},
				"me:1", 0, 0, 0, "ch", "PUBLISH", 0, "me:2 20000 me p", 0, 0, 1, 15000))
			own()
			if got[0] != 4 {
				continue // it was open to all
			}
			given++
			left := s.pttl("list")
			require.Positive(s, left)
			if left > 5000 {
				renewed++
			}
			if renewed > 0 && given > renewed {
				return
			}
		}
		require.FailNow(s, "always or never", "renewed by %d of %d", renewed, given)
	})
}
