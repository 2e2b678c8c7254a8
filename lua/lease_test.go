package lua_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

// What the scripts leave behind has an end: a key of a lock, of its queue or of a group
// that has none closes a name for ever. Two things can take it away.
//
// Redis 6.2 and 7.0 take the time anew for each command of a script, and PEXPIRE deletes
// a key whose time is over by then: what is written behind it makes the key anew, without
// an end. So the expiry comes last.
//
// And a user may not be allowed what comes behind the write.

// A leased is a script that writes, and what it finds.
type leased struct {
	name   string
	script *lua.Script
	keys   []string
	begin  [][]any
	args   func(now int64) []any
	keep   []string // of the keys, those that need no end
}

const (
	within = 5000
	ahead  = within + 1000
)

// leasedScripts are all scripts that write behind an expiry, or set one, in each way
// that they write.
func leasedScripts() []leased {
	const timeout, long = 5000, 60000
	hash := func(key string, fields ...any) []any { return append([]any{"HSET", key}, fields...) }
	ends := func(key string) []any { return []any{"PEXPIRE", key, 30000} }
	both := func(cmds ...[]any) [][]any { return cmds }
	fixed := func(args ...any) func(int64) []any { return func(int64) []any { return args } }
	timely := func(head []any, tail ...any) func(int64) []any {
		return func(now int64) []any {
			return append(append(slices.Clone(head), now+within, ahead), tail...)
		}
	}

	fire := []string{"lock", "run", "runs"}
	ran := func(state string) [][]any {
		return both(hash("run", "state", state, "attempt", 1, "holder", "me"), ends("run"), []any{"ZADD", "runs", 1, 1000}, ends("runs"))
	}
	memo := []string{"lock", "note", "value"}
	at := both(hash("lock", "me", 1), ends("lock"), hash("note", "call", "C", "mark", "mark", "holder", "me"), ends("note"))
	led := both(hash("lock", "me", 1), ends("lock"), hash("record", "holder", "me", "term", 5, "since", 7), ends("record"))
	offered := append(slices.Clone(led), hash("record", "next", "you", "nonce", "n"))
	held := both(hash("lock", "me", 1), ends("lock"))
	twice := both(hash("lock", "me", 2), ends("lock"))
	other := both(hash("lock", "you:1", 1), ends("lock"))
	list := both([]any{"ZADD", "list", 1, "she:1 1000 she word"}, ends("list"))

	rw := func(mode string, readers ...string) [][]any {
		cmds := both(hash("lock", "mode", mode), ends("lock"))
		for _, r := range readers {
			cmds = append(cmds, hash("lock", r, 1))
			if !strings.HasSuffix(r, ":write") {
				cmds = append(cmds, []any{"SET", "{lock}:" + r + ":rwlock_timeout:1", 1, "PX", 30000})
			}
		}
		return cmds
	}
	nested := append(rw("read", "me"), hash("lock", "me", 2), []any{"SET", "{lock}:me:rwlock_timeout:2", 1, "PX", 30000})
	many := both(hash("lock", "mode", "read"), ends("lock"))
	for i := range 200 {
		many = append(many, hash("lock", fmt.Sprint("r", i), 1))
	}
	many = append(many, hash("lock", "me", 1), []any{"SET", "{lock}:me:rwlock_timeout:1", 1, "PX", 30000})
	timeouts := []string{"{lock}:me:rwlock_timeout:1", "{lock}:me:rwlock_timeout:2"}

	fair := []string{"lock", "queue", "scores", "clients", "label"}
	queued := both(
		[]any{"RPUSH", "queue", "you:1", "she:2", "it:3"}, ends("queue"),
		[]any{"ZADD", "scores", "9999999999999", "you:1", "9999999999999", "she:2", "9999999999999", "it:3"}, ends("scores"),
		hash("clients", "you", "9999999999999 proof"), ends("clients"),
	)
	half := func(key string) [][]any { return append(slices.Clone(queued), []any{"DEL", key}) }
	ask := func(wait int) func(int64) []any {
		return timely([]any{"me:1", 1, 30000}, wait, timeout, "me", 3000, "ch", "PUBLISH", long, "label", "proof")
	}
	asks := func(wait int) func(int64) []any { // whose client has said just now that it is alive
		return timely([]any{"you:9", 1, 30000}, wait, timeout, "you", 3000, "ch", "PUBLISH", long, "label", "proof")
	}
	fairly := func(count int, linger ...any) func(int64) []any {
		return timely([]any{"me", count}, append([]any{timeout, "me", "ch", "PUBLISH"}, linger...)...)
	}

	group := []string{"group", "claim", "label"}
	set := func(who string, count int) [][]any {
		cmds := both(ends("group"), []any{"SET", "claim", count, "PX", 30000})
		for _, v := range []string{"a", "b"} {
			cmds = slices.Insert(cmds, 0, hash("group", v, who, v+":"+who+":expire_time", "999999999999999", v+":"+who+":lock_count", count))
		}
		return cmds
	}
	over := both(hash("group", "a", "you", "a:you:expire_time", 1, "a:you:lock_count", 1), ends("group"))
	ungroup := func(count, linger int) func(int64) []any {
		return timely([]any{"me", count}, "ch", "PUBLISH", linger, "heir", "a", "b")
	}

	return []leased{
		{"new", lua.RLockAcquire, []string{"lock", "token", "list", "label"}, nil, timely([]any{"me", 1, 1}, "1", "label", "", long), []string{"token"}},
		{"nested", lua.RLockAcquire, []string{"lock", "list", "label"}, held, timely([]any{"me", 2, long}, "", "label", "", long), nil},
		{"refused", lua.RLockAcquire, []string{"lock", "list", "label"}, other, timely([]any{"me", 1, long}, "", "label", "me:1 1000 me word", long), nil},
		{"new", lua.RLockAcquireMany, []string{"lock", "lock2"}, nil, func(now int64) []any { return []any{1, now + within, ahead, "me", "you"} }, nil},
		{"nested", lua.RLockRelease, []string{"lock"}, twice, timely([]any{"me", 1}, "ch", "PUBLISH"), nil},
		{"lingers", lua.RLockRelease, []string{"lock"}, held, timely([]any{"me", 0}, "ch", "PUBLISH", 1, "heir"), nil},
		{"given", lua.RLockRelease, []string{"lock", "list", "token"}, held, timely([]any{"me", 0}, "ch", "PUBLISH", 0, "me:1 1 me word", "1", "", 0, long), []string{"token"}},
		{"listed", lua.RLockRelease, []string{"lock", "list"}, append(slices.Clone(held), list...), timely([]any{"me", 0}, "ch", "PUBLISH", 0, "me:1 1 me word", "", "", 0, long), nil},
		{"passed", lua.RLockPass, []string{"lock", "token"}, held, timely([]any{"me", "you", 1}, 5), []string{"token"}},
		{"held", lua.RLockRenew, []string{"lock", "label"}, append(slices.Clone(held), []any{"SET", "label", 1, "PX", 30000}), timely(nil, "me", 1, "", 1), nil},

		{"new", lua.RWLockAcquireRead, []string{"lock", "sign", timeouts[0], "label"}, nil, timely([]any{"me", "me:write", 1, 1}, "label"), nil},
		{"beside", lua.RWLockAcquireRead, []string{"lock", "sign", timeouts[0], "label"}, rw("read", "you"), timely([]any{"me", "me:write", 1, long}, "label"), nil},
		{"nested", lua.RWLockAcquireRead, []string{"lock", "sign", timeouts[0], timeouts[1]}, rw("read", "me"), timely([]any{"me", "me:write", 2, long}), nil},
		{"new", lua.RWLockAcquireReadMany, []string{"lock", "sign", timeouts[0], "{lock}:you:rwlock_timeout:1"}, nil, timely([]any{1}, "me", "you"), nil},
		{"beside", lua.RWLockAcquireReadMany, []string{"lock", "sign", timeouts[0]}, rw("read", "you"), timely([]any{long}, "me"), nil},
		{"new", lua.RWLockAcquireWrite, []string{"lock", "sign", "label"}, nil, timely([]any{"me:write", 1, 1}, "{lock}:", 0, "label"), nil},
		{"nested", lua.RWLockAcquireWrite, []string{"lock", "sign", "label"}, rw("write", "me:write"), timely([]any{"me:write", 2, long}, "{lock}:", 0, "label"), nil},
		{"refused", lua.RWLockAcquireWrite, []string{"lock", "sign"}, rw("read", "you"), timely([]any{"me:write", 1, 1}, "{lock}:", 1000, "label"), nil},
		{"nested", lua.RWLockReleaseRead, append([]string{"lock"}, timeouts...), nested, timely([]any{"me", 1}, "{lock}:", "ch", "PUBLISH"), nil},
		{"beside", lua.RWLockReleaseRead, append([]string{"lock"}, timeouts...), rw("read", "me", "you"), timely([]any{"me", 0}, "{lock}:", "ch", "PUBLISH"), nil},
		{"lingers", lua.RWLockReleaseRead, append([]string{"lock"}, timeouts...), rw("read", "me"), timely([]any{"me", 0}, "{lock}:", "ch", "PUBLISH", 1, "heir"), nil},
		{"lingers among the dead", lua.RWLockReleaseRead, append([]string{"lock"}, timeouts...), many, timely([]any{"me", 0}, "{lock}:", "ch", "PUBLISH", 1, "heir"), nil},
		{"under a writer", lua.RWLockReleaseRead, append([]string{"lock"}, timeouts...), rw("write", "me", "me:write"), timely([]any{"me", 0}, "{lock}:", "ch", "PUBLISH"), nil},
		{"beside", lua.RWLockReleaseReadMany, append([]string{"lock"}, timeouts[0]), rw("read", "me", "you"), func(now int64) []any { return []any{"PUBLISH", "ch", "{lock}:", now + within, ahead, "me"} }, nil},
		{"nested", lua.RWLockReleaseWrite, []string{"lock"}, append(rw("write", "me:write"), hash("lock", "me:write", 2)), timely([]any{"me:write", 1}, "{lock}:", "ch", "PUBLISH"), nil},
		{"reads on", lua.RWLockReleaseWrite, []string{"lock"}, rw("write", "me", "me:write"), timely([]any{"me:write", 0}, "{lock}:", "ch", "PUBLISH"), nil},
		{"lingers", lua.RWLockReleaseWrite, []string{"lock"}, rw("write", "me:write"), timely([]any{"me:write", 0}, "{lock}:", "ch", "PUBLISH", 1, "heir:write"), nil},
		{"reads on", lua.RWLockForce, []string{"lock"}, rw("write", "me", "me:write"), fixed("write", "{lock}:", "ch", "PUBLISH"), nil},
		{"held", lua.RWLockRenew, append([]string{"lock"}, timeouts[0], "label"), rw("read", "me"), timely(nil, "me", long, 1, 1), nil},

		{"new", lua.FairLockAcquire, fair, nil, ask(0), nil},
		{"new, queued", lua.FairLockAcquire, fair, append(slices.Clone(queued), []any{"LPUSH", "queue", "me:1"}, []any{"ZADD", "scores", "9999999999999", "me:1"}), ask(300000), nil},
		{"next, without a score", lua.FairLockAcquire, fair, append(both([]any{"RPUSH", "queue", "me:1", "you:1"}, ends("queue")), other[:0]...), ask(0), nil},
		{"another one's turn, without a score", lua.FairLockAcquire, fair, half("scores"), ask(0), nil},
		{"queues first", lua.FairLockAcquire, fair, other, ask(300000), nil},
		{"queues", lua.FairLockAcquire, fair, append(slices.Clone(other), queued...), ask(300000), nil},
		{"queues without a queue", lua.FairLockAcquire, fair, append(slices.Clone(other), half("queue")...), asks(300000), nil},
		{"queues without scores", lua.FairLockAcquire, fair, append(slices.Clone(other), half("scores")...), asks(300000), nil},
		{"nested", lua.FairLockRelease, fair[:4], twice, fairly(1), nil},
		{"lingers", lua.FairLockRelease, fair[:4], append(slices.Clone(held), queued...), fairly(0, 1, "heir"), nil},
		{"given", lua.FairLockRelease, fair[:4], append(slices.Clone(held), queued...), fairly(0), nil},
		{"given without scores", lua.FairLockRelease, fair[:4], append(slices.Clone(held), half("scores")...), fairly(0), nil},
		{"given to its own", lua.FairLockRelease, fair[:4], append(slices.Clone(held), queued...), fairly(0, 0, "you:1", 1), nil},
		{"told without scores", lua.FairLockForce, fair[:4], half("scores"), fixed(timeout, "ch", "PUBLISH"), nil},
		{"leaves", lua.FairLockLeave, fair[:4], queued, timely([]any{"she:2", 300000, timeout, "she"}, "ch", "PUBLISH"), nil},
		{"leaves without scores", lua.FairLockLeave, fair[:4], half("scores"), timely([]any{"she:2", 300000, timeout, "she"}, "ch", "PUBLISH"), nil},
		{"keeps", lua.FairLockKeep, fair[1:4], queued, fixed("me", 3000, timeout, long, "proof", "she:2"), nil},
		{"keeps without clients", lua.FairLockKeep, fair[1:4], half("clients"), fixed("me", 3000, timeout, long, "proof", "she:2"), nil},

		{"new", lua.GroupAcquire, group, nil, timely([]any{"me", 1, 1}, "label", "a", "b"), nil},
		{"over", lua.GroupAcquire, group, over, timely([]any{"me", 1, 1}, "label", "a", "b"), nil},
		{"nested", lua.GroupAcquire, group, set("me", 1), timely([]any{"me", 2, long}, "label", "a", "b"), nil},
		{"nested", lua.GroupRelease, group, set("me", 2), ungroup(1, 0), nil},
		{"freed", lua.GroupRelease, group, set("me", 1), ungroup(0, 0), nil},
		{"lingers", lua.GroupRelease, group, set("me", 1), ungroup(0, 1), nil},
		{"held", lua.GroupRenew, group[:2], set("me", 1), timely(nil, "me", long, 0, 2, "a", "b"), nil},

		{"expiring", lua.PermitAcquire, []string{"permits", "out"}, both([]any{"SET", "permits", 2, "PX", 30000}), timely(nil, "ch", "PUBLISH", 1, 30000, "id"), nil},
		{"new", lua.PermitUpdate, []string{"out", "claim"}, both([]any{"ZADD", "out", "9999999999999", "id"}), func(now int64) []any { return []any{"id", 90000, 7, 1000, now + within, ahead} }, []string{"out"}},
		{"text", lua.LabelWrite, []string{"label"}, nil, fixed("text", 1000), nil},
		{"closed", lua.LabelEnded, []string{"lock", "label"}, held, fixed("me", 1000, "text"), nil},
		{"kept", lua.LabelEnded, []string{"out", "label"}, [][]any{{"ZADD", "out", "9999999999999", "id"}}, fixed("id", 1000, "text"), []string{"out"}},

		{"first", lua.OnceBegin, fire, held, fixed("me", 1000, 2, long, 0, "who", "call"), nil},
		{"again", lua.OnceBegin, fire, append(slices.Clone(held), ran("failed")...), fixed("me", 1000, 2, long, 0, "who", "call"), nil},
		{"done", lua.OnceFinish, fire, append(slices.Clone(held), ran("running")...), fixed("me", 1000, "done", "", long, "call"), nil},
		{"failed", lua.OnceFinish, fire, append(slices.Clone(held), ran("running")...), fixed("me", 1000, "failed", "why", long, "call"), nil},

		{"new", lua.MemoBegin, memo, held, fixed("me", "C", "mark", "who", long), nil},
		{"again", lua.MemoBegin, memo, append(slices.Clone(held), hash("note", "failed", "B", "failedmark", "", "error", "why", "until", 1), ends("note")), fixed("me", "C", "mark", "who", long), nil},
		{"done", lua.MemoFinish, memo, at, fixed("me", "C", "done", "value", long, 0), nil},
		{"failed", lua.MemoFinish, memo, at, fixed("me", "C", "failed", "why", 0, long), nil},
		{"failed again", lua.MemoFinish, memo, append(slices.Clone(at), hash("note", "failed", "B")), fixed("me", "C", "failed", "why", long, 0), nil},
		{"dropped", lua.MemoFinish, memo, append(slices.Clone(at), hash("note", "failed", "B")), fixed("me", "C", "dropped", "", 0, 0), nil},

		{"new", lua.HistoryWrite, []string{"stream"}, nil, fixed(100, long, "event name", "acquired", "x", "released", "x"), nil},
		{"again", lua.HistoryWrite, []string{"stream"}, both([]any{"XADD", "stream", "*", "a", 1}, ends("stream")), fixed(100, long, "event name", "lost", "x"), nil},

		{"first", lua.ElectBegin, []string{"lock", "record"}, held, fixed("me", 5, "id", "value", "who", long, "channel", "PUBLISH", 0), nil},
		{"next", lua.ElectBegin, []string{"lock", "record"}, offered, fixed("me", 6, "id", "value", "who", long, "channel", "PUBLISH", 0), nil},
		{"again", lua.ElectBegin, []string{"lock", "record"}, led, fixed("me", 5, "id", "value", "who", long, "channel", "PUBLISH", 0), nil},
		{"offered", lua.ElectOffer, []string{"lock", "record"}, led, fixed("me", 5, "n", "you", "channel", "PUBLISH"), nil},
		{"withdrawn", lua.ElectOffer, []string{"lock", "record"}, offered, fixed("me", 5, "n", "", "channel", "PUBLISH"), nil},
		{"accepted", lua.ElectAccept, []string{"lock", "record"}, offered, fixed("other", "n", 1, "channel", "PUBLISH"), nil},
		{"taken back", lua.ElectAccept, []string{"lock", "record"}, append(slices.Clone(offered), hash("record", "accepted", "other")), fixed("other", "n", 0, "channel", "PUBLISH"), nil},
	}
}

