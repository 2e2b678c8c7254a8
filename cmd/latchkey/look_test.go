package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/internal/text/texttest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

func newClient(t testing.TB, rdb redis.UniversalClient) *latchkey.Client {
	t.Helper()
	c := latchkey.New(rdb)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// take takes a lock until the client is closed.
func take(t testing.TB, l latchkey.Locker, opts ...latchkey.LockOption) *latchkey.Hold {
	t.Helper()
	h, err := l.Lock(t.Context(), opts...)
	require.NoError(t, err)
	return h
}

// decoded runs the command, which must succeed, and reads its JSON.
func decoded[T any](t testing.TB, args ...string) (v T) {
	t.Helper()
	code, stdout, stderr := execute(t, append(args, "--json")...)
	require.Zero(t, code, "%s%s", stdout, stderr)
	require.Empty(t, stderr)
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&v), stdout)
	return v
}

// A scene is a server with objects of every kind, and others.
type scene struct {
	server  *redistest.Server
	client  *latchkey.Client
	holders map[string]string // name -> holder of a lock
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := redistest.Start(t)
	rdb := s.Client(t)
	sc := &scene{server: s, client: newClient(t, rdb), holders: map[string]string{}}
	c, ctx := sc.client, t.Context()
	other := newClient(t, s.Client(t))
	sc.holders["job"] = take(t, rlock.New(c, "job", rlock.Fenced()), latchkey.Label("nightly @ host-1")).HolderID()
	sc.holders["queue"] = take(t, fairlock.New(c, "queue")).HolderID()
	fairlock.New(other, "queue").LockAsync(ctx, latchkey.Label("the next one"))
	rw := rwlock.New(c, "data")
	sc.holders["data"] = take(t, rw.ReadLock()).HolderID()
	take(t, rw.ReadLock())
	permits := permitsemaphore.New(c, "pool")
	_, err := permits.TrySetPermits(ctx, 3)
	require.NoError(t, err)
	p, err := permits.Acquire(ctx)
	require.NoError(t, err)
	sc.holders["pool"] = p.ID()
	_, err = semaphore.New(c, "idle").TrySetPermits(ctx, 5)
	require.NoError(t, err)
	latch := countdownlatch.New(c, "latch")
	_, err = latch.TrySetCount(ctx, 2)
	require.NoError(t, err)
	latch.AwaitAsync(ctx)
	redistest.Until(t, "all to wait", func() bool {
		ws, err := fairlock.New(c, "queue").Waiters(ctx)
		return err == nil && len(ws) == 1 && c.Stats().Subscriptions == 1
	})
	// Nothing of ours, however much it looks like it.
	for _, args := range [][]string{
		{"HSET", "session", "user:12", "ann", "basket:7", "x"},
		{"HSET", "plain", "a", "1"},
		{"SET", "visits", "1042"},
		{"SET", "text", "x"},
		{"RPUSH", "redisson_lock_queue", "x"},
		{"ZADD", "rank:timeout", "1", "x"},
		{"SADD", "set", "x"},
	} {
		s.Do(t, args...)
	}
	return sc
}

func names(objects []object.Object) (all []string) {
	for _, o := range objects {
		all = append(all, o.Name+" "+o.Kind)
	}
	return all
}

