package rwlock_test

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"

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

// The keys and the channel of the lock "lock".
const (
	sign   = "latchkey_writer:{lock}"
	prefix = "{lock}:"
)

// A scripted is a server on which scripts run directly, without the library.
type scripted struct {
	*testing.T
	rdb *redis.Client
}

// onBoth runs f against a real server and against the in-memory one.
func onBoth(t *testing.T, f func(s *scripted)) {
	t.Run("Redis", func(t *testing.T) {
		f(&scripted{t, redistest.Start(t).Client(t)})
	})
	t.Run("miniredis", func(t *testing.T) {
		f(&scripted{t, latchkeytest.NewServer(t).Redis(t)})
	})
}

// do runs a command.
func (s *scripted) do(args ...any) any {
	s.Helper()
	v, err := s.rdb.Do(s.Context(), args...).Result()
	require.NoError(s, err, "%v", args)
	return v
}

// scene empties the server and sets keys, written as state shows them.
func (s *scripted) scene(text string) {
	s.Helper()
	s.do("FLUSHALL")
	if text == "" {
		return
	}
	for _, key := range strings.Split(text, "; ") {
		key, lease, leased := strings.Cut(key, " for ")
		name, value, hash := strings.Cut(key, "=")
		switch {
		case hash:
			args := []any{"HSET", name}
			for _, f := range strings.Fields(value) {
				i := strings.LastIndexByte(f, ':')
				args = append(args, f[:i], f[i+1:])
			}
			s.do(args...)
		default:
			name = unshort(name)
			s.do("SET", name, 1)
		}
		if leased {
			s.do("PEXPIRE", name, lease)
		}
	}
}

// short writes the key of a timeout as "holder#n".
func short(key string) string {
	if rest, ok := strings.CutPrefix(key, prefix); ok {
		return strings.Replace(rest, ":rwlock_timeout:", "#", 1)
	}
	return key
}

func unshort(name string) string {
	if strings.Contains(name, "#") {
		return prefix + strings.Replace(name, "#", ":rwlock_timeout:", 1)
	}
	return name
}

// state returns everything on the server, with leases rounded up to seconds:
// "lock=field:value … for 30000; a:1#1 for 30000".
func (s *scripted) state() string {
	s.Helper()
	keys := s.rdb.Keys(s.Context(), "*").Val()
	sort.Strings(keys)
	var locks, rest []string
	for _, k := range keys {
		line := short(k)
		if s.rdb.Type(s.Context(), k).Val() == "hash" {
			var fields []string
			for f, v := range s.rdb.HGetAll(s.Context(), k).Val() {
				fields = append(fields, f+":"+v)
			}
			sort.Strings(fields)
			line += "=" + strings.Join(fields, " ")
		}
		if ms := s.pttl(k); ms >= 0 {
			line += " for " + strconv.FormatInt(rounded(ms), 10)
		}
		if k == "lock" {
			locks = append(locks, line)
		} else {
			rest = append(rest, line)
		}
	}
	return strings.Join(append(locks, rest...), "; ")
}

// rounded returns a lease as it was set: leases are multiples of 5 s here, and
// a test takes less than 4 s.
func rounded(ms int64) int64 {
	const step = 5000
	if up := (ms + step - 1) / step * step; ms > 0 && up-ms < 4000 {
		return up
	}
	return ms
}

func (s *scripted) pttl(key string) int64 {
	s.Helper()
	ms, err := s.rdb.Do(s.Context(), "PTTL", key).Int64()
	require.NoError(s, err)
	return ms
}

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
	list, _ := v.([]any)
	for _, x := range list {
		ints = append(ints, x.(int64))
	}
	return ints, err
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
	if script == lua.RWLockAcquireRead && len(got) == 1 { // granted for the lease asked for
		got = []int64{1, int64(args[3].(int)), got[0]}
	}
	require.Greater(s, len(got), at, "reply %v", got)
	require.GreaterOrEqual(s, got[at], before, "server time told")
	require.LessOrEqual(s, got[at], s.now(), "server time told")
	return append(got[:at:at], got[at+1:]...)
}

func readKeys(holder string, count int, more ...string) []string {
	keys := []string{"lock", sign}
	for n := range count {
		keys = append(keys, unshort(fmt.Sprint(holder, "#", n+1)))
	}
	return append(keys, more...)
}

// acquireRead runs rwlock/acquire_read within its deadline. It returns {status,
// ms}, with the ms rounded.
func (s *scripted) acquireRead(holder string, count, lease int) []int64 {
	s.Helper()
	got := s.reply(2, lua.RWLockAcquireRead, readKeys(holder, count),
		holder, holder+":write", count, lease, s.now()+within, ahead)
	return []int64{got[0], rounded(got[1])}
}

// acquireWrite runs rwlock/acquire_write within its deadline.
func (s *scripted) acquireWrite(holder string, count, lease, back int) []int64 {
	s.Helper()
	got := s.reply(2, lua.RWLockAcquireWrite, []string{"lock", sign},
		holder, count, lease, s.now()+within, ahead, prefix, back)
	return []int64{got[0], rounded(got[1])}
}