// ended are scripts whose keys have no end, but for claims, which SET writes with one.
var ended = []*lua.Script{
	lua.PermitAdd, lua.PermitSet, lua.PermitResize, lua.PermitRelease, lua.PermitState, lua.PermitRenew,
	lua.SemaphoreAcquire, lua.SemaphoreAcquireMany, lua.SemaphoreRelease, lua.SemaphoreUndo, lua.SemaphoreSet, lua.SemaphoreDrain,
	lua.LatchSet, lua.LatchCountDown, lua.LatchDelete, lua.InspectCheck,
}

var (
	invoked = regexp.MustCompile(`\b(?:call|pcall|try)\('([A-Z]+)'`)
	writes  = []string{"DEL", "HDEL", "HSET", "LPOP", "LREM", "PEXPIRE", "RPUSH", "SET", "XADD", "ZADD", "ZINCRBY", "ZPOPMIN", "ZREM"}
)

// interposed is put before a script: the PEXPIRE of that number deletes its key, 0 for
// none and -1 for each, or for -2 what has an end is in its last millisecond; and some
// commands are refused.
const interposed = `
local redis = (function(real)
  local over, nth, refused = %d, 0, {%s}
  local function run(how, cmd, ...)
    if refused[cmd] then
      if how == 'call' then
        error('NOPERM ' .. cmd)
      end
      return {err = 'NOPERM ' .. cmd}
    end
    if cmd == 'PTTL' and over == -2 then
      return math.min(real.call('PTTL', (...)), 0)
    end
    if cmd == 'PEXPIRE' then
      nth = nth + 1
      if over == -1 or nth == over then
        return real.call('DEL', (...))
      end
    end
    return real[how](cmd, ...)
  end
  return {
    call = function(...) return run('call', ...) end,
    pcall = function(...) return run('pcall', ...) end,
    error_reply = real.error_reply, sha1hex = real.sha1hex,
  }
end)(redis)
`

