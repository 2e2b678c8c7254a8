package rwlock_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

// crowd makes n readers beside me:1, whose leases are spread over the time
// between two renewals. All but the last alive of them are dead. The lock has a
// longer lease than each of them.
func (s *scripted) crowd(n, alive int) {
	s.Helper()
	s.do("FLUSHALL")
	for from := 1; from == 1 || from <= n; from += 10_000 {
		s.do("EVAL", `
		local n, alive = tonumber(ARGV[1]), tonumber(ARGV[2])
		local function reads(reader, ms)
			redis.call('HSET', 'lock', reader, 1)
			if ms then
				redis.call('SET', '{lock}:' .. reader .. ':rwlock_timeout:1', 1, 'PX', ms)
			end
		end
		redis.call('HSET', 'lock', 'mode', 'read')
		reads('me:1', 30000)
		for i = tonumber(ARGV[3]), tonumber(ARGV[4]) do
			reads('r:' .. i, i > n - alive and 20000 + i % 8000)
		end
		redis.call('PEXPIRE', 'lock', 65000)
		return 1`, 1, "lock", n, alive, from, min(n, from+9999))
	}
}

// The work of a reader's Unlock does not grow with the number of readers.
func TestReleaseReadDoesNotGrow(t *testing.T) {
	server := redistest.Start(t)
	s := &scripted{t, server.Client(t)}
	many := func() []int64 {
		return s.reply(0, lua.RWLockReleaseReadMany, []string{"lock", "{lock}:me:1:rwlock_timeout:1"},
			"PUBLISH", "ch", prefix, s.now()+within, ahead, "me:1")
	}
	one := func() []int64 { return s.release(lua.RWLockReleaseRead, "me:1", 0) }
	for name, release := range map[string]func() []int64{"one": one, "many": many} {
		for _, alive := range []int{10000, 0} {
			t.Run(fmt.Sprint(name, ", of whom live ", alive), func(t *testing.T) {
				s.crowd(10000, alive)
				server.Do(t, "CONFIG", "RESETSTAT")
				require.EqualValues(t, 1, release()[0])
				sum := int64(0)
				for command, n := range server.CommandStats(t) {
					require.NotEqual(t, "hgetall", command)
					sum += n
				}
				require.Less(t, sum, int64(100))
				require.EqualValues(t, 0, s.do("HEXISTS", "lock", "me:1"))
				require.EqualValues(t, 0, s.do("EXISTS", "{lock}:me:1:rwlock_timeout:1"))
				if alive > 0 {
					require.EqualValues(t, 10001, s.do("HLEN", "lock"))
				}
			})
		}
	}
}

// If there are too many readers to look at all of them, the lock keeps its
// lease when one leaves. If all others are dead, the lock is free: a waiter is
// notified, looks at all of them, and gets the lock.
func TestReleaseReadAmongMany(t *testing.T) {
	onBoth(t, func(s *scripted) {
		told := s.listen("ch")
		for _, n := range []int{1, 31, 32, 33, 200} {
			s.crowd(n, n)
			require.Equal(s, []int64{1, 0}, s.release(lua.RWLockReleaseRead, "me:1", 0))
			require.Empty(s, told(), "%d", n)
			left, many := s.pttl("lock"), n > 32
			require.Equal(s, many, left > 50000, "%d: %d ms", n, left)
			require.False(s, left < 15000, "%d: %d ms", n, left)
			got := s.acquireWrite("you:1:write", 1, 30000, 0)
			require.Zero(s, got[0])
			require.Positive(s, got[1])
			require.LessOrEqual(s, got[1], int64(30000), "until a reader ends, not the lock")

			s.crowd(n, 0)
			require.Equal(s, []int64{1, 0}, s.release(lua.RWLockReleaseRead, "me:1", 0))
			require.Equal(s, "0", told(), "%d", n)
			require.Equal(s, many, s.do("EXISTS", "lock") == int64(1), "%d", n)
			require.Equal(s, []int64{1, 30000}, s.acquireWrite("you:1:write", 1, 30000, 0))
			require.Equal(s, "lock=mode:write you:1:write:1 for 30000", s.state())
		}
	})
}

// One living reader among many dead ones keeps a writer out, and the dead ones
// are looked at only once.
func TestOneLivesAmongTheDead(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.crowd(400, 1)
		s.do("HDEL", "lock", "me:1")
		for range 3 {
			require.EqualValues(s, 0, s.acquireWrite("you:1:write", 1, 30000, 0)[0])
		}
		require.LessOrEqual(s, s.do("HLEN", "lock"), int64(401))
		require.Contains(s, []int64{2, 401}, s.do("HLEN", "lock"), "all of the dead, or none, if the first look has found the one who lives")
	})
}

// The fields of dead readers do not pile up on a lock that is never free: a
// reader that leaves removes some.
func TestDeadReadersDoNotPileUp(t *testing.T) {
	s := &scripted{t, redistest.Start(t).Client(t)}
	s.crowd(25, 25)
	for i := range 25 {
		s.acquireRead(fmt.Sprint("long:", i), 1, 30000)
	}
	most := int64(0)
	for i := range 500 {
		s.do("HSET", "lock", fmt.Sprint("dead:", i), 1)
		s.do("HSET", "lock", fmt.Sprint("dead:more", i), 1)
		require.Equal(s, []int64{1, 30000}, s.acquireRead("me:2", 1, 30000))
		require.Equal(s, []int64{1, 0}, s.release(lua.RWLockReleaseRead, "me:2", 0))
		most = max(most, s.do("HLEN", "lock").(int64))
	}
	require.Less(s, most, int64(250), "of 50 who live, and 1,000 who died")
}