func TestLs(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	s := sc.server
	code, stdout, stderr := execute(t, at(s, "ls")...)
	require.Zero(t, code, stderr)
	assert.Empty(t, stderr)
	for _, re := range []string{
		`^NAME +KIND +WAITING +HOLDER +LABEL +HELD +LEASE +COUNT +TOKEN\n`,
		`\ndata +readwrite +- +2 readers +- +- +[\d.]+s +2 +-\n`,
		`\njob +lock +- +` + sc.holders["job"] + ` +nightly @ host-1 +[\d.]+s +[\d.]+s +1 +\d{16}\n`,
		`\nlatch +latch +1 +- +- +- +- +2 +-\n`,
		`\npool +permitsemaphore +- +` + sc.holders["pool"] + ` +- +- +- +2 +-\n`,
		`\nqueue +fair +1 +` + sc.holders["queue"] + ` +- +- +[\d.]+s +1 +-\n`,
	} {
		assert.Regexp(t, re, stdout)
	}
	assert.NotContains(t, stdout, "\x1b")

	usual := []string{"data readwrite", "job lock", "latch latch", "pool permitsemaphore", "queue fair"}
	assert.Equal(t, usual, names(decoded[[]object.Object](t, at(s, "ls")...)))
	for _, c := range []struct {
		flags []string
		want  []string
	}{
		{[]string{"--all"}, []string{"data readwrite", "idle counter", "job lock", "latch latch", "pool permitsemaphore", "queue fair", "visits counter"}},
		{[]string{"--match", "[jq]*"}, []string{"job lock", "queue fair"}},
		{[]string{"--match", "que"}, nil},
		{[]string{"--match", "que*"}, []string{"queue fair"}},
		{[]string{"--kind", "fair,lock"}, []string{"job lock", "queue fair"}},
		{[]string{"--kind", "semaphore", "--match", "id*"}, []string{"idle counter"}},
		{[]string{"--kind", "multilock"}, nil},
	} {
		assert.Equal(t, c.want, names(decoded[[]object.Object](t, at(s, append([]string{"ls"}, c.flags...)...)...)), c.flags)
	}
	code, _, stderr = execute(t, at(s, "ls", "--kind", "locks")...)
	assert.Equal(t, exit.Usage, code)
	assert.Contains(t, stderr, "locks is no kind; there are lock, fair, ")
}

func TestLsOfNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SET", "text", "x")
	code, stdout, stderr := execute(t, at(s, "ls", "--json")...)
	assert.Zero(t, code)
	assert.Equal(t, "[]\n", stdout)
	assert.Empty(t, stderr)
	code, stdout, stderr = execute(t, at(s, "ls")...)
	assert.Zero(t, code)
	assert.Regexp(t, `^NAME .*\n$`, stdout)
	assert.Equal(t, "latchkey: no lock, semaphore or latch among 1 keys\n", stderr)
}

// Completion offers names and holders, but nothing that a shell would take for more
// than a word.
func TestCompletionOfNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	h := take(t, rlock.New(c, "deploy:web"), latchkey.Label("ann\n\x1b[2J"))
	take(t, fairlock.New(c, "deploy*"))
	take(t, rlock.New(c, "jobs{a}"))
	for _, name := range []string{"$(reboot)", "-rf", "deploy two", "deploy;x", "deploy\nx", "~root"} {
		take(t, rlock.New(c, name))
	}
	complete := func(args ...string) []string {
		t.Helper()
		code, stdout, _ := execute(t, append([]string{"__complete"}, at(s, args...)...)...)
		assert.Zero(t, code)
		return strings.Split(strings.TrimSpace(stdout), "\n")
	}
	for _, cmd := range []string{"show", "waiters", "explain", "run", "acquire", "extend", "release", "force-unlock"} {
		assert.Equal(t, []string{"deploy:web", "jobs{a}", ":4"}, complete(cmd, ""), cmd)
		assert.Equal(t, []string{"deploy:web", ":4"}, complete(cmd, "dep"), cmd)
		assert.Equal(t, []string{":4"}, complete(cmd, "deploy*"), cmd)
	}
	for _, cmd := range []string{"extend", "release", "force-unlock"} {
		assert.Equal(t, []string{h.HolderID() + "\t" + `"ann\n\x1b[2J"`, ":4"}, complete(cmd, "deploy:web", "--id", ""), cmd)
		assert.Equal(t, []string{":4"}, complete(cmd, "deploy:web", "--id", "zz"), cmd)
		assert.Equal(t, []string{":4"}, complete(cmd, "--id", ""), cmd)
	}
	assert.Equal(t, []string{":4"}, complete("show", "deploy:web", ""))
	code, stdout, _ := execute(t, "__complete", "-p", "1", "show", "")
	assert.Zero(t, code)
	assert.Equal(t, ":4\n", stdout)
}

