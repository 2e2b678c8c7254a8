package rlock_test

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
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
	within = 5000
	ahead  = within + 1000
)

// A scripted is a server on which scripts run directly, without the library.
type scripted struct {
	*testing.T
	rdb  *redis.Client
	told int64 // listeners, by the last release
	// renewing is the text of rlock/renew, when it is another one.
	renewing string
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

// do runs a command that prepares the test.
func (s *scripted) do(args ...any) any {
	s.Helper()
	v, err := s.rdb.Do(s.Context(), args...).Result()
	require.NoError(s, err, "%v", args)
	return v
}

func (s *scripted) flush() { s.do("FLUSHALL") }

// now returns the server's clock in ms.
func (s *scripted) now() int64 {
	s.Helper()
	at, err := s.rdb.Time(s.Context()).Result()
	require.NoError(s, err)
	return at.UnixMilli()
}

// run runs a script and returns its reply. An integer is returned as the only
// element.
func (s *scripted) run(script *lua.Script, keys []string, args ...any) ([]int64, error) {
	s.Helper()
	all := []any{"EVAL", script.Source, len(keys)}
	for _, k := range keys {
		all = append(all, k)
	}
	v, err := redistest.UserOnAny(s, s.rdb).Do(s.Context(), append(all, args...)...).Result()
	if n, ok := v.(int64); ok {
		return []int64{n}, err
	}
	var ints []int64
	for _, x := range asSlice(v) {
		ints = append(ints, x.(int64))
	}
	return ints, err
}

func asSlice(v any) []any {
	s, _ := v.([]any)
	return s
}

// reply runs a script that must succeed. It checks the server time at index at
// of the reply and removes it; at is -1 for none.
func (s *scripted) reply(at int, script *lua.Script, keys []string, args ...any) []int64 {
	s.Helper()
	before := s.now()
	got, err := s.run(script, keys, args...)
	require.NoError(s, err, "%s %v", script.Name, args)
	if at < 0 {
		return got
	}
	if len(got) == 1 && at > 0 {
		at = 0 // the short form of acquire; release's has none, but the listeners
		if script == lua.RLockRelease {
			s.told = got[0] - 1
			return nil
		}
	}
	require.Greater(s, len(got), at, "reply %v", got)
	require.GreaterOrEqual(s, got[at], before, "server time told")
	require.LessOrEqual(s, got[at], s.now(), "server time told")
	return append(got[:at:at], got[at+1:]...)
}

// acquire runs rlock/acquire within its deadline. It returns {status, remaining
// lease, token}.
func (s *scripted) acquire(keys []string, holder string, count, lease int, more ...any) []int64 {
	s.Helper()
	args := append([]any{holder, count, lease, s.now() + within, ahead}, more...)
	got := s.reply(2, lua.RLockAcquire, keys, args...)
	if len(got) == 0 { // granted, as asked for
		return []int64{1, int64(lease), 0}
	}
	return got
}

// release runs rlock/release within its deadline. It returns {status, left}.
func (s *scripted) release(keys []string, holder string, count int, more ...any) []int64 {
	s.Helper()
	args := append([]any{holder, count, s.now() + within, ahead, "ch", "PUBLISH"}, more...)
	return freed(s.reply(2, lua.RLockRelease, keys, args...))
}

// freed expands the short form of rlock/release's reply.
func freed(reply []int64) []int64 {
	if len(reply) == 0 {
		return []int64{1, 0}
	}
	return reply
}

// renew runs rlock/renew within its deadline. It returns the answers.
func (s *scripted) renew(keys []string, args ...any) []int64 {
	s.Helper()
	all := []any{"EVAL", cmp.Or(s.renewing, lua.RLockRenew.Source), len(keys)}
	for _, k := range keys {
		all = append(all, k)
	}
	before := s.now()
	v, err := s.rdb.Do(s.Context(), append(append(all, s.now()+within, ahead), args...)...).Result()
	require.NoError(s, err)
	at, short := v.(int64)
	answers := []int64{}
	if short { // all extended
		for range keys {
			answers = append(answers, 1)
		}
	} else {
		at = asSlice(v)[0].(int64)
		for _, x := range asSlice(v)[1:] {
			answers = append(answers, x.(int64))
		}
		require.NotEqual(s, slices.Repeat([]int64{1}, len(keys)), answers, "there is a short form for that")
	}
	require.GreaterOrEqual(s, at, before, "server time told")
	require.LessOrEqual(s, at, s.now(), "server time told")
	return answers
}

// state returns everything on the server, without times: "name {field:value …}
// lease".
func (s *scripted) state() string {
	s.Helper()
	keys := s.rdb.Keys(s.Context(), "*").Val()
	sort.Strings(keys)
	var out []string
	for _, k := range keys {
		var v any
		switch kind := s.rdb.Type(s.Context(), k).Val(); kind {
		case "hash":
			v = s.rdb.HGetAll(s.Context(), k).Val()
		case "string":
			v = s.rdb.Get(s.Context(), k).Val()
		default:
			v = kind
		}
		line := fmt.Sprint(k, "=", v)
		if s.pttl(k) > 0 {
			line += " leased"
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

func (s *scripted) pttl(key string) int64 {
	s.Helper()
	ms, err := s.rdb.Do(s.Context(), "PTTL", key).Int64()
	require.NoError(s, err)
	return ms
}

// lease checks that key expires in want ms, less what this test may have taken
// so far.
func (s *scripted) lease(key string, want int64) {
	s.Helper()
	got := s.pttl(key)
	require.LessOrEqual(s, got, want, "PTTL %s", key)
	require.Greater(s, got, want-4000, "PTTL %s", key)
}

// near compares a lease in a reply with the exact one and replaces it by that.
func (s *scripted) near(reply []int64, i int, want int64) []int64 {
	s.Helper()
	require.LessOrEqual(s, reply[i], want, "lease in the reply %v", reply)
	require.Greater(s, reply[i], want-4000, "lease in the reply %v", reply)
	reply[i] = want
	return reply
}

func TestAcquireScript(t *testing.T) {
	lock := []string{"lock"}
	tests := []struct {
		rule   string
		scene  [][]any // commands before
		holder string
		count  int
		lease  int
		want   []int64 // status, lease left, token
		state  string
		left   int64 // lease of the key
	}{
		{
			rule:   "free: granted",
			holder: "me:1", count: 1, lease: 30000,
			want: []int64{1, 30000, 0}, state: "lock=map[me:1:1] leased", left: 30000,
		},
		{
			rule:   "held by another: refused, with its lease",
			scene:  [][]any{{"HSET", "lock", "you:1", 1}, {"PEXPIRE", "lock", 20000}},
			holder: "me:1", count: 1, lease: 30000,
			want: []int64{0, 20000, 0}, state: "lock=map[you:1:1] leased", left: 20000,
		},
		{
			rule:   "held by another without a lease: refused, and said so",
			scene:  [][]any{{"HSET", "lock", "you:1", 1}},
			holder: "me:1", count: 1, lease: 30000,
			want: []int64{0, -1, 0}, state: "lock=map[you:1:1]",
		},
		{
			rule:   "held by another: what a re-entry builds on is lost",
			scene:  [][]any{{"HSET", "lock", "you:1", 1}, {"PEXPIRE", "lock", 20000}},
			holder: "me:1", count: 2, lease: 30000,
			want: []int64{-1, 0, 0}, state: "lock=map[you:1:1] leased", left: 20000,
		},
		{
			rule:   "held by me: one more, and the longer lease",
			scene:  [][]any{{"HSET", "lock", "me:1", 1}, {"PEXPIRE", "lock", 20000}},
			holder: "me:1", count: 2, lease: 30000,
			want: []int64{1, 30000, 0}, state: "lock=map[me:1:2] leased", left: 30000,
		},
		{
			rule:   "held by me: a shorter lease shortens nothing",
			scene:  [][]any{{"HSET", "lock", "me:1", 1}, {"PEXPIRE", "lock", 20000}},
			holder: "me:1", count: 2, lease: 1,
			want: []int64{1, 20000, 0}, state: "lock=map[me:1:2] leased", left: 20000,
		},
		{
			rule:   "held by me without a lease: gets one",
			scene:  [][]any{{"HSET", "lock", "me:1", 1}},
			holder: "me:1", count: 2, lease: 30000,
			want: []int64{1, 30000, 0}, state: "lock=map[me:1:2] leased", left: 30000,
		},
		{
			rule:   "gone: a re-entry takes nothing",
			holder: "me:1", count: 2, lease: 30000,
			want: []int64{-1, 0, 0}, state: "",
		},
		{
			rule:   "a holder is any bytes",
			holder: "\x00 {}:\n", count: 1, lease: 30000,
			want: []int64{1, 30000, 0}, state: "lock=map[\x00 {}:\n:1] leased", left: 30000,
		},
	}
	onBoth(t, func(s *scripted) {
		for _, tt := range tests {
			s.flush()
			for _, c := range tt.scene {
				s.do(c...)
			}
			for _, often := range []string{"once", "twice"} {
				got := s.acquire(lock, tt.holder, tt.count, tt.lease)
				if tt.want[1] > 0 {
					got = s.near(got, 1, tt.want[1])
				}
				require.Equal(s, tt.want, got, "%s, %s: reply", tt.rule, often)
				require.Equal(s, tt.state, s.state(), "%s, %s: state", tt.rule, often)
				if tt.left > 0 {
					s.lease("lock", tt.left)
				}
			}
		}
	})
}

func TestAcquireScriptFenced(t *testing.T) {
	keys := []string{"lock", "token"}
	onBoth(t, func(s *scripted) {
		micros := func() int64 { return s.rdb.Time(s.Context()).Val().UnixMicro() }
		before := micros()
		got := s.acquire(keys, "me:1", 1, 30000, 1)
		first := got[2]
		require.GreaterOrEqual(s, first, before, "the first token is the server's time")
		require.LessOrEqual(s, first, micros(), "the first token is the server's time")
		require.Equal(s, fmt.Sprintf("lock=map[me:1:1] leased; token=%d", first), s.state(), "the token never expires")

		require.Equal(s, first, s.acquire(keys, "me:1", 1, 30000, 1)[2], "asking twice takes one token")
		nested := s.acquire(keys, "me:1", 2, 30000, 1)[2]
		require.Greater(s, nested, first, "a re-entry takes the next token")
		require.Equal(s, nested, s.acquire(keys, "me:1", 2, 30000, 1)[2], "asking twice takes one token")

		require.Equal(s, []int64{0, 0, 0}, s.zeroed(s.acquire(keys, "you:1", 1, 30000, 1)), "a refusal tells no token")
		require.Equal(s, fmt.Sprint(nested), s.do("GET", "token"), "a refusal takes no token")
		s.do("DEL", "lock")
		require.Equal(s, []int64{-1, 0, 0}, s.acquire(keys, "me:1", 2, 30000, 1), "a lost re-entry")
		require.Equal(s, fmt.Sprint(nested), s.do("GET", "token"), "a lost re-entry takes no token")

		// From far in the future, a Java service or a clock that stepped back.
		s.do("SET", "token", "8000000000000000")
		require.EqualValues(s, int64(8000000000000001), s.acquire(keys, "me:1", 1, 30000, 1)[2], "last + 1")
		require.Equal(s, "8000000000000001", s.do("GET", "token"), "all digits are kept")
		require.EqualValues(s, int64(8000000000000002), s.do("INCR", "token"), "Java goes on from it")

		// The counter alone is lost.
		before = micros()
		s.do("DEL", "token")
		got = s.acquire(keys, "me:1", 1, 30000, 1)
		require.GreaterOrEqual(s, got[2], before, "who asks again gets a token all the same")
		require.Equal(s, got[2], s.acquire(keys, "me:1", 1, 30000, 1)[2])
		s.do("SET", "token", "8000000000000002")

		// Without the flag the key is left alone.
		s.do("DEL", "lock")
		require.EqualValues(s, 0, s.acquire(keys[:1], "me:1", 1, 30000)[2])
		require.Equal(s, "8000000000000002", s.do("GET", "token"))

		// A counter that is none: nothing may be half done.
		s.flush()
		s.do("RPUSH", "token", "x")
		_, err := s.run(lua.RLockAcquire, keys, "me:1", 1, 30000, s.now()+within, ahead, 1)
		require.ErrorContains(s, err, "WRONGTYPE")
		s.do("DEL", "token")
		s.do("SET", "token", "x")
		_, err = s.run(lua.RLockAcquire, keys, "me:1", 1, 30000, s.now()+within, ahead, 1)
		require.Error(s, err)
		require.Equal(s, "token=x", s.state())
	})
}

// zeroed keeps only the status of a reply.
func (s *scripted) zeroed(reply []int64) []int64 {
	for i := range reply[1:] {
		if i+1 != len(reply)-1 {
			reply[i+1] = 0
		}
	}
	return reply
}

func TestAcquireScriptLabel(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.acquire([]string{"lock", "label"}, "me:1", 1, 30000, 0, "who")
		require.Equal(s, "label=who leased; lock=map[me:1:1] leased", s.state())
		s.lease("label", 30000)
		s.acquire([]string{"lock", "label"}, "me:1", 2, 60000, 0, "who else")
		require.Equal(s, "label=who else leased; lock=map[me:1:2] leased", s.state())
		s.lease("label", 60000)
		s.acquire([]string{"lock", "label"}, "me:1", 3, 1, 0, "x")
		s.lease("label", 60000) // as long as the lock
		s.flush()
		s.acquire([]string{"lock", "token", "label"}, "me:1", 1, 30000, 1, "who")
		require.Equal(s, "who", s.do("GET", "label"), "behind the token")
		s.flush()
		s.acquire([]string{"lock"}, "me:1", 1, 30000, 0, "")
		require.Equal(s, "lock=map[me:1:1] leased", s.state(), "no label")
		s.acquire([]string{"lock", "label"}, "you:1", 1, 30000, 0, "who")
		require.Equal(s, "lock=map[me:1:1] leased", s.state(), "a refusal writes no label")
	})
}

func TestScriptsRefuseToActOutOfTime(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.acquire([]string{"lock"}, "me:1", 1, 30000)
		state := s.state()
		for rule, at := range map[string]int64{
			"late by 1 ms":  -1,
			"late by hours": -10_000_000,
			"too far ahead": ahead + 1000,
			"hours ahead":   10_000_000,
		} {
			got := s.reply(2, lua.RLockAcquire, []string{"free", "token", "label"}, "me:1", 1, 30000, s.now()+at, ahead, 1, "label")
			require.Equal(s, []int64{-2, 0, 0}, got, "acquire, %s", rule)
			got = s.reply(2, lua.RLockAcquire, []string{"lock"}, "me:1", 2, 60000, s.now()+at, ahead)
			require.Equal(s, []int64{-2, 0, 0}, got, "re-entry, %s", rule)
			got = s.reply(2, lua.RLockRelease, []string{"lock"}, "me:1", 0, s.now()+at, ahead, "ch", "PUBLISH")
			require.Equal(s, []int64{-2, 0}, got, "release, %s", rule)
			v, err := s.rdb.Do(s.Context(), "EVAL", lua.RLockRenew.Source, 1, "lock", s.now()+at, ahead, "me:1", 60000).Result()
			require.NoError(s, err)
			require.Len(s, asSlice(v), 1, "renew, %s: an integer would mean that it did", rule)
			require.Equal(s, state, s.state(), "state, %s", rule)
			s.lease("lock", 30000)
		}
	})
}

