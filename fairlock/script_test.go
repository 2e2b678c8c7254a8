package fairlock_test

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/latchkeytest"
	"github.com/latchkey-go/latchkey/lua"
)

// The deadlines of the scripts: 5 s from now, and the caller's idea of the
// server's clock may be wrong by one second.
const (
	within  = 5000
	ahead   = within + 1000
	lease   = 30000
	timeout = 300000
	alive   = 15000
	day     = 24 * 3600 * 1000
	proof   = "secret"
)

// A scripted is a server on which scripts run directly, without the library.
// The lock is f; holders are "<client>:<number>".
type scripted struct {
	*testing.T
	rdb  *redis.Client
	last int64 // server ms of the last reply that tells it
}

// onBoth runs f against a real server and against the in-memory one.
func onBoth(t *testing.T, f func(s *scripted)) {
	t.Run("Redis", func(t *testing.T) {
		f(&scripted{T: t, rdb: redistest.Start(t).Client(t)})
	})
	t.Run("miniredis", func(t *testing.T) {
		f(&scripted{T: t, rdb: latchkeytest.NewServer(t).Redis(t)})
	})
}

func (s *scripted) do(args ...any) any {
	s.Helper()
	v, err := s.rdb.Do(s.Context(), args...).Result()
	require.NoError(s, err, "%v", args)
	return v
}

func (s *scripted) flush() { s.do("FLUSHALL") }

func (s *scripted) now() int64 {
	s.Helper()
	at, err := s.rdb.Time(s.Context()).Result()
	require.NoError(s, err)
	return at.UnixMilli()
}

func (s *scripted) java(owner string) *java {
	return &java{t: s, rdb: s.rdb, name: "f", owner: owner}
}

var fourKeys = []string{"f", queueKey("f"), scoresKey("f"), clientsKey("f")}

func (s *scripted) eval(script *lua.Script, keys []string, args ...any) (any, error) {
	s.Helper()
	all := []any{"EVAL", script.Source, len(keys)}
	for _, k := range keys {
		all = append(all, k)
	}
	return redistest.UserOnAny(s, s.rdb).Do(s.Context(), append(all, args...)...).Result()
}

// reply runs a script that must succeed and returns its reply as text. It
// removes the server's time at index at; at is -1 for none. A ticket is shown
// as T.
func (s *scripted) reply(at int, script *lua.Script, keys []string, args ...any) string {
	s.Helper()
	before := s.now()
	v, err := s.eval(script, keys, args...)
	require.NoError(s, err, "%s %v", script.Name, args)
	list, ok := v.([]any)
	if !ok {
		if n := v.(int64); n > 1 {
			s.last = n
			return "granted"
		}
		return fmt.Sprint(v)
	}
	var out []string
	for i, x := range list {
		if i == at {
			s.last = x.(int64)
			if s.last != 0 {
				require.GreaterOrEqual(s, s.last, before, "server time told")
				require.LessOrEqual(s, s.last, s.now(), "server time told")
			}
			continue
		}
		if n, ok := x.(int64); ok && n > 1e15 {
			require.LessOrEqual(s, n/1000, s.now(), "ticket")
			x = "T"
		}
		if x == "" {
			x = "-"
		}
		out = append(out, fmt.Sprint(x))
	}
	return strings.Join(out, " ")
}

func clientOf(holder string) string { return holder[:strings.LastIndex(holder, ":")] }

// acquire runs fairlock/acquire for a first hold. With a wait of 0 it does not
// queue.
func (s *scripted) acquire(holder string, wait int64) string {
	s.Helper()
	return s.acquireCount(holder, 1, wait)
}

func (s *scripted) acquireCount(holder string, count int, wait int64) string {
	s.Helper()
	return s.reply(2, lua.FairLockAcquire, fourKeys, holder, count, lease, s.now()+within, ahead, wait, timeout,
		clientOf(holder), alive, channelOf("f"), "PUBLISH", day, "", proof)
}

// queue puts holders into the queue in order.
func (s *scripted) queue(holders ...string) {
	s.Helper()
	for _, h := range holders {
		require.Regexp(s, `^0 \S+ T -$`, s.acquire(h, timeout), h)
	}
}

func (s *scripted) release(holder string, more ...any) string {
	s.Helper()
	args := append([]any{holder, 0, 0, 0, timeout, clientOf(holder), channelOf("f"), "PUBLISH"}, more...)
	return s.reply(2, lua.FairLockRelease, fourKeys, args...)
}

func (s *scripted) leave(holder string, wait int64) string {
	s.Helper()
	return s.reply(1, lua.FairLockLeave, fourKeys, holder, wait, timeout, clientOf(holder), s.now()+within, ahead,
		channelOf("f"), "PUBLISH")
}

func (s *scripted) keep(client string, holders ...any) string {
	s.Helper()
	return s.reply(0, lua.FairLockKeep, fourKeys[1:], append([]any{client, alive, timeout, day, proof}, holders...)...)
}

// dead makes a latchkey client look as if it had fallen silent.
func (s *scripted) dead(client string) {
	s.Helper()
	s.do("HSET", clientsKey("f"), client, s.now()-1)
}