func TestShow(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	s := sc.server
	o := decoded[object.Object](t, at(s, "show", "job")...)
	require.Len(t, o.Holders, 1)
	h := o.Holders[0]
	assert.Equal(t, sc.holders["job"], h.ID)
	assert.Equal(t, "nightly @ host-1", h.Label)
	assert.NotEmpty(t, h.Host)
	assert.Positive(t, h.PID)
	assert.Equal(t, 1, h.Count)
	assert.InDelta(t, 30_000, h.LeaseMs, 10_000)
	for _, text := range []string{h.Since, o.At} {
		at, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now(), at, time.Minute)
	}
	assert.Positive(t, o.Token)

	o = decoded[object.Object](t, at(s, "show", "queue")...)
	require.Len(t, o.Waiters, 1)
	assert.NotEmpty(t, o.Waiters[0].Deadline)
	o = decoded[object.Object](t, at(s, "show", "data")...)
	require.Len(t, o.Holders, 2)
	assert.Equal(t, "read", o.Holders[0].Mode)
	o = decoded[object.Object](t, at(s, "show", "latch")...)
	assert.EqualValues(t, 2, o.Count)
	assert.Equal(t, 1, o.Listeners)
	o = decoded[object.Object](t, at(s, "show", "none")...)
	assert.Equal(t, object.KindFree, o.Kind)
	assert.Equal(t, []object.Holder{}, o.Holders)

	for name, re := range map[string]string{
		"job":   `^job  lock\n  lease +[\d.]+s\n  token +\d+\n\nHOLDER .*\n` + sc.holders["job"] + ` .* nightly @ host-1 +\S+:\d+\n$`,
		"queue": `\n\nPLACE  WAITER .*\n +1  \S+:\d+ `,
		"latch": `^latch  latch\n  left +2\n  listeners  1\n$`,
		"pool":  `^pool  permitsemaphore\n  available  2\n  out        1\n\nHOLDER `,
		"none":  `^none  free\n$`,
	} {
		code, stdout, stderr := execute(t, at(s, "show", name)...)
		assert.Zero(t, code, stderr)
		assert.Regexp(t, re, stdout)
	}

	code, _, stderr := execute(t, at(s, "show", "session")...)
	assert.Equal(t, exit.Failed, code)
	assert.Equal(t, "latchkey: session: the key is a hash that is no lock\n", stderr)
	for _, args := range [][]string{{"show"}, {"show", ""}, {"show", "a", "b"}} {
		code, _, _ := execute(t, at(s, args...)...)
		assert.Equal(t, exit.Usage, code, args)
	}
	code, _, stderr = execute(t, "-p", "1", "show", "job")
	assert.Equal(t, exit.Unavailable, code)
	assert.Regexp(t, `^latchkey: Redis at 127\.0\.0\.1:1: `, stderr)
}

func TestWaiters(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	s := sc.server
	type waiters struct {
		Name      string          `json:"name"`
		NameBytes string          `json:"name_base64"`
		Waiters   []object.Waiter `json:"waiters"`
		Listeners int             `json:"listeners"`
	}
	w := decoded[waiters](t, at(s, "waiters", "queue")...)
	assert.Equal(t, "queue", w.Name)
	assert.Len(t, w.Waiters, 1)
	assert.Equal(t, []object.Waiter{}, decoded[waiters](t, at(s, "waiters", "latch")...).Waiters)
	for name, re := range map[string]string{
		"queue": `^PLACE  WAITER .*\n +1  \S+:\d+ `,
		"latch": `^1 connection listens for latch; `,
		"job":   `^nobody waits for job\n$`,
	} {
		_, stdout, _ := execute(t, at(s, "waiters", name)...)
		assert.Regexp(t, re, stdout)
	}
}

// Names and labels that are made to do harm are shown harmless by everything.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	commands := [][]string{{"show"}, {"show", "--json"}, {"waiters"}, {"force-unlock", "-y", "--id", "x\x1b[2J"}}
	var all []string
	for i, name := range texttest.Hostile {
		if name == "" || strings.Contains(name, "\x00") {
			continue // no argument of a command can be that
		}
		all = append(all, name)
		label := name[:min(len(name), maxLabel)]
		take(t, rlock.New(c, name), latchkey.Label(label))
		args := append(commands[i%len(commands)], "--", name)
		_, stdout, stderr := execute(t, at(s, args...)...)
		harmlessText(t, stdout)
		harmlessText(t, stderr)
		assert.NotEmpty(t, stdout+stderr)
	}
	_, stdout, stderr := execute(t, at(s, "ls")...)
	harmlessText(t, stdout)
	assert.Empty(t, stderr)
	_, data, _ := execute(t, at(s, "ls", "--json")...)
	harmlessText(t, data)
	assert.Equal(t, len(all)+2, len(strings.Split(stdout, "\n")), "one line each")

	listed := map[string]bool{}
	for _, o := range decoded[[]object.Object](t, at(s, "ls")...) {
		name := o.Name
		if o.NameBytes != "" {
			raw, err := base64.StdEncoding.DecodeString(o.NameBytes)
			require.NoError(t, err)
			name = string(raw)
		}
		listed[name] = true
	}
	for _, name := range all {
		assert.True(t, listed[name], "%q", name)
	}
}