// release runs one of the release scripts within its deadline. It returns
// {status, remaining holds}.
func (s *scripted) release(script *lua.Script, holder string, count int, more ...any) []int64 {
	s.Helper()
	args := append([]any{holder, count, s.now() + within, ahead, prefix, "ch", "PUBLISH"}, more...)
	return s.reply(2, script, []string{"lock"}, args...)
}

// listen subscribes to a Redis channel. The returned function returns the
// messages since its last call, concatenated.
func (s *scripted) listen(channel string) func() string {
	s.Helper()
	sub := s.rdb.Subscribe(s.Context(), channel)
	s.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(s.Context())
	require.NoError(s, err)
	messages := sub.Channel() // reads on: the in-memory server waits for that
	return func() string {
		s.Helper()
		s.do("PUBLISH", channel, "end")
		var got strings.Builder
		for {
			m := <-messages
			if m.Payload == "end" {
				return got.String()
			}
			got.WriteString(m.Payload)
		}
	}
}

func TestAcquireReadScript(t *testing.T) {
	tests := []struct {
		rule, scene  string
		count, lease int
		want         []int64
		state        string // empty: the scene
	}{
		{
			"free: granted", "", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:1 mode:read for 30000; me:1#1 for 30000",
		},
		{
			"beside others: granted", "lock=mode:read you:1:1 for 20000; you:1#1 for 20000", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:1 mode:read you:1:1 for 30000; me:1#1 for 30000; you:1#1 for 20000",
		},
		{
			"beside others with a longer lease: theirs stays", "lock=mode:read you:1:1 for 60000; you:1#1 for 60000", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:1 mode:read you:1:1 for 60000; me:1#1 for 30000; you:1#1 for 60000",
		},
		{
			"beside the dead: granted", "lock=mode:read you:1:1 for 60000", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:1 mode:read you:1:1 for 60000; me:1#1 for 30000",
		},
		{
			"a hash without a lease gets one", "lock=mode:read you:1:1; you:1#1 for 60000", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:1 mode:read you:1:1 for 30000; me:1#1 for 30000; you:1#1 for 60000",
		},
		{"a writer has it: refused, with its lease", "lock=mode:write you:1:write:1 for 20000", 1, 30000, []int64{0, 20000}, ""},
		{"a writer has it without a lease: refused, and said so", "lock=mode:write you:1:write:1", 1, 30000, []int64{0, -1}, ""},
		{
			"I am the writer: granted", "lock=me:1:write:1 mode:write for 20000", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:1 me:1:write:1 mode:write for 30000; me:1#1 for 30000",
		},
		{
			"I am the writer: a shorter lease shortens nothing", "lock=me:1:write:1 mode:write for 60000", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:1 me:1:write:1 mode:write for 60000; me:1#1 for 30000",
		},
		{
			"re-entry: one more, and the longer lease for all", "lock=me:1:1 mode:read for 20000; me:1#1 for 20000", 2, 30000,
			[]int64{1, 30000},
			"lock=me:1:2 mode:read for 30000; me:1#1 for 30000; me:1#2 for 30000",
		},
		{
			"re-entry: a shorter lease shortens nothing", "lock=me:1:1 mode:read for 60000; me:1#1 for 60000", 2, 5000,
			[]int64{1, 60000},
			"lock=me:1:2 mode:read for 60000; me:1#1 for 60000; me:1#2 for 60000",
		},
		{"re-entry of what is gone", "", 2, 30000, []int64{-1, 0}, ""},
		{"re-entry of what others have", "lock=mode:read you:1:1 for 60000; you:1#1 for 60000", 2, 30000, []int64{-1, 0}, ""},
		{"re-entry of what has died", "lock=me:1:1 mode:read you:1:1 for 60000; you:1#1 for 60000", 2, 30000, []int64{-1, 0}, ""},
		{"re-entry of what a writer has taken", "lock=mode:write you:1:write:1 for 20000; me:1#1 for 20000", 2, 30000, []int64{-1, 0}, ""},
		{
			"my field is from a life before", "lock=me:1:3 mode:read you:1:1 for 60000; you:1#1 for 60000", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:1 mode:read you:1:1 for 60000; me:1#1 for 30000; you:1#1 for 60000",
		},
	}
	onBoth(t, func(s *scripted) {
		for _, tt := range tests {
			s.scene(tt.scene)
			if tt.state == "" {
				tt.state = tt.scene
			}
			for _, time := range []string{"once", "twice"} {
				require.Equal(s, tt.want, s.acquireRead("me:1", tt.count, tt.lease), "%s, %s: reply", tt.rule, time)
				require.ElementsMatch(s, strings.Split(tt.state, "; "), strings.Split(s.state(), "; "), "%s, %s: state", tt.rule, time)
			}
		}
	})
}