// places returns the queue with the scores relative to the server's time, in
// whole seconds.
func (s *scripted) places() string {
	s.Helper()
	var out []string
	members := s.rdb.ZRange(s.Context(), scoresKey("f"), 0, -1).Val()
	for _, h := range s.rdb.LRange(s.Context(), queueKey("f"), 0, -1).Val() {
		score, err := s.rdb.ZScore(s.Context(), scoresKey("f"), h).Result()
		if err != nil {
			out = append(out, h+" ?")
			continue
		}
		require.Equal(s, math.Trunc(score), score, "a score is whole ms")
		out = append(out, h+" "+strconv.FormatFloat(math.Round((score-float64(s.now()))/1000), 'f', 0, 64))
		members = without(members, h)
	}
	for _, m := range members {
		out = append(out, "stray "+m)
	}
	return strings.Join(out, ", ")
}

func without(list []string, x string) (out []string) {
	for _, y := range list {
		if y != x {
			out = append(out, y)
		}
	}
	return out
}

// state returns everything on the server, without times.
func (s *scripted) state() string {
	s.Helper()
	keys := s.rdb.Keys(s.Context(), "*").Val()
	sort.Strings(keys)
	var out []string
	for _, k := range keys {
		switch s.rdb.Type(s.Context(), k).Val() {
		case "hash":
			out = append(out, fmt.Sprint(k, " ", s.rdb.HGetAll(s.Context(), k).Val()))
		case "list":
			out = append(out, fmt.Sprint(k, " ", s.rdb.LRange(s.Context(), k, 0, -1).Val()))
		case "zset":
			out = append(out, fmt.Sprint(k, s.rdb.ZRangeWithScores(s.Context(), k, 0, -1).Val()))
		default:
			out = append(out, k+" "+s.rdb.Get(s.Context(), k).Val())
		}
	}
	return strings.Join(out, "\n")
}

// hear returns a function that receives the messages on the channels of all
// waiters.
func (s *scripted) hear() func() []string {
	s.Helper()
	sub := s.rdb.PSubscribe(s.Context(), "redisson_lock__channel:*")
	_, err := sub.Receive(s.Context())
	require.NoError(s, err)
	s.Cleanup(func() { _ = sub.Close() })
	messages := sub.Channel(redis.WithChannelSize(10_000)) // miniredis waits for its readers
	n := 0
	return func() (heard []string) {
		s.Helper()
		n++
		end := "redisson_lock__channel:end" + strconv.Itoa(n)
		s.do("PUBLISH", end, "end")
		for {
			m := <-messages
			if m.Channel == end {
				return heard
			}
			heard = append(heard, strings.TrimPrefix(m.Channel, channelOf("f")+":")+" "+m.Payload)
		}
	}
}

// The exchange of the wire specification, step by step, with all waiters taken
// for Java's: replies, queue and scores are exactly Redisson's.
func TestVectors(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		// exact checks a score by the server's time of the reply that set it.
		exact := func(holder string, from, rest int64) {
			s.Helper()
			require.Equal(s, float64(from+rest), s.rdb.ZScore(s.Context(), scoresKey("f"), holder).Val(), holder)
		}
		require.Equal(s, "granted", s.acquire("A:1", timeout))
		require.Equal(s, "f map[A:1:1]", s.state())
		frozen := func(f func() string) (reply string, rest int64) {
			s.Helper()
			start := time.Now()
			s.do("PEXPIRE", "f", lease)
			reply = f()
			took := time.Since(start).Milliseconds()
			var pttl int64
			_, err := fmt.Sscanf(reply, "0 %d", &pttl)
			require.NoError(s, err, reply)
			require.LessOrEqual(s, pttl, int64(lease))
			require.GreaterOrEqual(s, pttl, int64(lease)-took-20)
			return reply, pttl
		}
		_, rest := frozen(func() string { return s.acquire("B:1", timeout) })
		exact("B:1", s.last, rest+300000)
		_, rest = frozen(func() string { return s.acquire("C:1", timeout) })
		exact("C:1", s.last, rest+600000)
		before := s.state()
		again, _ := frozen(func() string { return s.acquire("B:1", timeout) })
		require.Regexp(s, `^0 \d+ 0 -$`, again, "B has a place already")
		require.Equal(s, before, s.state())
		_, rest = frozen(func() string { return s.acquire("D:1", 1000) })
		exact("D:1", s.last, rest+601000)
		before = s.state()
		require.Regexp(s, `^0 \d+ 0 -$`, s.acquire("E:1", 0))
		require.Equal(s, before, s.state(), "an attempt without wait does not queue")
		s.do("DEL", clientsKey("f")) // from here on nobody knows that they are ours

		require.Equal(s, "1", s.release("A:1"))
		require.Equal(s, []string{"B:1 0"}, heard())
		require.Equal(s, "B:1 330, C:1 630, D:1 631", s.places())
		require.Regexp(s, `^0 \d+ 0 -$`, s.acquire("C:1", 0), "free, but not C's turn")
		require.Equal(s, "B:1 330, C:1 630, D:1 631", s.places())
		require.Equal(s, "granted", s.acquire("B:1", timeout))
		require.Equal(s, "C:1 330, D:1 331", s.places())
		require.Equal(s, "1 -", s.leave("C:1", timeout))
		require.Equal(s, "D:1 31", s.places())

		require.Equal(s, "-1 0 -", s.release("X:1"), "held by B")
		require.Empty(s, heard())
		s.do("DEL", "f")
		require.Equal(s, "-1 0 -", s.release("X:1"), "not Redisson's success")
		require.Equal(s, []string{"D:1 0"}, heard(), "but the head is woken")

		// The lock is free and its head dead.
		s.flush()
		require.Equal(s, "granted", s.acquire("A:1", timeout))
		s.queue("B:1", "C:1")
		s.do("DEL", "f", clientsKey("f"))
		s.do("ZADD", scoresKey("f"), s.now()-100000, "B:1")
		require.Equal(s, "granted", s.acquire("C:1", timeout))
		require.Empty(s, s.places())
		require.NotContains(s, s.state(), "redisson_lock_")
	})
}