// harmlessText sees that a text is lines of what prints.
func harmlessText(t testing.TB, text string) {
	t.Helper()
	assert.True(t, utf8.ValidString(text), "%q", text)
	for _, r := range text {
		assert.True(t, r == '\n' || unicode.IsPrint(r), "%q in %q", r, text)
	}
}

// However many keys of others there are, ls reads them in one pass, and never
// with KEYS.
func TestLsOnePass(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	keys := redistest.Many(100_000, 20_000)
	s.Do(t, "EVAL", `for i = 1, tonumber(ARGV[1]) / 2 do
		redis.call('HSET', 'session:' .. i, 'user', i, 'basket', 'x')
		redis.call('SET', 'cache:' .. i, i)
	end`, "0", strconv.Itoa(keys))
	take(t, rlock.New(newClient(t, s.Client(t)), "job"))
	s.Do(t, "CONFIG", "RESETSTAT")
	assert.Equal(t, []string{"job lock"}, names(decoded[[]object.Object](t, at(s, "ls")...)))
	stats := s.Do(t, "INFO", "commandstats")[0]
	assert.NotContains(t, stats, "cmdstat_keys:")
	assert.LessOrEqual(t, calls(t, stats, "scan"), keys/1000*3/2, "a hash table under way is passed over a little more often")
	assert.LessOrEqual(t, calls(t, stats, "type"), keys*3/2)

	s.Do(t, "CONFIG", "RESETSTAT")
	decoded[[]object.Object](t, at(s, "ls", "--match", "jo?")...)
	assert.LessOrEqual(t, calls(t, s.Do(t, "INFO", "commandstats")[0], "type"), 10, "the server leaves out what does not match")
}

// calls returns how often a command was called.
func calls(t testing.TB, stats, command string) int {
	t.Helper()
	_, rest, ok := strings.Cut(stats, "cmdstat_"+command+":calls=")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(rest[:strings.IndexByte(rest, ',')])
	require.NoError(t, err)
	return n
}

func TestLsOfACluster(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t, 3)
	c := newClient(t, cl.Client(t))
	var want []string
	for i := range 9 {
		name := fmt.Sprintf("job-%d", i)
		take(t, rlock.New(c, name))
		want = append(want, name+" lock")
	}
	got := decoded[[]object.Object](t, "-u", "redis://"+cl.Nodes[1].Addr, "--cluster", "ls")
	assert.Equal(t, want, names(got))
	d := decoded[diagnosis](t, "-u", "redis://"+cl.Nodes[1].Addr, "--cluster", "doctor")
	assert.Len(t, d.Servers, 3)

	for _, cmd := range []string{"ls", "top --count 1", "top --count 1 --json"} { // a part would look like all
		code, stdout, stderr := execute(t, append([]string{"-u", "redis://" + cl.Nodes[1].Addr}, strings.Fields(cmd)...)...)
		assert.Equal(t, exit.Unavailable, code, cmd)
		assert.Empty(t, stdout, cmd)
		assert.Contains(t, stderr, "it is a node of a Redis Cluster, and has a part of the names only (--cluster)", cmd)
	}

	elsewhere := "" // a name that Nodes[1] does not have
	for i := 0; elsewhere == ""; i++ {
		name := fmt.Sprintf("job-%d", i)
		if cl.Owner(t, cl.Slot(t, name)) != 1 {
			elsewhere = name
		}
	}
	code, _, stderr := execute(t, "-u", "redis://"+cl.Nodes[1].Addr, "show", elsewhere)
	assert.Equal(t, exit.Unavailable, code)
	assert.Contains(t, stderr, "it is a node of a Redis Cluster (--cluster): MOVED ")
}

