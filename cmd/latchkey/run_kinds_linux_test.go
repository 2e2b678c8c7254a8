package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// parked starts a run whose child waits for the end of its input, and returns
// when the child runs. close ends it.
func parked(t *testing.T, s *redistest.Server, flags ...string) (c *command, end func()) {
	t.Helper()
	c = prepare(t, runAt(s, flags, sh("echo ready=$LATCHKEY_HOLDER,$LATCHKEY_TOKEN.; cat"))...)
	stdin, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.start()
	c.says(".\n")
	return c, func() { _ = stdin.Close() }
}

func TestRunShared(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, enda := parked(t, s, "-s", "data")
	b, endb := parked(t, s, "--shared", "data")
	assert.Regexp(t, `^ready=.+:\d+,0\.`, a.out.String())

	code, _, stderr := execute(t, runAt(s, []string{"-x", "-n", "data"}, []string{"true"})...)
	assert.Equal(t, exit.Conflict, code)
	assert.Regexp(t, `^latchkey: somebody else has the read-write lock "data": held by .+ \(\S+:\d+\) for \S+, lease \S+s, and 1 more\n$`, stderr)
	w := prepare(t, runAt(s, []string{"-x", "-w", "10", "data"}, sh("exit 5"))...).start()
	enda()
	endb()
	assert.Zero(t, a.code())
	assert.Zero(t, b.code())
	assert.Equal(t, 5, w.code())

	c, endc := parked(t, s, "--exclusive", "data")
	for _, flag := range []string{"-s", "-x"} {
		code, _, _ = execute(t, runAt(s, []string{flag, "-n", "data"}, []string{"true"})...)
		assert.Equal(t, exit.Conflict, code, flag)
	}
	endc()
	assert.Zero(t, c.code())
	assert.True(t, free(t, s, "data"))
}

// What is not a read-write lock is not taken for one.
func TestRunOfAnotherKind(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, end := parked(t, s, "job")
	code, _, stderr := execute(t, runAt(s, []string{"-s", "-n", "job"}, []string{"true"})...)
	assert.Equal(t, exit.Unavailable, code)
	assert.Equal(t, "latchkey: Redis at "+s.Addr+": the read-write lock \"job\" cannot be had: the key is a lock\n", stderr)
	end()
	assert.Zero(t, a.code())
}

func TestRunFair(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := latchkey.New(s.Client(t))
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	queue := fairlock.New(client, "job")
	first, end := parked(t, s, "--fair", "job")
	log := filepath.Join(t.TempDir(), "log")
	var all []*command
	for i, name := range []string{"a", "b", "c", "d"} {
		all = append(all, prepare(t, runAt(s, []string{"--fair", "job"}, sh("echo "+name+" >>"+log))...).start())
		redistest.Until(t, name+" to queue", func() bool {
			ws, err := queue.Waiters(t.Context())
			return err == nil && len(ws) == i+1
		})
	}
	end()
	assert.Zero(t, first.code())
	for _, c := range all {
		assert.Zero(t, c.code())
	}
	got, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Equal(t, "a\nb\nc\nd\n", string(got))
}

func TestRunPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, enda := parked(t, s, "--permits", "2", "--label", "the first", "pool")
	b, endb := parked(t, s, "--permits", "2", "pool")
	assert.Regexp(t, `^ready=[0-9a-f]{32},0\.`, a.out.String())
	redistest.Until(t, "the label", func() bool {
		holders := decoded[object.Object](t, at(s, "show", "pool")...).Holders
		return slices.ContainsFunc(holders, func(h object.Holder) bool { return h.Label == "the first" && h.PID == a.cmd.Process.Pid })
	})
	code, _, stderr := execute(t, runAt(s, []string{"--permits", "2", "-n", "pool"}, []string{"true"})...)
	assert.Equal(t, exit.Conflict, code)
	assert.Regexp(t, `^latchkey: somebody else has the permits of "pool": held by "the first" \(\S+:\d+\) for \S+, lease \S+s, and 1 more\n$`, stderr)

	third := prepare(t, runAt(s, []string{"--permits", "3", "-w", "10", "pool"}, sh("exit 4"))...).start()
	redistest.Until(t, "the third to wait", func() bool {
		return s.Do(t, "PUBSUB", "NUMSUB", "redisson_sc:{pool}")[1] == "1"
	})
	enda()
	assert.Equal(t, 4, third.code())
	assert.Contains(t, third.err.String(), `latchkey: "pool" has 2 permits, not 3: 'latchkey sem set' changes that`)
	endb()
	assert.Zero(t, a.code())
	assert.Zero(t, b.code())
	assert.Equal(t, "2", s.Do(t, "GET", "pool")[0])
}

func TestRunPermitLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"--lease", "0.6", "--permits", "1", "pool"}, family("TERM"))...).start()
	c.says("ready\n")
	s.Do(t, "DEL", "{pool}:timeout")
	assert.Equal(t, exit.Lost, c.code())
	assert.Equal(t, "ready\nyoung\nold\n", c.out.String())
	assert.Contains(t, c.err.String(), "latchkey: lost the permits of \"pool\"; sh was stopped\n")
}

// The other kinds keep --hold-at-least, too.
func TestRunKindsHoldAtLeast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for kind, c := range map[string]struct{ flags, others string }{
		"shared": {"-s", "-x"}, "exclusive": {"-x", "-s"}, "fair": {"--fair", "--fair"}, "permits": {"--permits=1", "--permits=1"},
	} {
		code, _, stderr := execute(t, runAt(s, []string{c.flags, "--hold-at-least", "50", kind}, sh("exit 2"))...)
		assert.Equal(t, 2, code, stderr)
		code, _, stderr = execute(t, runAt(s, []string{c.others, "-n", kind}, []string{"true"})...)
		assert.Equal(t, exit.Conflict, code, kind)
		assert.Regexp(t, "closed until its minimum time by .* sh.*, which ended .* ago, .* left", stderr)
		o := decoded[object.Object](t, at(s, "show", kind)...)
		require.Len(t, o.Holders, 1, kind)
		assert.LessOrEqual(t, o.Holders[0].LeaseMs, int64(50_000), kind)
		assert.Greater(t, o.Holders[0].LeaseMs, int64(20_000), kind)
		assert.Regexp(t, "@.* sh$", o.Holders[0].Label, kind)
		assert.NotEmpty(t, o.Holders[0].Ended, kind)
		_, stdout, _ := execute(t, at(s, "show", kind)...)
		assert.Regexp(t, ` ended \S+ ago .* sh `, stdout, kind)
		_, stdout, _ = execute(t, at(s, "ls", "--match", kind)...)
		assert.Regexp(t, ` sh +ended \S+ ago `, stdout, kind)
	}
}

func TestRunKindsKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, flags := range []string{"-s", "-x", "--fair", "--permits=1"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			name := "killed" + strings.TrimLeft(flags, "-")
			c := prepare(t, runAt(s, []string{flags, "--lease", "0.5", name}, sh("echo pid=$$ ; exec sleep 60"))...).start()
			pid := c.number("pid")
			require.NoError(t, c.cmd.Process.Kill())
			gone(t, pid)
			others := flags
			if others == "-s" {
				others = "-x"
			}
			code, _, stderr := execute(t, runAt(s, []string{others, "-w", "10", name}, []string{"true"})...)
			assert.Zero(t, code, stderr)
		})
	}
}