func TestReleaseScript(t *testing.T) {
	mine := func(count int) [][]any {
		return [][]any{{"HSET", "lock", "me:1", count}, {"PEXPIRE", "lock", 20000}}
	}
	yours := [][]any{{"HSET", "lock", "you:1", 1}, {"PEXPIRE", "lock", 20000}}
	tests := []struct {
		rule         string
		scene        [][]any
		count        int
		more         []any
		first, again []int64 // status, holds left
		state        string
		left         int64
		hints        string
	}{
		{rule: "the last hold", scene: mine(1), count: 0, first: []int64{1, 0}, again: []int64{-1, 0}, hints: "0"},
		{rule: "all holds at once", scene: mine(3), count: 0, first: []int64{1, 0}, again: []int64{-1, 0}, hints: "0"},
		{
			rule: "one of several", scene: mine(3), count: 2, first: []int64{1, 2}, again: []int64{2, 2},
			state: "lock=map[me:1:2] leased", left: 20000,
		},
		{
			rule: "one of several without a lease", scene: mine(3)[:1], count: 2, first: []int64{1, 2}, again: []int64{2, 2},
			state: "lock=map[me:1:2]",
		},
		{
			rule: "as low already", scene: mine(1), count: 1, first: []int64{2, 1}, again: []int64{2, 1},
			state: "lock=map[me:1:1] leased", left: 20000,
		},
		{
			rule: "lower already", scene: mine(1), count: 5, first: []int64{2, 1}, again: []int64{2, 1},
			state: "lock=map[me:1:1] leased", left: 20000,
		},
		{rule: "free", count: 0, first: []int64{-1, 0}, again: []int64{-1, 0}},
		{
			rule: "somebody else's", scene: yours, count: 0, first: []int64{-1, 0}, again: []int64{-1, 0},
			state: "lock=map[you:1:1] leased", left: 20000,
		},
		{
			rule: "lingering", scene: mine(2), count: 0, more: []any{5000, "nobody"},
			first: []int64{1, 0}, again: []int64{-1, 0}, state: "lock=map[nobody:1] leased", left: 5000, hints: "10",
		},
		{
			rule: "lingering longer than the lease", scene: mine(1), count: 0, more: []any{60000, "nobody"},
			first: []int64{1, 0}, again: []int64{-1, 0}, state: "lock=map[nobody:1] leased", left: 60000, hints: "10",
		},
		{
			rule: "a nested hold does not linger", scene: mine(2), count: 1, more: []any{5000, "nobody"},
			first: []int64{1, 1}, again: []int64{2, 1}, state: "lock=map[me:1:1] leased", left: 20000,
		},
		{rule: "no linger", scene: mine(1), count: 0, more: []any{0, "nobody"}, first: []int64{1, 0}, again: []int64{-1, 0}, hints: "0"},
	}
	onBoth(t, func(s *scripted) {
		heard := s.listen("ch")
		for _, tt := range tests {
			s.flush()
			for _, c := range tt.scene {
				s.do(c...)
			}
			got := s.release([]string{"lock"}, "me:1", tt.count, tt.more...)
			require.Equal(s, tt.first, got, "%s: reply", tt.rule)
			require.Equal(s, tt.state, s.state(), "%s: state", tt.rule)
			got = s.release([]string{"lock"}, "me:1", tt.count, tt.more...)
			require.Equal(s, tt.again, got, "%s: second reply", tt.rule)
			require.Equal(s, tt.state, s.state(), "%s: state after the second", tt.rule)
			if tt.left > 0 {
				s.lease("lock", tt.left)
			}
			require.Equal(s, tt.hints, heard(), "%s: messages", tt.rule)
		}
	})
}

