package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

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

// Two processes that hold a lock each and want the other's are named within five
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
  held by ann \(\S+:\d+\) for [\d.]+s, lease [\d.]+s(, to (read|write))?, holder %[3]s(:write)?
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