func TestAcquireWriteScript(t *testing.T) {
	const three = "lock=mode:read she:1:2 you:1:1 for 60000; she:1#1 for 10000; she:1#2 for 20000; you:1#1 for 15000"
	tests := []struct {
		rule, scene  string
		count, lease int
		want         []int64
		state        string // empty: the scene
	}{
		{"free: granted", "", 1, 30000, []int64{1, 30000}, "lock=me:1:write:1 mode:write for 30000"},
		{"a writer has it: refused", "lock=mode:write you:1:write:1 for 20000", 1, 30000, []int64{0, 20000}, ""},
		{"a writer has it without a lease", "lock=mode:write you:1:write:1", 1, 30000, []int64{0, -1}, ""},
		{"readers have it: refused, with the longest lease", three, 1, 30000, []int64{0, 20000}, ""},
		{
			"some are dead: refused", "lock=mode:read she:1:2 you:1:1 for 60000; you:1#1 for 15000", 1, 30000,
			[]int64{0, 15000},
			"",
		},
		{
			"all are dead, but the hash is kept: granted", "lock=mode:read she:1:2 you:1:1 for 60000", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:write:1 mode:write for 30000",
		},
		{
			"all are dead, and the hash has no lease: granted", "lock=mode:read you:1:1", 1, 30000,
			[]int64{1, 30000},
			"lock=me:1:write:1 mode:write for 30000",
		},
		{"I read: refused", "lock=me:1:1 mode:read for 20000; me:1#1 for 20000", 1, 30000, []int64{0, 20000}, ""},
		{
			"re-entry: the longer lease", "lock=me:1:write:1 mode:write for 20000", 2, 30000,
			[]int64{1, 30000},
			"lock=me:1:write:2 mode:write for 30000",
		},
		{
			"re-entry: a shorter lease shortens nothing", "lock=me:1:write:1 mode:write for 60000", 2, 5000,
			[]int64{1, 60000},
			"lock=me:1:write:2 mode:write for 60000",
		},
		{"re-entry of what is gone", "", 2, 30000, []int64{-1, 0}, ""},
		{"re-entry of what others have", "lock=mode:write you:1:write:1 for 20000", 2, 30000, []int64{-1, 0}, ""},
		{"re-entry of what readers have", three, 2, 30000, []int64{-1, 0}, ""},
	}
	onBoth(t, func(s *scripted) {
		for _, tt := range tests {
			s.scene(tt.scene)
			if tt.state == "" {
				tt.state = tt.scene
			}
			for _, time := range []string{"once", "twice"} {
				require.Equal(s, tt.want, s.acquireWrite("me:1:write", tt.count, tt.lease, 0), "%s, %s: reply", tt.rule, time)
				require.ElementsMatch(s, strings.Split(tt.state, "; "), strings.Split(s.state(), "; "), "%s, %s: state", tt.rule, time)
			}
		}
	})
}

// TestSignOfAWriter checks that nobody begins to read while the sign lasts. For
// the same time after it anybody may, and no new sign is made.
func TestSignOfAWriter(t *testing.T) {
	onBoth(t, func(s *scripted) {
		const scene = "lock=mode:read you:1:1 for 60000; you:1#1 for 60000"
		s.scene(scene)
		require.Equal(s, []int64{0, 60000}, s.acquireWrite("me:1:write", 1, 30000, 0), "who does not wait leaves none")
		require.Equal(s, scene, s.state())

		before := s.now()
		require.Equal(s, []int64{0, 50000}, s.reply(2, lua.RWLockAcquireWrite, []string{"lock", sign},
			"me:1:write", 1, 30000, s.now()+60000, 61000, prefix, 25000), "ask again when the next is due")
		var from, till int64
		_, err := fmt.Sscan(s.do("GET", sign).(string), &from, &till)
		require.NoError(s, err)
		require.EqualValues(s, 24900, till-from)
		require.GreaterOrEqual(s, till, before+25000)
		require.LessOrEqual(s, till, s.now()+25000)
		require.EqualValues(s, 50000, rounded(s.pttl(sign)))

		redistest.Until(s, "the sign to count", func() bool { return s.now() >= from })
		require.Equal(s, []int64{0, 25000}, s.acquireRead("me:2", 1, 30000), "a fresh reader stands back")
		require.Equal(s, []int64{0, 50000}, s.acquireWrite("me:3:write", 1, 30000, 5000), "another writer")
		require.Equal(s, fmt.Sprint(from, " ", till), s.do("GET", sign), "a sign is not renewed")
		require.Equal(s, []int64{1, 60000}, s.acquireRead("you:1", 2, 30000), "a re-entry does not stand back")
		require.Equal(s, []int64{1, 60000}, s.acquireRead("you:1", 1, 30000), "nor what comes twice")
		s.do("DEL", "lock")
		require.Equal(s, []int64{0, 25000}, s.acquireRead("me:2", 1, 30000), "not even on a free lock")
		require.Equal(s, []int64{1, 30000}, s.acquireWrite("me:1:write", 1, 30000, 25000), "the writer")
		require.EqualValues(s, 0, s.do("EXISTS", sign), "the sign goes when a writer has the lock")
		s.do("SET", sign, fmt.Sprint(s.now(), " ", s.now()+20000), "PX", 40000)
		require.Equal(s, []int64{1, 30000}, s.acquireRead("me:1", 1, 30000), "the writer reads")
		require.Equal(s, []int64{0, 30000}, s.acquireWrite("me:2:write", 1, 30000, 25000), "a writer that waits for a writer")

		s.scene(scene)
		s.do("SET", sign, fmt.Sprint(s.now()+20000, " ", s.now()+40000), "PX", 40000)
		require.Equal(s, []int64{1, 30000}, s.acquireRead("me:2", 1, 30000), "it does not count yet")
		require.Equal(s, []int64{1, 0}, s.release(lua.RWLockReleaseRead, "me:2", 0))
		s.do("SET", sign, "x", "PX", 20000)
		require.Equal(s, []int64{1, 30000}, s.acquireRead("me:2", 1, 30000), "it is none")
		require.Equal(s, []int64{1, 0}, s.release(lua.RWLockReleaseRead, "me:2", 0))
		s.do("SET", sign, fmt.Sprint(s.now()-20000, " ", s.now()), "PX", 20000)
		require.Equal(s, []int64{0, 20000}, s.acquireWrite("me:1:write", 1, 30000, 25000), "no new sign so soon")
		require.Equal(s, []int64{1, 30000}, s.acquireRead("me:2", 1, 30000), "readers may come in")

		// It is as long as was asked for, though the request itself may not take that long.
		s.scene(scene)
		s.do("DEL", sign)
		s.reply(2, lua.RWLockAcquireWrite, []string{"lock", sign}, "me:1:write", 1, 30000, s.now()+5000, 6000, prefix, 25000)
		require.EqualValues(s, 50000, rounded(s.pttl(sign)))
	})
}

