package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

func newGraphClient(t *testing.T, s *redistest.Server) *latchkey.Client {
	t.Helper()
	c := latchkey.New(redistest.User(t, s.Client(t)), latchkey.WithWaitGraph())
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// Two clients that hold a lock each and want the other's are named within five
// seconds, whatever the kind of lock.
func TestExplainNamesADeadlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for kind, lock := range map[string]func(c *latchkey.Client, name string) latchkey.Locker{
		"rlock":    func(c *latchkey.Client, name string) latchkey.Locker { return rlock.New(c, name) },
		"fairlock": func(c *latchkey.Client, name string) latchkey.Locker { return fairlock.New(c, name) },
		"rwlock":   func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).WriteLock() },
		"reader":   func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).ReadLock() },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a, b := kind+":a", kind+":b"
			var all sync.WaitGroup
			t.Cleanup(all.Wait) // when the clients are closed
			waits := func(ctx context.Context, l latchkey.Locker) {
				all.Go(func() { _, _ = l.Lock(ctx, latchkey.Label("x")) })
			}
			ann, bob := newGraphClient(t, s), newGraphClient(t, s)
			ofAnn, ofBob := take(t, lock(ann, a), latchkey.Label("ann")), take(t, lock(bob, b))
			ctx, cancel := context.WithCancel(ofAnn.Context())
			defer cancel()
			wanted := lock
			if kind == "reader" {
				wanted = func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).WriteLock() }
			}
			begun := time.Now()
			waits(ctx, wanted(ann, b))
			waits(ofBob.Context(), wanted(bob, a))
			var code int
			var stdout, stderr string
			redistest.Until(t, "the deadlock to be named", func() bool {
				code, stdout, stderr = execute(t, at(s, "explain", a)...)
				return code != 0
			})
			require.Less(t, time.Since(begun), 5*time.Second)
			require.Equal(t, exit.Failed, code, stdout+stderr)
			require.Empty(t, stderr)
			require.Regexp(t, fmt.Sprintf(`^%[1]s  \w+
  held by ann \(\S+:\d+\) for [\d.]+m?s, lease [\d.]+s(, to (read|write))?, holder %[3]s(:write)?
    waits [\d.]+s for %[2]s  \w+
      held by %[4]s(:write)?, lease [\d.]+s(, to (read|write))?
        waits [\d.]+s for %[1]s, which is above
deadlock: %[1]s → %[2]s → %[1]s
$`, a, b, ofAnn.HolderID(), ofBob.HolderID()), stdout)

			code, stdout, _ = execute(t, at(s, "explain", b, "--json")...)
			require.Equal(t, exit.Failed, code)
			var x explanation
			require.NoError(t, json.Unmarshal([]byte(stdout), &x), stdout)
			require.Equal(t, []deadlock{{Names: []string{b, a, b}}}, x.Deadlocks)
			require.Len(t, x.Objects, 2)
			require.Equal(t, a, x.Objects[0].Holders[0].Waits[0].Name)
			require.GreaterOrEqual(t, x.Objects[0].Holders[0].Waits[0].WaitedMs, int64(1000))

			cancel() // ann gives up
			redistest.Until(t, "it to be over", func() bool {
				code, _, _ = execute(t, at(s, "explain", a)...)
				return code == 0
			})
		})
	}
}

// knotConfig makes of this program one of two that wait for each other.
const knotConfig = "LATCHKEY_TEST_KNOT"

// A knot is a process that takes a lock, says so, and waits for another lock when it reads
// a line. It gives up when its input ends.
type knot struct{ Addr, Kind, Mine, Wanted, Label string }

func (k knot) lock(c *latchkey.Client, name string) latchkey.Locker {
	switch k.Kind {
	case "fairlock":
		return fairlock.New(c, name)
	case "rwlock":
		return rwlock.New(c, name).WriteLock()
	}
	return rlock.New(c, name)
}

// knotMain is the program of a knot.
func knotMain(config string) int {
	var k knot
	err := json.Unmarshal([]byte(config), &k)
	if err == nil {
		err = k.work(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (k knot) work(ctx context.Context) error {
	rdb := redis.NewClient(redistest.AsUser(&redis.Options{Addr: k.Addr}))
	defer rdb.Close()
	c := latchkey.New(rdb, latchkey.WithWaitGraph())
	defer c.Close()
	h, err := k.lock(c, k.Mine).Lock(ctx, latchkey.Label(k.Label))
	if err != nil {
		return err
	}
	fmt.Println("it has", k.Mine)
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(h.Context())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	if _, err := k.lock(c, k.Wanted).Lock(ctx); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("it was not canceled: %w", err)
	}
	return h.Unlock(context.WithoutCancel(ctx))
}

// tied starts the process of k, which has its lock when tied returns.
func (k knot) tied(t *testing.T) (c *command, in io.WriteCloser) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	config, err := json.Marshal(k)
	require.NoError(t, err)
	c = prepare(t)
	c.cmd.Path, c.cmd.Args = self, []string{self}
	c.cmd.Env = append(c.cmd.Env, knotConfig+"="+string(config), "LATCHKEY_ACL="+os.Getenv("LATCHKEY_ACL"))
	in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	c.start().says("it has")
	return c, in
}

// So are two processes. What they published is gone with the one that gives up, and soon
// with the one that is killed.
func TestExplainNamesADeadlockOfProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, kind := range []string{"rlock", "fairlock", "rwlock"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a, b := kind+":a", kind+":b"
			published := func(name string) []string { return s.Do(t, "KEYS", "latchkey_waits:{"+name+"}:*") }
			ann, toAnn := knot{s.Addr, kind, a, b, "ann"}.tied(t)
			bob, toBob := knot{s.Addr, kind, b, a, "bob"}.tied(t)
			begun := time.Now()
			for _, in := range []io.Writer{toAnn, toBob} {
				_, err := io.WriteString(in, "now\n")
				require.NoError(t, err)
			}
			var stdout string
			redistest.Until(t, "the deadlock to be named", func() bool {
				var code int
				code, stdout, _ = execute(t, at(s, "explain", b)...)
				return code != 0
			})
			require.Less(t, time.Since(begun), 5*time.Second)
			require.Contains(t, stdout, fmt.Sprintf("\ndeadlock: %[2]s → %[1]s → %[2]s\n", a, b))
			for label, c := range map[string]*command{"ann": ann, "bob": bob} {
				require.Regexp(t, fmt.Sprintf(`held by %s \(\S+:%d\)`, label, c.cmd.Process.Pid), stdout)
			}
			require.Len(t, published(a), 1)
			require.Len(t, published(b), 1)

			require.NoError(t, bob.cmd.Process.Kill())
			<-bob.done
			redistest.Until(t, "what bob waits for to be gone", func() bool { return len(published(b)) == 0 })
			require.NoError(t, toAnn.Close())
			require.Zero(t, ann.code())
			require.Empty(t, published(a))
		})
	}
}