// The data in Redis is what Java's scripts expect: living latchkey waiters
// survive Java's lowering of the scores, also several times.
func TestJavaLowersOurScores(t *testing.T) {
	onBoth(t, func(s *scripted) {
		require.Equal(s, "granted", s.acquire("go:0", timeout))
		javas := []*java{s.java("uuid-1:1"), s.java("uuid-1:2"), s.java("uuid-2:1")}
		for i, j := range javas {
			require.Positive(s, j.acquire(javaWait))
			s.queue(fmt.Sprintf("go:%d", i+1))
		}
		require.Equal(s, "1", s.release("go:0"))
		for i, j := range javas {
			require.EqualValues(s, -1, j.acquire(javaWait), "Java's turn")
			for _, z := range s.rdb.ZRangeWithScores(s.Context(), scoresKey("f"), 0, -1).Val() {
				require.Greater(s, int64(z.Score), s.now()+javaWait/2, "%v after %d acquisitions", z.Member, i+1)
			}
			require.EqualValues(s, 1, j.unlock())
			require.Equal(s, "granted", s.acquire(fmt.Sprintf("go:%d", i+1), timeout))
			require.Equal(s, "1", s.release(fmt.Sprintf("go:%d", i+1)))
		}
		require.Empty(s, s.state())
	})
}

// After hours under one holder all scores have expired. keep raises them so far
// that they survive Java's lowering all the way to the head.
func TestKeep(t *testing.T) {
	onBoth(t, func(s *scripted) {
		require.Equal(s, "granted", s.acquire("go:0", timeout))
		j := s.java("uuid:1")
		s.queue("go:1", "go:2", "go:3")
		j.acquire(javaWait)
		s.queue("go:4")
		hours := int64(3 * 3600 * 1000)
		for _, z := range s.rdb.ZRangeWithScores(s.Context(), scoresKey("f"), 0, -1).Val() {
			s.do("ZADD", scoresKey("f"), int64(z.Score)-hours, z.Member)
		}
		require.Equal(s, "1 1 0 1 1", s.keep("go", "go:1", "go:2", "go:77", "go:3", "go:4"))
		require.Regexp(s, `^go:1 \d+, go:2 \d+, go:3 \d+, uuid:1 -\d+, go:4 \d+$`, s.places())
		for i, z := range []string{"go:1", "go:2", "go:3"} {
			score := int64(s.rdb.ZScore(s.Context(), scoresKey("f"), z).Val())
			require.Greater(s, score, s.now()+int64(i)*timeout, z)
			require.Less(s, score, s.now()+int64(i+3)*timeout, z)
		}
		ttl := s.rdb.PTTL(s.Context(), queueKey("f")).Val()
		require.Greater(s, ttl, 24*time.Hour)
		require.Greater(s, s.rdb.PTTL(s.Context(), clientsKey("f")).Val(), 5*timeout*time.Millisecond)
		state := s.rdb.ZRangeWithScores(s.Context(), scoresKey("f"), 0, -1).Val()
		s.keep("go", "go:1", "go:2", "go:3", "go:4")
		require.Equal(s, state, s.rdb.ZRangeWithScores(s.Context(), scoresKey("f"), 0, -1).Val(), "nothing to raise")

		// A Redisson client unlocks what it does not hold: it sweeps none of ours.
		s.do("DEL", "f")
		require.EqualValues(s, 1, s.java("uuid:9").unlock())
		require.Equal(s, "go:1", s.rdb.LIndex(s.Context(), queueKey("f"), 0).Val())
		s.flush()
		require.Equal(s, "0", s.keep("go", "go:1"))
		require.Empty(s, s.state(), "no queue, no keys")
	})
}

// A client has one proof: that of the last process with its id.
func TestProofOfTheLastProcess(t *testing.T) {
	onBoth(t, func(s *scripted) {
		require.Equal(s, "granted", s.acquire("go:0", timeout))
		s.queue("go:1")
		key := clientsKey("f")
		s.do("HSET", key, "go", fmt.Sprintf("%d of the dead", s.now()+alive))
		s.queue("go:2")
		require.Regexp(s, `^\d+ `+proof+`$`, s.rdb.HGet(s.Context(), key, "go").Val())
		still := fmt.Sprintf("%d %s", s.now()+alive-1000, proof)
		s.do("HSET", key, "go", still)
		s.queue("go:3")
		require.Equal(s, still, s.rdb.HGet(s.Context(), key, "go").Val(), "it is written seldom")
	})
}

