package history_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/chaos/history"
)

func TestMain(m *testing.M) {
	if os.Getenv("CHAOS_TEST_CLOCK") != "" {
		_, _ = os.Stdout.WriteString(strconv.FormatInt(history.Now(), 10))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// TestClockIsShared: a child's reading lies between two of its parent's.
func TestClockIsShared(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "CHAOS_TEST_CLOCK=1")
	before := history.Now()
	out, err := cmd.Output()
	after := history.Now()
	require.NoError(t, err)
	now, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	require.NoError(t, err)
	require.Less(t, before, now)
	require.Less(t, now, after)
}

// TestFeed: what a child has told of itself is what it recorded.
func TestFeed(t *testing.T) {
	var parent, child history.Recorder
	ids := map[int64]int64{}
	parent.Begin(history.Entry{Key: "of the parent"})
	child.Tap = func(e history.Entry) { parent.Feed(ids, e) }
	a := child.Begin(history.Entry{Key: "a", Op: history.Acquire})
	child.Begin(history.Entry{Key: "b", Op: history.Acquire})
	child.Change(a, func(e *history.Entry) { e.Out, e.Return = history.OK, history.Now() })

	all := parent.All()
	require.Len(t, all, 3)
	require.Equal(t, "a", all[1].Key)
	require.Equal(t, history.OK, all[1].Out)
	require.Equal(t, history.Pending, all[2].Out, "the child died here")
	require.Equal(t, int64(history.Forever), all[2].Return)
}

// TestEnd: what ends by itself, and from when on.
func TestEnd(t *testing.T) {
	for _, c := range []struct {
		what string
		e    history.Entry
		from int64 // 0: nothing is left
	}{
		{"given back", history.Entry{Op: history.Acquire, Out: history.OK, Call: 10, Until: 50, Given: true}, 0},
		{"lost", history.Entry{Op: history.Acquire, Out: history.OK, Call: 10, Until: 50}, 50},
		{"no answer", history.Entry{Op: history.Acquire, Out: history.Unknown, Call: 10}, 0},
		{"caller died", history.Entry{Op: history.RAcquire, Call: 10}, 0},
		{"refused", history.Entry{Op: history.Acquire, Out: history.Refused, Call: 10}, 0},
		{"a release", history.Entry{Op: history.Release, Out: history.Unknown, Call: 10}, 0},
	} {
		end, ok := c.e.End()
		require.Equal(t, c.from != 0, ok, c.what)
		require.Equal(t, c.from, end.Call, c.what)
	}
}