// listen subscribes to a Redis channel. The returned function returns the
// messages since its last call, concatenated.
func (s *scripted) listen(channel string) func() string {
	s.Helper()
	sub := s.rdb.Subscribe(s.Context(), channel)
	s.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(s.Context())
	require.NoError(s, err)
	messages := sub.Channel() // miniredis stands still until a message is read
	return func() string {
		s.Helper()
		s.do("PUBLISH", channel, "end")
		var got strings.Builder
		for {
			select {
			case m := <-messages:
				if m.Payload == "end" {
					return got.String()
				}
				got.WriteString(m.Payload)
			case <-time.After(10 * time.Second):
				require.FailNow(s, "no message in 10 s")
			}
		}
	}
}

func TestReleaseScriptLabelAndVerb(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.listen("ch")
		for verb, want := range map[string]string{"PUBLISH": "0", "NONE": "", "SPUBLISH": "", "BOTH": "0"} {
			s.flush()
			s.acquire([]string{"lock", "label"}, "me:1", 1, 30000, 0, "who")
			got := freed(s.reply(2, lua.RLockRelease, []string{"lock", "list", "label"}, "me:1", 0, s.now()+within, ahead, "ch", verb, 0, "", 0, 1))
			require.Equal(s, []int64{1, 0}, got, "a server without %s releases too", verb)
			require.Equal(s, "", s.state(), "the label goes with the lock")
			require.Equal(s, want, heard(), "messages with %s", verb)
			require.Equal(s, want != "", s.told > 0, "whether anybody was told, with %s", verb)
		}
		s.acquire([]string{"lock", "label"}, "me:1", 1, 30000, 0, "who")
		s.acquire([]string{"lock", "label"}, "me:1", 2, 30000, 0, "who")
		s.release([]string{"lock", "label"}, "me:1", 1, 0, "", 0, 1)
		require.Equal(s, "label=who leased; lock=map[me:1:1] leased", s.state(), "a nested release keeps the label")
		s.flush()

		// Without a deadline it acts whenever it comes, on a fresh holder's behalf.
		s.acquire([]string{"lock"}, "me:1", 1, 30000)
		got, err := s.run(lua.RLockRelease, []string{"lock"}, "me:1", 0, 0, 0, "ch", "PUBLISH")
		require.NoError(s, err)
		require.Equal(s, []int64{2}, got, "without a deadline: freed, and one was told")
		require.Equal(s, "", s.state(), "without a deadline")
		require.Equal(s, "0", heard())
		got, err = s.run(lua.RLockRelease, []string{"lock"}, "me:1", 0, 0, 0, "ch", "PUBLISH")
		require.NoError(s, err)
		require.Equal(s, []int64{-1, 0, 0}, got, "without a deadline, again")
	})
}