func TestKeepForgetsClientsLongDead(t *testing.T) {
	onBoth(t, func(s *scripted) {
		require.Equal(s, "granted", s.acquire("go:0", timeout))
		s.queue("go:1", "lately:1")
		s.dead("lately")
		for i := range 250 {
			s.do("HSET", clientsKey("f"), fmt.Sprint("old", i), s.now()-day)
		}
		for i := 0; s.do("HLEN", clientsKey("f")).(int64) > 200; i++ {
			require.Less(s, i, 100, "some in each run")
			s.keep("go", "go:1")
		}
		require.Subset(s, s.rdb.HKeys(s.Context(), clientsKey("f")).Val(), []string{"go", "lately"})
	})
}

func TestDeadHeads(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		s.acquire("hold:1", timeout)
		s.queue("dead:1", "dead:2", "live:1", "dead:3", "live:2")
		s.dead("dead")
		require.Equal(s, "1", s.release("hold:1"))
		require.Regexp(s, `^\[live \+1 (14\d{3}|15000) \d{13} [0-9a-f]{40}\]$`, heard(), "the first that lives is given the lock, and its client is told")
		require.Equal(s, map[string]string{"live:1": "1"}, s.rdb.HGetAll(s.Context(), "f").Val())
		require.InDelta(s, alive, s.rdb.PTTL(s.Context(), "f").Val().Milliseconds(), 1000)
		require.Equal(s, "1 30000", s.acquire("live:1", timeout))
		require.Contains(s, s.places(), "dead:3", "a dead one in the middle costs nothing")
		require.Equal(s, "1 0 live:2", s.release("live:1"), "its client is ours and is told by the answer")
		require.Empty(s, heard())
		require.Equal(s, "granted", s.acquire("live:2", timeout))
		require.Equal(s, "1", s.release("live:2"))
		require.Empty(s, s.state())

		// Whoever finds a dead head while the lock is free wakes the next one.
		s.acquire("hold:1", timeout)
		s.queue("dead:1", "live:1", "other:1")
		s.do("DEL", "f")
		s.dead("dead")
		require.Regexp(s, `^0 \d+ 0 -$`, s.acquire("other:1", timeout))
		require.Equal(s, []string{"live 0"}, heard())
		require.Regexp(s, `^0 \d+ 0 -$`, s.acquire("none:1", 0), "who does not queue does not barge in either")
	})
}

// Until 3.31 a Java waiter may continue to sleep when the holder before it has
// died. Whoever comes to a free lock that is a Java waiter's turn notifies that
// waiter.
func TestJavaHeadAsleep(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		s.acquire("hold:1", timeout)
		s.java("uuid:1").acquire(javaWait)
		s.queue("live:1")
		require.Regexp(s, `^0 \d+ 0 -$`, s.acquire("live:1", timeout))
		require.Empty(s, heard(), "the lock is held")
		s.do("DEL", "f")
		require.Regexp(s, `^0 \d+ 0 -$`, s.acquire("live:1", timeout))
		require.Equal(s, []string{"uuid:1 0"}, heard())
	})
}

// One run removes a thousand waiters that have crashed.
func TestManyDeadHeads(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.acquire("hold:1", timeout)
		for i := range 1500 {
			s.do("RPUSH", queueKey("f"), fmt.Sprint("dead:", i))
			s.do("ZADD", scoresKey("f"), s.now()+timeout, fmt.Sprint("dead:", i))
		}
		s.queue("live:1")
		s.dead("dead")
		require.Equal(s, "1", s.release("hold:1"))
		require.EqualValues(s, 501, s.rdb.LLen(s.Context(), queueKey("f")).Val())
		require.Equal(s, "granted", s.acquire("live:1", timeout))
		require.Equal(s, "1", s.release("live:1"))
		require.Empty(s, s.state())
	})
}

func TestHeadWithoutScore(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		s.acquire("hold:1", timeout)
		s.do("RPUSH", queueKey("f"), "uuid:1")
		s.do("HSET", clientsKey("f"), "x", 1)
		s.release("hold:1")
		require.Equal(s, []string{"uuid:1 0"}, heard())
		require.Equal(s, "uuid:1 300", s.places(), "it has the timeout from now on")
		require.Regexp(s, `^0 \d+ T -$`, s.acquire("go:1", timeout))
		s.do("ZADD", scoresKey("f"), s.now()-1, "uuid:1")
		require.Equal(s, "granted", s.acquire("go:1", timeout))
	})
}