// published puts what a holder waits for into Redis, as its client would.
func published(t *testing.T, s *redistest.Server, name, holder, waits string) {
	t.Helper()
	s.Do(t, "SET", "latchkey_waits:{"+name+"}:"+holder, waits, "PX", "600000")
}

func TestExplain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	for _, name := range []string{"a", "b", "c"} {
		s.Do(t, "HSET", name, "id:"+name, "1")
		s.Do(t, "PEXPIRE", name, "600000")
	}
	now := time.Now().UnixMilli()
	waits := func(names ...string) string {
		var all []string
		for _, name := range names {
			text, err := json.Marshal(map[string]any{"kind": "rlock", "key": name, "since": now, "later": 1})
			require.NoError(t, err)
			all = append(all, string(text))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	shown := func(code int, args ...string) string {
		t.Helper()
		got, stdout, stderr := execute(t, at(s, append([]string{"explain"}, args...)...)...)
		require.Equal(t, code, got, stdout+stderr)
		require.Empty(t, stderr)
		harmlessText(t, stdout)
		return stdout
	}
	require.Equal(t, "free  free\n  nobody holds it\n", shown(0, "free"))
	require.Regexp(t, `^a  lock\n  held by id:a, lease .*\n    waits for nothing, or its client does not publish it \(WithWaitGraph\)\n$`, shown(0, "a"))

	// What leads into a cycle, with a branch, is no part of it.
	published(t, s, "a", "id:a", waits("b", "nobody"))
	published(t, s, "b", "id:b", waits("c"))
	published(t, s, "c", "id:c", waits("b"))
	got := shown(1, "a")
	require.Contains(t, got, "for nobody  free\n      nobody holds it\n")
	require.True(t, strings.HasSuffix(got, "\ndeadlock: b → c → b\n"), got)
	require.NotContains(t, got, "perhaps")

	// Waiting for oneself is the shortest.
	published(t, s, "a", "id:a", waits("a"))
	require.Contains(t, shown(1, "a"), "\ndeadlock: a → a\n")

	// Whoever has permits cannot be followed.
	_, err := semaphore.New(c, "sem").TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	permits := permitsemaphore.New(c, "permits")
	_, err = permits.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	_, err = permits.Acquire(t.Context())
	require.NoError(t, err)
	published(t, s, "a", "id:a", waits("sem", "permits", "list"))
	s.Do(t, "RPUSH", "list", "x")
	got = shown(0, "a")
	require.Contains(t, got, "for sem  counter\n      who has permits, Redis does not know\n")
	require.Contains(t, got, "for permits  permitsemaphore\n      held by ")
	require.Contains(t, got, "        what it waits for, nobody publishes of a permit\n")
	require.Contains(t, got, "for list, which was not read\n")

	// Whatever stands there, it does no harm.
	for _, text := range []string{
		"", "{", "null", "[null]", `[{}]`, `[{"key":7}]`, `[{"key_base64":"%"}]`, `{"key":"b"}`, strings.Repeat("[", 5000), waits("\x1b[2J\u202e\n", "x → y"),
		`[{"kind":"\u001b[2J","key":"","key_base64":"/xsK","since":9223372036854775807}]`,
		`[{"key":"` + strings.Repeat("long", 400) + `","since":-9223372036854775808}]`,
	} {
		published(t, s, "a", "id:a", text)
		shown(0, "a")
		shown(0, "a", "--json")
	}

	// A long way is followed so far and no further.
	for i := range mostExplained + 5 {
		name := fmt.Sprint("way", i)
		s.Do(t, "HSET", name, "id:1", "1")
		published(t, s, name, "id:1", waits(fmt.Sprint("way", i+1)))
	}
	require.Contains(t, shown(0, "way0"), "there is more: 100 objects were read")

	// So are many holders.
	for i := range 30 {
		s.Do(t, "HSET", "many", fmt.Sprint("id:", i), "1")
	}
	published(t, s, "many", "id:29", waits("many"))
	got = shown(1, "many")
	require.True(t, strings.HasPrefix(got, "many  lock\n  held by id:29"), got)
	require.Contains(t, got, "and 20 more, that publish nothing\n")
}