func TestRenewScript(t *testing.T) { onBoth(t, testRenewScript) }

// TestRenewScriptWithoutGT: Redis 6 does not have the option that the script
// tries first.
func TestRenewScriptWithoutGT(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.renewing = strings.Replace(lua.RLockRenew.Source, "'GT'", "'XY'", 1)
		require.NotEqual(s, lua.RLockRenew.Source, s.renewing)
		testRenewScript(s)
	})
}

func testRenewScript(s *scripted) {
	s.do("HSET", "mine", "me:1", 2)
	s.do("PEXPIRE", "mine", 5000)
	s.do("HSET", "long", "me:1", 1)
	s.do("PEXPIRE", "long", 60000)
	s.do("HSET", "bare", "me:1", 1)
	s.do("HSET", "yours", "you:1", 1)
	s.do("PEXPIRE", "yours", 5000)
	s.do("SET", "text", "x")
	s.do("SET", "label", "who", "PX", 5000)
	keys := []string{"mine", "long", "bare", "yours", "gone", "text"}
	args := []any{}
	for range keys {
		args = append(args, "me:1", 30000)
	}
	state := s.state()
	for _, often := range []string{"once", "twice"} {
		require.Equal(s, []int64{1, 1, 1, 0, 0, 0}, s.renew(keys, args...), "answers, %s", often)
		s.lease("mine", 30000)
		s.lease("long", 60000)
		s.lease("bare", 30000)
		s.lease("yours", 5000)
		require.EqualValues(s, -1, s.pttl("text"), "a key of another kind is left alone")
	}
	require.Equal(s, strings.ReplaceAll(state, "bare=map[me:1:1]", "bare=map[me:1:1] leased"), s.state(), "nothing else changes")

	// A label follows its lock, and goes with it.
	require.Equal(s, []int64{1, 1}, s.renew([]string{"mine", "label"}, "me:1", 40000, "", 40000))
	s.lease("label", 40000)
	require.Equal(s, []int64{0, 0}, s.renew([]string{"yours", "label"}, "me:1", 90000, "", 90000))
	s.lease("label", 40000)
	require.Equal(s, []int64{1, 1}, s.renew([]string{"mine", "nolabel"}, "me:1", 40000, "", 40000), "no label: nothing is created")
	require.EqualValues(s, 0, s.do("EXISTS", "nolabel"))
	require.Empty(s, s.renew(nil), "an empty batch")
}

func TestForceScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.listen("ch")
		require.Equal(s, []int64{0}, s.reply(-1, lua.RLockForce, []string{"lock"}, "ch", "PUBLISH"), "free")
		require.Equal(s, "", heard(), "messages")
		for verb, want := range map[string]string{"PUBLISH": "0", "NONE": "", "SPUBLISH": "", "BOTH": "0"} {
			s.do("HSET", "lock", "me:1", 3, "you:1", 1)
			require.Equal(s, []int64{1}, s.reply(-1, lua.RLockForce, []string{"lock"}, "ch", verb), "held, with %s", verb)
			require.Equal(s, "", s.state(), "state")
			require.Equal(s, want, heard(), "messages with %s", verb)
		}
	})
}

func TestStateScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		lock, both := []string{"lock"}, []string{"lock", "token"}
		require.Equal(s, []int64{0, 0, -2, 0}, s.reply(-1, lua.RLockState, lock, "me:1"), "free")
		require.Equal(s, []int64{0, 0, -2, 0}, s.reply(-1, lua.RLockState, both, "me:1"), "free, no token yet")
		s.do("HSET", "lock", "me:1", 3)
		s.do("SET", "token", "1795000000000000")
		require.Equal(s, []int64{3, 3, -1, 0}, s.reply(-1, lua.RLockState, lock, "me:1"), "without a lease")
		require.Equal(s, []int64{3, 0, -1, 0}, s.reply(-1, lua.RLockState, lock, ""), "nobody asks")
		s.do("PEXPIRE", "lock", 20000)
		got := s.reply(-1, lua.RLockState, both, "you:1")
		require.Equal(s, []int64{3, 0, 20000, 1795000000000000}, s.near(got, 2, 20000), "held by another")
		state := s.state()
		require.Equal(s, state, s.state(), "it only reads")
	})
}