// A score that is too high, because nobody lowered it, is corrected before it
// can block anybody.
func TestRunawayScores(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.acquire("hold:1", timeout)
		s.java("uuid:1").acquire(javaWait)
		s.queue("go:1")
		s.do("ZADD", scoresKey("f"), s.now()+day, "uuid:1")
		s.release("hold:1")
		require.Regexp(s, `^uuid:1 300, `, s.places())

		// Also for the next ones of an acquisition, with a queue of a thousand.
		s.flush()
		s.acquire("hold:1", timeout)
		for i := range 1000 {
			s.do("RPUSH", queueKey("f"), fmt.Sprint("uuid:", i))
			s.do("ZADD", scoresKey("f"), s.now()+day+int64(i)*timeout, fmt.Sprint("uuid:", i))
		}
		s.do("DEL", "f")
		require.Equal(s, "granted", s.acquire("uuid:0", timeout))
		require.Regexp(s, `^uuid:1 330, uuid:2 630, uuid:3 87\d\d\d, `, s.places())
	})
}

// Scores neither creep ahead nor fall behind while the lock is passed round for
// long and the queue is never empty.
func TestScoresStayRight(t *testing.T) {
	onBoth(t, func(s *scripted) {
		const waiters = 20
		s.acquire("go:0", timeout)
		for i := 1; i <= waiters; i++ {
			s.queue(fmt.Sprint("go:", i))
		}
		rounds := redistest.Many(200, 60)
		for i := range rounds {
			require.Regexp(s, `^1 0 go:`, s.release(fmt.Sprint("go:", i)))
			s.queueAgain(fmt.Sprint("go:", i+waiters+1))
			require.Equal(s, "granted", s.acquire(fmt.Sprint("go:", i+1), timeout))
		}
		right := func(upTo int64) {
			s.Helper()
			for rank, z := range s.rdb.LRange(s.Context(), queueKey("f"), 0, upTo).Val() {
				score := int64(s.rdb.ZScore(s.Context(), scoresKey("f"), z).Val())
				require.Greater(s, score, s.now()+int64(rank)*timeout, "rank %d", rank)
				require.Less(s, score, s.now()+int64(rank+3)*timeout, "rank %d", rank)
			}
		}
		right(1) // at once; the others when somebody keeps his
		s.keep("other")
		right(-1)
		// And a Java waiter that comes last builds on them.
		s.java("uuid:1").acquire(javaWait)
		require.Less(s, int64(s.rdb.ZScore(s.Context(), scoresKey("f"), "uuid:1").Val()), s.now()+(waiters+4)*timeout)
	})
}

// queueAgain queues a holder while the lock may be free.
func (s *scripted) queueAgain(holder string) {
	s.Helper()
	require.Regexp(s, `^0 \d+ T go:\d+$`, s.acquire(holder, timeout))
}

func TestLeave(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		s.acquire("hold:1", timeout)
		s.queue("a:1", "b:1", "c:1", "d:1")
		before := s.places()
		require.Equal(s, "a:1 330, b:1 630, c:1 930, d:1 1230", before)
		require.Equal(s, "1 -", s.leave("b:1", timeout))
		require.Equal(s, "a:1 330, c:1 630, d:1 930", s.places())
		state := s.state()
		require.Equal(s, "0 -", s.leave("b:1", timeout), "again")
		require.Equal(s, state, s.state())
		require.Empty(s, heard(), "the lock is held")

		s.release("hold:1")
		require.Regexp(s, `^\[a \+1 \d+ \d{13} [0-9a-f]{40}\]$`, heard())
		require.Equal(s, "1 -", s.leave("a:1", timeout), "it was given the lock, and gives it back")
		require.Empty(s, s.rdb.HGetAll(s.Context(), "f").Val())
		require.Equal(s, []string{"c 0"}, heard(), "the lock is free: the next one is told")
		require.Equal(s, "1 -", s.leave("c:1", timeout))
		require.Equal(s, []string{"d 0"}, heard())
		require.Equal(s, "1 -", s.leave("d:1", timeout))
		require.Empty(s, s.state())

		// A late one changes nothing.
		s.acquire("hold:1", timeout)
		s.queue("a:1")
		state = s.state()
		for _, notafter := range []int64{s.now() - 1, s.now() + 2*ahead} {
			require.Equal(s, "-2 -", s.reply(1, lua.FairLockLeave, fourKeys, "a:1", timeout, timeout, "a", notafter, ahead,
				channelOf("f"), "PUBLISH"))
		}
		require.Equal(s, state, s.state())
	})
}

// Waiters whose scores are after that of a leaving waiter may have another
// order in the queue. Their scores stay right for their places, so that Java's
// lowering does not take them for dead.
func TestLeaveOutOfOrder(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.acquire("go:0", timeout)
		for i := 1; i <= 20; i++ {
			s.queue(fmt.Sprint("go:", i))
		}
		// Each hand-over puts the next two right; the scores of those behind them stay
		// ahead, and Java builds on them.
		for i := range 14 {
			s.release(fmt.Sprint("go:", i))
			require.Equal(s, "granted", s.acquire(fmt.Sprint("go:", i+1), timeout))
		}
		var javas []*java
		for i := range 6 {
			javas = append(javas, s.java(fmt.Sprint("uuid:", i)))
			require.Positive(s, javas[i].acquire(javaWait))
		}
		s.queue("go:99")
		require.Equal(s, "1 -", s.leave("go:16", timeout))

		s.release("go:14")
		for _, i := range []int{15, 17, 18, 19, 20} {
			require.Equal(s, "granted", s.acquire(fmt.Sprint("go:", i), timeout))
			s.release(fmt.Sprint("go:", i))
		}
		for _, j := range javas {
			require.EqualValues(s, -1, j.acquire(javaWait), "Java's turn")
			require.EqualValues(s, 1, j.unlock())
		}
		require.Equal(s, []string{"go:99"}, s.rdb.LRange(s.Context(), queueKey("f"), 0, -1).Val())
		require.Equal(s, "granted", s.acquire("go:99", timeout))
	})
}