func interpose(script *lua.Script, over int, refused []string) string {
	set := ""
	for _, name := range refused {
		set += name + " = true, "
	}
	return fmt.Sprintf(interposed, over, set) + script.Source
}

// TestNothingWithoutAnEnd: no key stays without an end, whichever PEXPIRE deletes its key,
// and whatever a user may not do. A user that may neither set an expiry nor delete can do harm.
func TestNothingWithoutAnEnd(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for _, l := range leasedScripts() {
		t.Run(l.script.Name+", "+l.name, func(t *testing.T) {
			names := map[string]bool{}
			for _, m := range invoked.FindAllStringSubmatch(l.script.Source, -1) {
				names[m[1]] = true
			}
			var variants [][]string // what is refused
			var may []string
			for _, name := range slices.Sorted(maps.Keys(names)) {
				if slices.Contains(writes, name) {
					may = append(may, name)
				} else {
					variants = append(variants, []string{name})
				}
			}
			for bits := range 1 << len(may) {
				var refused []string
				for i, name := range may {
					if bits>>i&1 == 1 {
						refused = append(refused, name)
					}
				}
				if len(refused) <= 3 && !(slices.Contains(refused, "PEXPIRE") && slices.Contains(refused, "DEL")) {
					variants = append(variants, refused)
				}
			}
			pipe := rdb.Pipeline()
			now := rdb.Time(t.Context()).Val().UnixMilli()
			type look struct {
				what string
				key  string
				ttl  *redis.Cmd
				run  *redis.Cmd
			}
			var looks []look
			try := func(over int, refused []string) *redis.Cmd {
				pipe.FlushAll(t.Context())
				for _, cmd := range l.begin {
					pipe.Do(t.Context(), cmd...)
				}
				run := pipe.Eval(t.Context(), interpose(l.script, over, refused), l.keys, l.args(now)...)
				for _, key := range l.keys {
					if !slices.Contains(l.keep, key) {
						looks = append(looks, look{fmt.Sprintf("PEXPIRE %d deletes, without %v", over, refused), key, pipe.Do(t.Context(), "PTTL", key), run})
					}
				}
				return run
			}
			whole := try(0, nil)
			for over := -2; over <= 4; over++ {
				try(over, nil)
			}
			for _, refused := range variants {
				if len(refused) > 0 {
					try(0, refused)
				}
				if len(refused) == 1 {
					try(-1, refused)
				}
			}
			_, _ = pipe.Exec(t.Context())
			require.NoError(t, whole.Err(), "with nothing in its way")
			for _, look := range looks {
				ttl, err := look.ttl.Int64()
				require.NoError(t, err)
				if ttl == -1 {
					t.Errorf("%s has no end (%s): the script said %v, %v", look.key, look.what, look.run.Val(), look.run.Err())
					return
				}
			}
		})
	}
}