func TestScriptsLeaveOtherTypesAlone(t *testing.T) {
	onBoth(t, func(s *scripted) {
		for _, scene := range [][]any{{"SET", "lock", "x"}, {"RPUSH", "lock", "x"}, {"ZADD", "lock", 1, "x"}, {"SADD", "lock", "x"}} {
			s.flush()
			s.do(scene...)
			state := s.state()
			for _, call := range []struct {
				script *lua.Script
				args   []any
			}{
				{lua.RLockAcquire, []any{"me:1", 1, 30000, s.now() + within, ahead}},
				{lua.RLockAcquire, []any{"me:1", 2, 30000, s.now() + within, ahead}},
				{lua.RLockRelease, []any{"me:1", 0, s.now() + within, ahead, "ch", "PUBLISH"}},
				{lua.RLockForce, []any{"ch", "PUBLISH"}},
				{lua.RLockState, []any{"me:1"}},
			} {
				_, err := s.run(call.script, []string{"lock"}, call.args...)
				require.ErrorContains(s, err, "WRONGTYPE", "%s on %v", call.script.Name, scene)
				require.Equal(s, state, s.state(), "%s on %v", call.script.Name, scene)
			}
		}
	})
}

// TestScriptsAtTheMemoryLimit checks that nothing new is taken, and that
// everything held can be kept and given back.
func TestScriptsAtTheMemoryLimit(t *testing.T) {
	server := redistest.Start(t)
	s := &scripted{T: t, rdb: server.Client(t)}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.acquire([]string{name, "label " + name}, "me:1", 1, 20000, 0, "who")
		s.acquire([]string{name, "label " + name}, "me:1", 2, 20000, 0, "who")
	}
	held := s.state()
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")

	for rule, call := range map[string]struct {
		keys []string
		args []any
	}{
		"free":            {[]string{"free"}, []any{"me:1", 1, 30000}},
		"free, fenced":    {[]string{"free", "token"}, []any{"me:1", 1, 30000}},
		"free, labelled":  {[]string{"free", "label"}, []any{"me:1", 1, 30000}},
		"nested":          {[]string{"a"}, []any{"me:1", 3, 30000}},
		"nested, fenced":  {[]string{"a", "token"}, []any{"me:1", 3, 30000}},
		"nested, shorter": {[]string{"a"}, []any{"me:1", 3, 1}},
	} {
		args := append(call.args, s.now()+within, ahead)
		switch {
		case strings.HasSuffix(rule, "fenced"):
			args = append(args, 1)
		case strings.HasSuffix(rule, "labelled"):
			args = append(args, 0, "who")
		}
		_, err := s.run(lua.RLockAcquire, call.keys, args...)
		require.ErrorContains(t, err, "OOM", "acquire, %s", rule)
		require.Equal(t, held, s.state(), "acquire, %s: nothing is left", rule)
		s.lease("a", 20000)
	}

	require.Equal(t, []int64{0, 20000, 0}, s.near(s.acquire([]string{"a"}, "you:1", 1, 30000), 1, 20000), "a refusal is a refusal")
	require.Equal(t, []int64{1, 1}, s.renew([]string{"a", "label a"}, "me:1", 60000, "", 60000), "renew")
	s.lease("a", 60000)
	s.lease("label a", 60000)
	require.Equal(t, []int64{1, 1}, s.release([]string{"b", "label b"}, "me:1", 1, 0, "", 0, 1), "nested release")
	s.lease("b", 20000)
	require.Equal(t, []int64{1, 0}, s.release([]string{"b", "list", "label b"}, "me:1", 0, 0, "", 0, 1), "last release")
	require.Equal(t, []int64{1, 0}, s.release([]string{"c"}, "me:1", 0, 5000, "nobody"), "lingering release")
	s.lease("c", 5000)
	require.Equal(t, []int64{1}, s.reply(-1, lua.RLockForce, []string{"d"}, "ch", "PUBLISH"), "force")
	require.Equal(t, int64(2), s.reply(-1, lua.RLockState, []string{"e"}, "me:1")[1], "state")
	require.Equal(t, "a=map[me:1:2] leased; c=map[nobody:1] leased; e=map[me:1:2] leased; "+
		"label a=who leased; label c=who leased; label d=who leased; label e=who leased", s.state())
}

// TestScriptsExpireWithTheLease checks that whatever a script leaves behind
// expires.
func TestScriptsExpireWithTheLease(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.acquire([]string{"lock", "label"}, "me:1", 1, 40, 0, "who")
		s.release([]string{"lock"}, "me:1", 0, 60, "nobody")
		redistest.Until(s, "the keys to lapse", func() bool { return s.state() == "" })
		require.Equal(s, []int64{1, 30000, 0}, s.near(s.acquire([]string{"lock"}, "you:1", 1, 30000), 1, 30000))
		require.Less(s, time.Duration(s.pttl("lock"))*time.Millisecond, 31*time.Second)
	})
}