// The heir of a release gets the lock by the same script, if it is the next
// waiter.
func TestReleaseToHeir(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		s.acquire("go:1", timeout)
		s.queue("go:2", "go:3", "java:1")
		require.Equal(s, "1 0 go:2", s.release("go:1", 0, "go:3", 5000), "go:3 is not the next one")
		require.Empty(s, s.rdb.HGetAll(s.Context(), "f").Val())
		require.Equal(s, "granted", s.acquire("go:2", timeout))
		require.Equal(s, "3 0 go:3", s.release("go:2", 0, "go:3", 5000))
		require.Equal(s, map[string]string{"go:3": "1"}, s.rdb.HGetAll(s.Context(), "f").Val())
		require.InDelta(s, 5000, s.rdb.PTTL(s.Context(), "f").Val().Milliseconds(), 2000)
		require.Equal(s, "java:1 305", s.places())
		require.Equal(s, []string{"java 0"}, heard(), "who is next has heard of a longer lease")
		state := s.state()
		require.Equal(s, "-1 0 -", s.release("go:2", 0, "go:3", 5000), "again")
		require.Equal(s, state, s.state())
		require.Equal(s, "1 30000", s.acquire("go:3", timeout), "the heir that asks has it")

		s.flush()
		s.acquire("go:1", timeout)
		s.queue("go:2")
		require.Equal(s, "3 0 go:2", s.release("go:1", 0, "go:2", 5000))
		require.Equal(s, "f map[go:2:1]", s.state(), "the queue is empty and gone")
	})
}

// The client of the next waiter is notified of a lease that ends before it
// would ask, because no other message announces that.
func TestNextIsToldOfAShortLease(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		take := func(holder string, lease int64, ends ...any) {
			s.Helper()
			v, err := s.eval(lua.FairLockAcquire, fourKeys, append([]any{
				holder, 1, lease, s.now() + within, ahead, timeout, timeout,
				clientOf(holder), alive, channelOf("f"), "PUBLISH", day, "", proof,
			}, ends...)...)
			require.NoError(s, err)
			if n, ok := v.(int64); !ok || n < 1e12 {
				require.EqualValues(s, 1, v.([]any)[0])
			}
		}
		s.acquire("a:1", timeout)
		s.queue("b:1", "c:1", "c:2", "d:1")
		s.do("DEL", "f")
		take("b:1", 400)
		require.Equal(s, []string{"c 0"}, heard())
		require.Equal(s, "1 -", s.leave("d:1", timeout))
		require.Empty(s, heard(), "it was not next")

		s.do("DEL", "f")
		take("c:1", 400)
		require.Empty(s, heard(), "its client knows")

		s.queue("d:1", "java:7")
		s.do("HDEL", clientsKey("f"), "java")
		s.do("DEL", "f")
		take("c:2", 60000)
		require.Empty(s, heard(), "there is time to ask")
		const ends = `local time = redis.call('TIME')
			return time[1] * 1000 + math.floor(time[2] / 1000) + redis.call('PTTL', KEYS[1])`
		take("c:2", 400, s.do("EVAL", ends, 1, "f"))
		require.Equal(s, []string{"d 0"}, heard(), "the lease is cut")
		s.queue("e:1")
		s.do("LREM", queueKey("f"), 1, "java:7")
		s.do("ZREM", scoresKey("f"), "java:7")
		require.Equal(s, "1 -", s.leave("d:1", timeout))
		require.Equal(s, []string{"e 0"}, heard(), "it is next now")

		s.flush()
		s.acquire("a:1", timeout)
		s.queue("b:1", "java:7")
		s.do("HDEL", clientsKey("f"), "java")
		s.do("DEL", "f")
		take("b:1", 400)
		require.Empty(s, heard(), "Redisson asks for something else")
	})
}

// The same for a lease with which another waiter is granted the lock, of this
// client or of another.
func TestNextIsToldOfAShortGift(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		s.acquire("a:1", timeout)
		s.queue("b:1", "c:1")
		s.do("HSET", clientsKey("f"), "b", fmt.Sprintf("%d %s", s.now()+5000, proof)) // it lives for so long
		require.Equal(s, "1", s.release("a:1"))
		require.Equal(s, "1", s.do("HGET", "f", "b:1"))
		told := heard()
		require.Len(s, told, 2)
		require.Contains(s, told, "c 0")

		s.flush()
		s.acquire("a:1", timeout)
		s.queue("a:2", "c:1")
		require.Equal(s, "3 0 a:2", s.release("a:1", 0, "a:2", 400))
		require.Equal(s, []string{"c 0"}, heard())
	})
}