func TestReleaseReadScript(t *testing.T) {
	tests := []struct {
		rule, scene  string
		count        int
		more         []any
		first, again []int64 // status, holds left
		state        string
		hints        string // of both
	}{
		{
			rule: "the last hold", scene: "lock=me:1:1 mode:read for 20000; me:1#1 for 20000",
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "00", // the second finds no lock
		},
		{
			rule: "all holds at once", scene: "lock=me:1:2 mode:read for 20000; me:1#1 for 20000; me:1#2 for 20000",
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "00",
		},
		{
			rule: "one of several", scene: "lock=me:1:3 mode:read for 20000; me:1#1 for 20000; me:1#2 for 20000; me:1#3 for 20000", count: 2,
			first: []int64{1, 2}, again: []int64{2, 2},
			state: "lock=me:1:2 mode:read for 20000; me:1#1 for 20000; me:1#2 for 20000",
		},
		{
			rule: "as low already", scene: "lock=me:1:1 mode:read for 20000; me:1#1 for 20000", count: 1,
			first: []int64{2, 1}, again: []int64{2, 1}, state: "lock=me:1:1 mode:read for 20000; me:1#1 for 20000",
		},
		{rule: "free", first: []int64{-1, 0}, again: []int64{-1, 0}, hints: "00"},
		{
			rule: "others'", scene: "lock=mode:read you:1:1 for 20000; you:1#1 for 20000",
			first: []int64{-1, 0}, again: []int64{-1, 0}, state: "lock=mode:read you:1:1 for 20000; you:1#1 for 20000",
		},
		{
			rule:  "others stay, with the longest of their leases",
			scene: "lock=me:1:1 mode:read she:1:2 you:1:1 for 60000; me:1#1 for 60000; she:1#1 for 10000; she:1#2 for 20000; you:1#1 for 15000",
			first: []int64{1, 0}, again: []int64{-1, 0},
			state: "lock=mode:read she:1:2 you:1:1 for 20000; she:1#1 for 10000; she:1#2 for 20000; you:1#1 for 15000",
		},
		{
			rule:  "the dead beside the living are taken out",
			scene: "lock=me:1:1 mode:read she:1:2 you:1:1 for 60000; me:1#1 for 60000; you:1#1 for 15000",
			first: []int64{1, 0}, again: []int64{-1, 0}, state: "lock=mode:read you:1:1 for 15000; you:1#1 for 15000",
		},
		{
			rule: "only the dead are left", scene: "lock=me:1:1 mode:read she:1:2 you:1:1 for 60000; me:1#1 for 60000",
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "00",
		},
		{
			rule: "a timeout that never ends is none", scene: "lock=me:1:1 mode:read you:1:1 for 60000; me:1#1 for 60000; you:1#1",
			first: []int64{1, 0}, again: []int64{-1, 0}, state: "you:1#1", hints: "00",
		},
		{
			rule: "under my write lock", scene: "lock=me:1:2 me:1:write:1 mode:write for 60000; me:1#1 for 5000; me:1#2 for 5000",
			first: []int64{1, 0}, again: []int64{-1, 0}, state: "lock=me:1:write:1 mode:write for 60000",
		},
		{
			rule: "lingering", scene: "lock=me:1:1 mode:read for 20000; me:1#1 for 20000", more: []any{5000, "nobody"},
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "10", state: "lock=mode:read nobody:1 for 5000; nobody#1 for 5000",
		},
		{
			rule:  "lingering beside others",
			scene: "lock=me:1:1 mode:read you:1:1 for 60000; me:1#1 for 20000; you:1#1 for 60000", more: []any{5000, "nobody"},
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "10", state: "lock=mode:read nobody:1 you:1:1 for 60000; nobody#1 for 5000; you:1#1 for 60000",
		},
		{
			rule:  "lingering under my write lock",
			scene: "lock=me:1:1 me:1:write:1 mode:write for 20000; me:1#1 for 20000", more: []any{60000, "nobody"},
			first: []int64{1, 0}, again: []int64{-1, 0}, state: "lock=me:1:write:1 mode:write nobody:1 for 60000; nobody#1 for 60000",
		},
	}
	onBoth(t, func(s *scripted) {
		heard := s.listen("ch")
		for _, tt := range tests {
			s.scene(tt.scene)
			require.Equal(s, tt.first, s.release(lua.RWLockReleaseRead, "me:1", tt.count, tt.more...), "%s: reply", tt.rule)
			require.Equal(s, tt.state, s.state(), "%s: state", tt.rule)
			require.Equal(s, tt.again, s.release(lua.RWLockReleaseRead, "me:1", tt.count, tt.more...), "%s: second reply", tt.rule)
			require.Equal(s, tt.state, s.state(), "%s: state after the second", tt.rule)
			require.Equal(s, tt.hints, heard(), "%s: messages", tt.rule)
		}
	})
}