// A server that does not tell who listens, or not on all kinds of channel (before
// Redis 7.0 there is one), and a user who may not ask, are no reason to show nothing.
func TestLsWithoutChannels(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, rlock.New(newClient(t, s.Client(t)), "job"))
	for user, rules := range map[string][]string{
		"deaf":   {"-pubsub"},
		"plain":  {"-pubsub", "+pubsub|channels"},
		"strict": {"-pubsub", "-hello", "-client"},
	} {
		s.Do(t, append([]string{"ACL", "SETUSER", user, "on", ">x", "~*", "&*", "+@all"}, rules...)...)
		url := "redis://" + user + ":x@" + s.Addr
		assert.Equal(t, []string{"job lock"}, names(decoded[[]object.Object](t, "-u", url, "ls")), user)
		assert.Equal(t, []string{"job lock"}, names(decoded[[]object.Object](t, "-u", url, "top", "--count", "1")), user)
	}
}

// A user who may only look may, with the rules of docs/security.md.
func TestLookWithoutMore(t *testing.T) {
	t.Parallel()
	if !redistest.Since(7, 0) {
		t.Skip("before Redis 7.0 who may read a key may write it")
	}
	s := redistest.Start(t)
	rights, err := redistest.Documented("app:")
	require.NoError(t, err)
	s.Do(t, slices.Concat([]string{"ACL", "SETUSER", "looker", "reset", "on", ">x"}, rights.Look, rights.List)...)
	c := newClient(t, s.Client(t))
	take(t, rlock.New(c, "app:job"))
	take(t, rlock.New(c, "other"))
	url := "redis://looker:x@" + s.Addr
	for _, cmd := range []string{"ls", "top --count 1"} {
		args := append([]string{"-u", url}, strings.Fields(cmd+" --match app:*")...)
		assert.Equal(t, []string{"app:job lock"}, names(decoded[[]object.Object](t, args...)), cmd)
	}
	code, stdout, stderr := execute(t, "-u", url, "show", "app:job")
	assert.Zero(t, code, stderr)
	assert.Contains(t, stdout, "app:job")
}

// A Sentinel has no names, and runs no scripts.
func TestAtASentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, "main", redistest.Start(t))
	code, stdout, stderr := execute(t, "-u", "redis://"+sentinel.Addr, "ls")
	assert.Equal(t, exit.Unavailable, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "it is a Sentinel, and has no names (--sentinel-master)")
	for _, args := range [][]string{{"show", "x"}, {"run", "x", "--", "true"}} {
		code, stdout, stderr = execute(t, append([]string{"-u", "redis://" + sentinel.Addr}, args...)...)
		assert.Equal(t, exit.Unavailable, code, "%v: %s", args, stderr)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "if it is a Sentinel, name the master (--sentinel-master)", "%v", args)
	}
}

// Of a slot that is on the move, each of two nodes has keys, and answers for those
// it has not, or not yet, that the other one should be asked.
func TestLsWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t, 2)
	slot := cl.Slot(t, "{a}1")
	from := cl.Owner(t, slot)
	for _, name := range []string{"{a}1", "{a}2"} {
		cl.Nodes[from].Do(t, "HSET", name, "colour", "red")
	}
	take(t, rlock.New(newClient(t, cl.Client(t)), "job"))
	cl.OpenSlot(t, slot, from, 1-from)
	_, port, err := net.SplitHostPort(cl.Nodes[1-from].Addr)
	require.NoError(t, err)
	cl.Nodes[from].Do(t, "MIGRATE", "127.0.0.1", port, "{a}2", "0", "4000")
	got := decoded[[]object.Object](t, "-u", "redis://"+cl.Nodes[0].Addr, "--cluster", "ls")
	assert.Equal(t, []string{"job lock"}, names(got))
}

// Where there is nothing, ls says so, on standard error.
func TestLsSaysThatThereIsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.NoError(t, s.Client(t).Set(t.Context(), "text", "x", 0).Err())
	code, stdout, stderr := execute(t, at(s, "ls")...)
	assert.Zero(t, code)
	assert.NotContains(t, stdout, "text")
	assert.Equal(t, "latchkey: no lock, semaphore or latch among 1 keys\n", stderr)
	assert.Empty(t, decoded[[]object.Object](t, at(s, "ls")...))
}