func TestReentryAndCounts(t *testing.T) {
	onBoth(t, func(s *scripted) {
		require.Equal(s, "granted", s.acquire("a:1", timeout))
		s.queue("b:1")
		require.Regexp(s, `^1 \d+$`, s.acquireCount("a:1", 2, timeout))
		require.Regexp(s, `^1 \d+$`, s.acquireCount("a:1", 2, timeout), "again")
		require.Equal(s, "2", s.rdb.HGet(s.Context(), "f", "a:1").Val())
		require.Equal(s, "-1 0", s.acquireCount("b:1", 2, timeout), "b has no hold to build on")
		back := func(count int) string {
			return s.reply(2, lua.FairLockRelease, fourKeys, "a:1", count, s.now()+within, ahead, timeout, "a", channelOf("f"), "PUBLISH")
		}
		require.Equal(s, "1 1", back(1))
		require.Equal(s, "2 1", back(1), "again")
		require.Equal(s, "1", back(0))
		require.Equal(s, "-1 0 -", back(0), "again")
	})
}

// A granted lease is shortened to the one that its waiter asks for. Any other
// lease is not.
func TestGivenLeaseIsCut(t *testing.T) {
	onBoth(t, func(s *scripted) {
		ask := func(count int, ends int64) string {
			return s.reply(2, lua.FairLockAcquire, fourKeys, "a:1", count, 1000, s.now()+within, ahead, timeout, timeout,
				"a", alive, channelOf("f"), "PUBLISH", day, "", proof, ends)
		}
		s.do("HSET", "f", "a:1", 1)
		ends := s.now() + 15000
		s.do("PEXPIREAT", "f", ends)
		require.Regexp(s, `^1 1\d{4}$`, ask(1, ends-1000), "it is another one")
		require.Regexp(s, `^1 1\d{4}$`, ask(2, ends), "not that of a re-entry")
		require.Equal(s, "1 1000", ask(1, ends))
		s.do("PEXPIRE", "f", 20000) // made longer
		require.Regexp(s, `^1 \d{5}$`, ask(1, ends), "the same request once more")
	})
}

func TestLateAcquire(t *testing.T) {
	onBoth(t, func(s *scripted) {
		for _, notafter := range []int64{s.now() - 1, s.now() + 2*ahead} {
			require.Equal(s, "-2 0", s.reply(2, lua.FairLockAcquire, fourKeys, "a:1", 1, lease, notafter, ahead, timeout, timeout,
				"a", alive, channelOf("f"), "PUBLISH", day))
		}
		require.Empty(s, s.state())
	})
}

// FQ-07: whatever part of the queue is removed, nothing fails and no waiter is
// stuck.
func TestMending(t *testing.T) {
	onBoth(t, func(s *scripted) {
		for what, damage := range map[string]func(){
			"queue":            func() { s.do("DEL", queueKey("f")) },
			"scores":           func() { s.do("DEL", scoresKey("f")) },
			"clients":          func() { s.do("DEL", clientsKey("f")) },
			"one place":        func() { s.do("LREM", queueKey("f"), 0, "b:1") },
			"one score":        func() { s.do("ZREM", scoresKey("f"), "b:1") },
			"a place twice":    func() { s.do("RPUSH", queueKey("f"), "a:1") },
			"queue and scores": func() { s.do("DEL", queueKey("f"), scoresKey("f")) },
			"stray score":      func() { s.do("ZADD", scoresKey("f"), s.now()-day, "x:1") },
		} {
			s.flush()
			s.acquire("hold:1", timeout)
			s.queue("a:1", "b:1", "c:1")
			damage()
			for _, h := range []string{"a:1", "b:1", "c:1"} {
				require.Regexp(s, `^0 \d+ (0|T) -$`, s.acquire(h, timeout), what)
			}
			places := s.places()
			require.NotContains(s, places, "?", what)
			require.NotContains(s, places, "stray", what)
			order := s.rdb.LRange(s.Context(), queueKey("f"), 0, -1).Val()
			require.ElementsMatch(s, []string{"a:1", "b:1", "c:1"}, order, what)
			s.release("hold:1")
			for _, h := range order {
				require.Regexp(s, "granted|1 30000", s.acquire(h, timeout), what)
				require.Equal(s, "1", s.release(h), what)
			}
			require.Empty(s, s.state(), what)
		}
	})
}

// A key of another type is detected before anything is written.
func TestWrongTypes(t *testing.T) {
	onBoth(t, func(s *scripted) {
		for _, key := range fourKeys {
			s.flush()
			if key != "f" {
				s.acquire("hold:1", timeout)
				if key != queueKey("f") {
					s.do("RPUSH", queueKey("f"), "x:1")
				}
			}
			s.do("SET", key, "mine")
			before := s.state()
			_, err := s.eval(lua.FairLockAcquire, fourKeys, "a:1", 1, lease, s.now()+within, ahead, timeout, timeout,
				"a", alive, channelOf("f"), "PUBLISH", day)
			require.ErrorContains(s, err, "WRONGTYPE", key)
			require.Equal(s, before, s.state(), key)
			if key != clientsKey("f") {
				_, err = s.eval(lua.FairLockDelete, fourKeys, channelOf("f"), "PUBLISH")
				require.ErrorContains(s, err, "WRONGTYPE", key)
				require.Equal(s, before, s.state(), key)
			}
		}
		s.flush()
		s.do("SET", "f", "mine")
		_, err := s.eval(lua.FairLockForce, fourKeys, timeout, channelOf("f"), "PUBLISH")
		require.ErrorContains(s, err, "WRONGTYPE")
	})
}