func TestReleaseWriteScript(t *testing.T) {
	tests := []struct {
		rule, scene  string
		count        int
		more         []any
		first, again []int64 // status, holds left
		state        string
		hints        string // of both
	}{
		{
			rule: "the last hold", scene: "lock=me:1:write:1 mode:write for 20000",
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "11", // the second finds no lock
		},
		{
			rule: "all holds at once", scene: "lock=me:1:write:3 mode:write for 20000",
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "11",
		},
		{
			rule: "one of several", scene: "lock=me:1:write:3 mode:write for 20000", count: 2,
			first: []int64{1, 2}, again: []int64{2, 2}, state: "lock=me:1:write:2 mode:write for 20000",
		},
		{rule: "free", first: []int64{-1, 0}, again: []int64{-1, 0}, hints: "11"},
		{
			rule: "another's", scene: "lock=mode:write you:1:write:1 for 20000",
			first: []int64{-1, 0}, again: []int64{-1, 0}, state: "lock=mode:write you:1:write:1 for 20000",
		},
		{
			rule: "readers'", scene: "lock=mode:read you:1:1 for 20000; you:1#1 for 20000",
			first: []int64{-1, 0}, again: []int64{-1, 0}, state: "lock=mode:read you:1:1 for 20000; you:1#1 for 20000",
		},
		{
			rule: "I go on reading", scene: "lock=me:1:2 me:1:write:1 mode:write for 60000; me:1#1 for 20000; me:1#2 for 20000",
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "1",
			state: "lock=me:1:2 mode:read for 20000; me:1#1 for 20000; me:1#2 for 20000",
		},
		{
			rule: "my read hold is dead", scene: "lock=me:1:1 me:1:write:1 mode:write for 60000",
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "11",
		},
		{
			rule: "a nested hold while I read", scene: "lock=me:1:1 me:1:write:2 mode:write for 60000; me:1#1 for 20000", count: 1,
			first: []int64{1, 1}, again: []int64{2, 1}, state: "lock=me:1:1 me:1:write:1 mode:write for 60000; me:1#1 for 20000",
		},
		{
			rule: "lingering", scene: "lock=me:1:write:2 mode:write for 20000", more: []any{5000, "nobody:write"},
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "10", state: "lock=mode:write nobody:write:1 for 5000",
		},
		{
			rule:  "lingering while I go on reading",
			scene: "lock=me:1:1 me:1:write:1 mode:write for 60000; me:1#1 for 20000", more: []any{5000, "nobody:write"},
			first: []int64{1, 0}, again: []int64{-1, 0}, hints: "1", state: "lock=me:1:1 mode:read for 20000; me:1#1 for 20000",
		},
	}
	onBoth(t, func(s *scripted) {
		heard := s.listen("ch")
		for _, tt := range tests {
			s.scene(tt.scene)
			require.Equal(s, tt.first, s.release(lua.RWLockReleaseWrite, "me:1:write", tt.count, tt.more...), "%s: reply", tt.rule)
			require.Equal(s, tt.state, s.state(), "%s: state", tt.rule)
			require.Equal(s, tt.again, s.release(lua.RWLockReleaseWrite, "me:1:write", tt.count, tt.more...), "%s: second reply", tt.rule)
			require.Equal(s, tt.state, s.state(), "%s: state after the second", tt.rule)
			require.Equal(s, tt.hints, heard(), "%s: messages", tt.rule)
		}
	})
}

func TestReleaseScriptsLabelVerbAndDeadline(t *testing.T) {
	onBoth(t, func(s *scripted) {
		heard := s.listen("ch")
		for _, half := range []struct {
			script                *lua.Script
			holder, scene, nested string
			hint                  string
		}{
			{
				lua.RWLockReleaseRead, "me:1", "lock=me:1:1 mode:read for 20000; me:1#1 for 20000; label for 20000",
				"lock=me:1:2 mode:read for 20000; label for 20000; me:1#1 for 20000; me:1#2 for 20000", "0",
			},
			{
				lua.RWLockReleaseWrite, "me:1:write", "lock=me:1:write:1 mode:write for 20000; label for 20000",
				"lock=me:1:write:2 mode:write for 20000; label for 20000", "1",
			},
		} {
			keys := []string{"lock", "label"}
			for verb, want := range map[string]string{"PUBLISH": half.hint, "NONE": "", "SPUBLISH": "", "BOTH": half.hint} {
				s.scene(half.scene)
				got := s.reply(2, half.script, keys, half.holder, 0, s.now()+within, ahead, prefix, "ch", verb)
				require.Equal(s, []int64{1, 0}, got, "a server without %s releases too", verb)
				require.Empty(s, s.state(), "the label goes with the hold")
				require.Equal(s, want, heard(), "messages with %s", verb)
			}
			s.scene(half.nested)
			s.reply(2, half.script, keys, half.holder, 1, s.now()+within, ahead, prefix, "ch", "PUBLISH")
			require.Contains(s, s.state(), "label for 20000", "a nested release keeps the label")

			// Without a deadline it acts whenever it comes, on a fresh holder's behalf.
			s.scene(half.scene)
			got, err := s.run(half.script, keys, half.holder, 0, 0, 0, prefix, "ch", "PUBLISH")
			require.NoError(s, err)
			require.EqualValues(s, 1, got[0])
			require.Empty(s, s.state())
			heard()
		}
	})
}