// TestLeasedScriptsAreAll: each script that sets an expiry, or writes what has one, is
// tried.
func TestLeasedScriptsAreAll(t *testing.T) {
	tried := map[string]bool{"fairlock/queue": true, "once/note": true, "memo/note": true} // parts of others
	for _, l := range leasedScripts() {
		tried[l.script.Name] = true
	}
	for _, s := range ended {
		tried[s.Name] = true
	}
	for _, path := range scripts(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name := strings.TrimSuffix(path, ".lua")
		for _, m := range invoked.FindAllStringSubmatch(string(text), -1) {
			if slices.Contains([]string{"HINCRBY", "HSET", "INCRBY", "LPUSH", "PEXPIRE", "RPUSH", "SET", "ZADD", "ZINCRBY"}, m[1]) && !tried[name] {
				t.Errorf("%s runs %s, and is not among the leased scripts", name, m[1])
				break
			}
		}
	}
}

// TestOneMillisecondLeft runs each of them on keys that have a millisecond left. On
// Redis 6.2 and 7.0 about 2 in 10,000 runs of those that wrote behind an expiry left a
// lock for ever, which this test, run with -count=40, has found of releases of all
// kinds.
func TestOneMillisecondLeft(t *testing.T) {
	times := redistest.Many(500, 100)
	rdb := redistest.Start(t).Client(t)
	for _, l := range leasedScripts() {
		t.Run(l.script.Name+", "+l.name, func(t *testing.T) {
			require.NoError(t, rdb.ScriptLoad(t.Context(), l.script.Source).Err())
			for range times / 100 {
				now := rdb.Time(t.Context()).Val().UnixMilli()
				pipe := rdb.Pipeline()
				var ttls []*redis.Cmd
				for range 100 {
					for _, cmd := range l.begin {
						pipe.Do(t.Context(), cmd...)
					}
					for _, key := range l.keys {
						if !slices.Contains(l.keep, key) {
							pipe.Do(t.Context(), "PEXPIRE", key, 1)
						}
					}
					pipe.EvalSha(t.Context(), l.script.SHA, l.keys, l.args(now)...)
					for _, key := range l.keys {
						if !slices.Contains(l.keep, key) {
							ttls = append(ttls, pipe.Do(t.Context(), "PTTL", key))
						}
					}
					pipe.Del(t.Context(), l.keys...)
				}
				_, _ = pipe.Exec(t.Context())
				for i, ttl := range ttls {
					left, err := ttl.Int64()
					require.NoError(t, err)
					require.NotEqual(t, int64(-1), left, "%v of %d keys", i, len(ttls)/100)
				}
			}
		})
	}
}