// At the memory limit nothing can be taken, and everything can be given back.
func TestAtTheMemoryLimit(t *testing.T) {
	s := &scripted{T: t, rdb: redistest.Start(t).Client(t)}
	s.acquire("go:1", timeout)
	s.acquireCount("go:1", 2, timeout)
	s.queue("go:2", "a:1", "b:1", "c:1")
	s.do("HSET", clientsKey("f"), "go", s.now()+1000) // to be refreshed
	s.do("CONFIG", "SET", "maxmemory", 1)
	require.Regexp(s, `^0 \d+ 0 -$`, s.acquire("go:2", timeout), "who waits goes on waiting")
	_, err := s.eval(lua.FairLockAcquire, fourKeys, "d:1", 1, lease, s.now()+within, ahead, timeout, timeout,
		"d", alive, channelOf("f"), "PUBLISH", day)
	require.ErrorContains(s, err, "OOM")
	require.Equal(s, "1 1 1", s.keep("go", "go:2", "a:1", "b:1"))
	require.Equal(s, "1 -", s.leave("a:1", timeout))
	require.Equal(s, "1 1", s.reply(2, lua.FairLockRelease, fourKeys, "go:1", 1, s.now()+within, ahead, timeout, "go", channelOf("f"), "PUBLISH"))
	require.Equal(s, "3 0 go:2", s.release("go:1", 0, "go:2", 5000), "a release may give it to its heir")
	require.Equal(s, "1", s.release("go:2"))
	require.Equal(s, "1 -", s.leave("b:1", timeout))
	require.Equal(s, "1 -", s.leave("c:1", timeout))
	require.Empty(s, s.state())
}

// No run of a script costs more because the queue is long.
func TestWorkDoesNotGrow(t *testing.T) {
	srv := redistest.Start(t)
	s := &scripted{T: t, rdb: srv.Client(t)}
	calls := func(n int) []int {
		s.flush()
		s.acquire("go:0", timeout)
		for i := range n {
			s.queue(fmt.Sprint("go:", i+1))
		}
		m := srv.Monitor(t)
		defer m.Stop()
		count := func(f func()) int {
			f()
			s.do("ECHO", "done")
			redistest.Until(t, "the monitor", func() bool {
				l := m.Lines()
				return len(l) > 0 && l[len(l)-1].Name() == "echo"
			})
			c := 0
			for _, l := range m.Lines() {
				if l.Script() {
					c++
				}
			}
			return c
		}
		var out []int
		for _, f := range []func(){
			func() { s.queue("new:1") },
			func() { s.acquire("new:1", timeout) },
			func() { s.leave("new:1", timeout) },
			func() { s.leave("go:5", timeout) },
			func() { s.release("go:0") },
			func() { s.acquire("go:1", timeout) },
			func() { s.release("go:1", 0, "go:2", lease) },
		} {
			out = append(out, count(f))
		}
		return out
	}
	require.Equal(t, calls(10), calls(1000), "commands that the scripts have called")
}

func TestWaitersAndDelete(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		del := func() string { return s.reply(-1, lua.FairLockDelete, fourKeys, channelOf("f"), "PUBLISH") }
		require.Equal(s, "0", del())
		s.acquire("hold:1", timeout)
		s.queue("go:1")
		s.java("uuid:1").acquire(javaWait)
		s.do("RPUSH", queueKey("f"), "odd")
		v, err := s.eval(lua.FairLockWaiters, fourKeys[1:3], 0, 499)
		require.NoError(s, err)
		list := v.([]any)
		require.Len(s, list, 6)
		require.Equal(s, "go:1", list[0])
		require.InDelta(s, s.now()+330000, list[1], 1000)
		require.Equal(s, []any{"uuid:1", "odd", int64(0)}, []any{list[2], list[4], list[5]})
		require.Equal(s, "1", del())
		require.Empty(s, s.state())
		require.Equal(s, []string{"go 0", "uuid:1 0", "odd 0"}, heard())
	})
}

// A lock that stays closed is announced to all waiters, because no message
// announces when it is free.
func TestLingeringReleaseTellsAll(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.hear()
		s.acquire("hold:1", timeout)
		s.java("uuid:1").acquire(javaWait)
		s.queue("go:1")
		s.queue("go:2")
		s.java("uuid:2").acquire(javaWait)
		require.Equal(s, "1 0", s.release("hold:1", 5000, "nobody:1"))
		require.Equal(s, []string{"uuid:1 0", "go 0", "uuid:2 0"}, heard())
	})
}