func TestScriptsRefuseToActOutOfTime(t *testing.T) {
	const (
		read  = "lock=me:1:1 mode:read for 20000; me:1#1 for 20000"
		write = "lock=me:1:write:1 mode:write for 20000"
	)
	onBoth(t, func(s *scripted) {
		for rule, at := range map[string]int64{
			"late by 1 ms": -1, "late by hours": -10_000_000, "too far ahead": ahead + 1000, "hours ahead": 10_000_000,
		} {
			for _, scene := range []string{"", read, write} {
				s.scene(scene)
				for what, got := range map[string][]int64{
					"acquire_read":  s.reply(2, lua.RWLockAcquireRead, readKeys("me:1", 2), "me:1", "me:1:write", 2, 30000, s.now()+at, ahead),
					"acquire_write": s.reply(2, lua.RWLockAcquireWrite, []string{"lock", sign}, "me:1:write", 1, 30000, s.now()+at, ahead, prefix, 5000),
					"release_read":  s.reply(2, lua.RWLockReleaseRead, []string{"lock"}, "me:1", 0, s.now()+at, ahead, prefix, "ch", "PUBLISH"),
					"release_write": s.reply(2, lua.RWLockReleaseWrite, []string{"lock"}, "me:1:write", 0, s.now()+at, ahead, prefix, "ch", "PUBLISH"),
				} {
					require.Equal(s, []int64{-2, 0}, got, "%s, %s", what, rule)
				}
				require.Empty(s, s.reply(0, lua.RWLockRenew, []string{"lock", unshort("me:1#1")}, s.now()+at, ahead, "me:1", 60000, 1, 0), "renew, %s", rule)
				require.Equal(s, scene, s.state(), "state, %s", rule)
			}
		}
	})
}

func TestRenewScript(t *testing.T) {
	onBoth(t, func(s *scripted) {
		s.scene("lock=me:1:2 mode:read you:1:1 for 5000; me:1#1 for 5000; me:1#2 for 5000; you:1#1 for 5000; " +
			"long=me:1:1 mode:read for 60000; me:1#9 for 60000; " +
			"w=me:1:write:1 mode:write for 5000; label for 5000; yours=mode:read you:1:1 for 5000; text")
		own := []string{"lock", unshort("me:1#1"), unshort("me:1#2")}
		keys := append(own, "long", unshort("me:1#9"), "w", "label", "yours", unshort("none#1"), "gone", "text")
		args := []any{
			"me:1", 30000, 2, 0,
			"me:1", 30000, 1, 0,
			"me:1:write", 30000, 0, 1,
			"me:1", 30000, 1, 0,
			"me:1:write", 30000, 0, 0,
			"me:1", 30000, 0, 0,
		}
		renew := func(keys []string, args ...any) []int64 {
			return s.reply(0, lua.RWLockRenew, keys, append([]any{s.now() + within, ahead}, args...)...)
		}
		for _, time := range []string{"once", "twice"} {
			require.Equal(s, []int64{1, 1, 1, 0, 0, 0}, renew(keys, args...), "answers, %s", time)
			require.Equal(s, "lock=me:1:2 mode:read you:1:1 for 30000; label for 30000; long=me:1:1 mode:read for 60000; text; "+
				"w=me:1:write:1 mode:write for 30000; yours=mode:read you:1:1 for 5000; "+
				"me:1#1 for 30000; me:1#2 for 30000; me:1#9 for 60000; you:1#1 for 5000", s.state(), "another's timeout is left alone")
		}

		// What was given back meanwhile is not missed.
		s.scene("lock=me:1:1 mode:read for 5000; me:1#1 for 5000")
		require.Equal(s, []int64{1}, renew(own, "me:1", 30000, 2, 0))
		require.Equal(s, "lock=me:1:1 mode:read for 30000; me:1#1 for 30000", s.state())

		// What is dead stays so, and keeps nobody out.
		for _, scene := range []string{
			"lock=me:1:1 mode:read for 5000",
			"lock=me:1:2 mode:read for 5000",
			"lock=mode:read you:1:1 for 5000; you:1#1 for 5000",
			"lock=mode:write you:1:write:1 for 5000",
		} {
			s.scene(scene)
			require.Equal(s, []int64{0}, renew(own, "me:1", 30000, 2, 0), scene)
			require.Equal(s, scene, s.state())
		}
		require.Empty(s, renew([]string{}), "an empty batch")
	})
}

func TestForceScript(t *testing.T) {
	tests := []struct {
		rule, half, scene string
		want              int64
		state, hints      string
	}{
		{"free", "read", "", 0, "", ""},
		{"free", "write", "", 0, "", ""},
		{"readers", "read", "lock=me:1:2 mode:read you:1:1 for 5000; me:1#1 for 5000; me:1#2 for 5000; you:1#1 for 5000", 1, "", "0"},
		{"dead readers", "read", "lock=me:1:2 mode:read for 5000", 0, "", "0"},
		{"the write half of readers", "write", "lock=me:1:1 mode:read for 5000; me:1#1 for 5000", 0, "lock=me:1:1 mode:read for 5000; me:1#1 for 5000", ""},
		{"a writer", "write", "lock=me:1:write:2 mode:write for 5000", 1, "", "1"},
		{"the read half of a writer", "read", "lock=me:1:write:2 mode:write for 5000", 0, "lock=me:1:write:2 mode:write for 5000", ""},
		{
			"a writer that reads", "write", "lock=me:1:1 me:1:write:2 mode:write for 60000; me:1#1 for 5000",
			1, "lock=me:1:1 mode:read for 5000; me:1#1 for 5000", "1",
		},
		{"a writer that has read", "write", "lock=me:1:1 me:1:write:2 mode:write for 60000", 1, "", "1"},
		{
			"what a writer reads", "read", "lock=me:1:1 me:1:write:2 mode:write for 60000; me:1#1 for 5000",
			1, "lock=me:1:write:2 mode:write for 60000", "",
		},
	}
	onBoth(t, func(s *scripted) {
		heard := s.listen("ch")
		for _, tt := range tests {
			for _, verb := range []string{"PUBLISH", "BOTH", "NONE"} {
				s.scene(tt.scene)
				require.Equal(s, []int64{tt.want}, s.reply(-1, lua.RWLockForce, []string{"lock"}, tt.half, prefix, "ch", verb), "%s: reply", tt.rule)
				require.Equal(s, tt.state, s.state(), "%s: state", tt.rule)
				if verb == "NONE" {
					tt.hints = ""
				}
				require.Equal(s, tt.hints, heard(), "%s: messages", tt.rule)
			}
		}
	})
}

func TestStateScript(t *testing.T) {
	const readers = "lock=me:1:2 mode:read she:1:5 you:1:1 for 60000; me:1#1 for 10000; me:1#2 for 20000; you:1#1 for 15000"
	const both = "lock=me:1:1 me:1:write:2 mode:write for 60000; me:1#1 for 15000"
	tests := []struct {
		scene, half, holder string
		want                []int64
	}{
		{"", "read", "", []int64{0, -2}},
		{"", "read", "me:1", []int64{0, -2}},
		{"", "write", "me:1:write", []int64{0, -2}},
		{readers, "read", "me:1", []int64{2, 20000}},
		{readers, "read", "she:1", []int64{0, -2}},
		{readers, "read", "", []int64{3, 20000}},
		{readers, "write", "", []int64{0, -2}},
		{readers, "write", "me:1:write", []int64{0, -2}},
		{both, "read", "me:1", []int64{1, 15000}},
		{both, "write", "", []int64{2, 60000}},
		{both, "write", "me:1:write", []int64{2, 60000}},
		{both, "write", "you:1:write", []int64{0, 60000}},
		{"lock=me:1:write:1 mode:write", "write", "me:1:write", []int64{1, -1}},
		{"lock=me:1:write:1 mode:write for 5000", "read", "", []int64{0, -2}},
		{"lock=me:1:1 mode:read for 5000", "read", "me:1", []int64{0, -2}},
		{"lock=me:1:1 mode:read for 5000; me:1#1", "read", "", []int64{0, -2}},
	}
	onBoth(t, func(s *scripted) {
		for _, tt := range tests {
			s.scene(tt.scene)
			got := s.reply(-1, lua.RWLockState, []string{"lock"}, tt.half, prefix, tt.holder, 0)
			got[1] = rounded(got[1])
			require.Equal(s, append(tt.want, 0), got, "%s of %s for %q", tt.half, tt.scene, tt.holder)
			require.Equal(s, tt.scene, s.state(), "it only reads")
		}
	})
}

// TestScriptsLeaveOthersAlone has keys of others, a reentrant lock's hash among
// them.
func TestScriptsLeaveOthersAlone(t *testing.T) {
	onBoth(t, func(s *scripted) {
		for _, scene := range [][]any{
			{"SET", "lock", "x"}, {"RPUSH", "lock", "x"}, {"ZADD", "lock", 1, "x"}, {"SADD", "lock", "x"}, {"HSET", "lock", "me:1", 1},
		} {
			s.do("FLUSHALL")
			s.do(scene...)
			state := s.state()
			calls := []struct {
				script *lua.Script
				keys   []string
				args   []any
			}{
				{lua.RWLockAcquireRead, readKeys("me:1", 1), []any{"me:1", "me:1:write", 1, 30000, s.now() + within, ahead}},
				{lua.RWLockAcquireRead, readKeys("me:1", 2), []any{"me:1", "me:1:write", 2, 30000, s.now() + within, ahead}},
				{lua.RWLockAcquireWrite, []string{"lock", sign}, []any{"me:1:write", 1, 30000, s.now() + within, ahead, prefix, 0}},
				{lua.RWLockForce, []string{"lock"}, []any{"read", prefix, "ch", "PUBLISH"}},
				{lua.RWLockForce, []string{"lock"}, []any{"write", prefix, "ch", "PUBLISH"}},
				{lua.RWLockState, []string{"lock"}, []any{"read", prefix, "", 0}},
				{lua.RWLockState, []string{"lock"}, []any{"write", prefix, "", 0}},
			}
			for _, call := range calls {
				_, err := s.run(call.script, call.keys, call.args...)
				require.ErrorContains(s, err, "WRONGTYPE", "%s on %v", call.script.Name, scene)
				require.Equal(s, state, s.state(), "%s on %v", call.script.Name, scene)
			}
			for _, script := range []*lua.Script{lua.RWLockReleaseRead, lua.RWLockReleaseWrite} {
				got, err := s.run(script, []string{"lock"}, "me:1", 0, s.now()+within, ahead, prefix, "ch", "PUBLISH")
				if err == nil { // a hash, on which it has nothing
					require.EqualValues(s, -1, got[0])
				} else {
					require.ErrorContains(s, err, "WRONGTYPE")
				}
				require.Equal(s, state, s.state(), "%s on %v", script.Name, scene)
			}
		}
	})
}

// TestScriptsAtTheMemoryLimit checks that nothing new is taken, and that
// everything held can be kept and given back.
func TestScriptsAtTheMemoryLimit(t *testing.T) {
	server := redistest.Start(t)
	s := &scripted{t, server.Client(t)}
	limit := func(bytes string) {
		server.Do(t, "CONFIG", "SET", "maxmemory", bytes)
	}
	refused := func(scene string, script *lua.Script, keys []string, args ...any) {
		t.Helper()
		limit("0")
		s.scene(scene)
		limit("1")
		_, err := s.run(script, keys, args...)
		require.ErrorContains(t, err, "OOM", script.Name)
		require.Equal(t, scene, s.state(), "nothing is left")
	}
	done := func(scene, state string, script *lua.Script, keys []string, args ...any) {
		t.Helper()
		limit("0")
		s.scene(scene)
		limit("1")
		_, err := s.run(script, keys, args...)
		require.NoError(t, err, script.Name)
		require.Equal(t, state, s.state())
	}
	const (
		mine  = "lock=me:1:2 mode:read you:1:1 for 60000; me:1#1 for 20000; me:1#2 for 20000; you:1#1 for 60000"
		write = "lock=me:1:1 me:1:write:2 mode:write for 60000; me:1#1 for 20000"
	)
	lock := []string{"lock"}
	at := func() int64 { return s.now() + within }
	refused("", lua.RWLockAcquireRead, readKeys("me:1", 1), "me:1", "me:1:write", 1, 30000, at(), ahead)
	refused(mine, lua.RWLockAcquireRead, readKeys("me:1", 3), "me:1", "me:1:write", 3, 30000, at(), ahead)
	refused("", lua.RWLockAcquireWrite, []string{"lock", sign}, "me:1:write", 1, 30000, at(), ahead, prefix, 0)
	refused(write, lua.RWLockAcquireWrite, []string{"lock", sign}, "me:1:write", 3, 30000, at(), ahead, prefix, 0)
	// A refusal is a refusal, although the sign cannot be left.
	done(mine, mine, lua.RWLockAcquireWrite, []string{"lock", sign}, "she:1:write", 1, 30000, at(), ahead, prefix, 5000)

	done(mine, strings.ReplaceAll(mine, "for 20000", "for 60000"), lua.RWLockRenew,
		[]string{"lock", unshort("me:1#1"), unshort("me:1#2")}, at(), ahead, "me:1", 60000, 2, 0)
	done(mine, "lock=me:1:1 mode:read you:1:1 for 60000; me:1#1 for 20000; you:1#1 for 60000",
		lua.RWLockReleaseRead, lock, "me:1", 1, at(), ahead, prefix, "ch", "PUBLISH")
	done(mine, "lock=mode:read you:1:1 for 60000; you:1#1 for 60000",
		lua.RWLockReleaseRead, lock, "me:1", 0, at(), ahead, prefix, "ch", "PUBLISH")
	done(mine, "lock=mode:read nobody:1 you:1:1 for 60000; nobody#1 for 5000; you:1#1 for 60000",
		lua.RWLockReleaseRead, lock, "me:1", 0, at(), ahead, prefix, "ch", "PUBLISH", 5000, "nobody")
	done(write, "lock=me:1:1 me:1:write:1 mode:write for 60000; me:1#1 for 20000",
		lua.RWLockReleaseWrite, lock, "me:1:write", 1, at(), ahead, prefix, "ch", "PUBLISH")
	done(write, "lock=me:1:1 mode:read for 20000; me:1#1 for 20000",
		lua.RWLockReleaseWrite, lock, "me:1:write", 0, at(), ahead, prefix, "ch", "PUBLISH")
	done(write, "lock=me:1:1 mode:read for 20000; me:1#1 for 20000", lua.RWLockForce, lock, "write", prefix, "ch", "PUBLISH")
	done(write, "lock=me:1:write:2 mode:write for 60000", lua.RWLockForce, lock, "read", prefix, "ch", "PUBLISH")
	done(mine, mine, lua.RWLockState, lock, "read", prefix, "me:1", 0)
}
