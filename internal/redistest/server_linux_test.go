//go:build linux

package redistest_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// impatient makes a client report the first error at once.
func impatient(o *redis.Options) {
	o.MaxRetries = -1
	o.ReadTimeout = 800 * time.Millisecond
}

func TestServerRestart(t *testing.T) {
	ctx := t.Context()
	s := redistest.Start(t)
	c := s.Client(t, impatient)
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	pid := s.Pid()

	s.Kill()
	require.Error(t, syscall.Kill(pid, 0), "the process is reaped")
	require.Error(t, c.Get(ctx, "k").Err())

	s.Restart(t)
	assert.NotEqual(t, pid, s.Pid())
	assert.ErrorIs(t, s.Client(t).Get(ctx, "k").Err(), redis.Nil, "same address, no data")
}

func TestServerRestartKeepsAOF(t *testing.T) {
	ctx := t.Context()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	require.NoError(t, s.Client(t).Set(ctx, "k", "v", 0).Err())
	s.Restart(t)
	assert.Equal(t, "v", s.Client(t).Get(ctx, "k").Val())
}

func TestServerBadArgument(t *testing.T) {
	if _, ok := redistest.Find(); !ok {
		t.Skip("no redis-server")
	}
	r := &recorder{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { redistest.Start(r, "--no-such-directive", "1") })
	wg.Wait()
	assert.Contains(t, r.fatal, "no-such-directive", "the log is shown")
}

func TestServerFreeze(t *testing.T) {
	ctx := t.Context()
	s := redistest.Start(t)
	c := s.Client(t, impatient)
	require.NoError(t, c.Ping(ctx).Err())
	s.Freeze()
	require.ErrorIs(t, c.Set(ctx, "k", "v", 0).Err(), os.ErrDeadlineExceeded)
	s.Thaw()
	redistest.Until(t, "the zombie command", func() bool { return c.Exists(ctx, "k").Val() == 1 })
	s.Freeze() // the cleanup must end it
}

func TestReplica(t *testing.T) {
	ctx := t.Context()
	s := redistest.Start(t)
	r := redistest.StartReplica(t, s)
	require.NoError(t, s.Client(t).Set(ctx, "k", "v", 0).Err())
	c := r.Client(t)
	redistest.Until(t, "replication", func() bool { return c.Get(ctx, "k").Val() == "v" })
	assert.ErrorContains(t, c.Set(ctx, "k", "w", 0).Err(), "READONLY")
}

func TestCommandCounts(t *testing.T) {
	ctx := t.Context()
	s := redistest.Start(t)
	require.EqualValues(t, 0, s.Commands(t))
	m := s.Monitor(t)
	c := s.Client(t)
	sc := redis.NewScript(`redis.call('incr', KEYS[1]); return redis.call('incr', KEYS[1])`)
	require.NoError(t, sc.Run(ctx, c, []string{"a \"b\"\r\n\x00ü"}).Err()) // EVALSHA, then EVAL
	require.NoError(t, sc.Run(ctx, c, []string{"n"}).Err())
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, "n")
		p.Get(ctx, "n")
		return nil
	})
	require.NoError(t, err)

	assert.EqualValues(t, 5, s.Commands(t), "EVALSHA, EVAL, EVALSHA, GET, GET")
	assert.Equal(t, 2, m.Count("evalsha"))
	assert.Equal(t, 0, m.Count("incr"), "no client sent that")
	lines := m.Lines()
	require.Len(t, lines, 9)
	assert.Equal(t, "lua: incr n", lines[5].String())
	assert.Equal(t, "a \"b\"\r\n\x00ü", lines[1].Args[3])

	stats := s.CommandStats(t)
	assert.EqualValues(t, 4, stats["incr"], "inner calls count")
	assert.EqualValues(t, 2, stats["evalsha"], "NOSCRIPT counts")

	s.Restart(t)
	assert.EqualValues(t, 5, s.Commands(t))
	require.NoError(t, s.Client(t).Ping(ctx).Err())
	assert.EqualValues(t, 6, s.Commands(t))
	assert.Len(t, m.Lines(), 9, "the old recording stays readable")
}

// TestServersDieWithProcess kills a test process from outside.
func TestServersDieWithProcess(t *testing.T) {
	if os.Getenv("REDISTEST_CHILD") != "" {
		s := redistest.Start(t)
		_, _ = os.Stdout.WriteString("pid " + strconv.Itoa(s.Pid()) + "\n")
		select {}
	}
	if _, ok := redistest.Find(); !ok {
		t.Skip("no redis-server")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^TestServersDieWithProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "REDISTEST_CHILD=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var seen string
	for buf := make([]byte, 256); !strings.Contains(seen, "pid ") || !strings.HasSuffix(seen, "\n"); {
		n, err := out.Read(buf)
		seen += string(buf[:n])
		require.NoError(t, err, seen)
	}
	_, rest, _ := strings.Cut(seen, "pid ")
	pid, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	redistest.Until(t, "the server to die", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") // nobody may reap it
	})
}

func TestCluster(t *testing.T) {
	ctx := t.Context()
	start := time.Now()
	c := redistest.StartCluster(t, 3)
	t.Logf("up after %v", time.Since(start))
	rdb := c.Client(t)
	for i := range 50 {
		require.NoError(t, rdb.Set(ctx, "k"+strconv.Itoa(i), i, 0).Err())
	}
	for _, s := range c.Nodes {
		assert.NotZero(t, s.Client(t).DBSize(ctx).Val())
	}

	slot := c.Slot(t, "k1")
	from := c.Owner(t, slot)
	to := (from + 1) % 3
	c.OpenSlot(t, slot, from, to)
	assert.ErrorContains(t, c.Nodes[from].Client(t).Get(ctx, "{k1}none").Err(), "ASK")
	c.MoveSlot(t, slot, from, to)
	assert.Equal(t, to, c.Owner(t, slot))
	assert.ErrorContains(t, c.Nodes[from].Client(t).Get(ctx, "k1").Err(), "MOVED")
	assert.Equal(t, "1", rdb.Get(ctx, "k1").Val())
}

func TestMissingServer(t *testing.T) {
	t.Setenv("REDIS_SERVER", "no-such-redis-server")
	for _, tt := range []struct{ ci, require, fatal, skip string }{
		{"", "", "", "not found"},
		{"true", "", "not found", ""},
		{"", "1", "not found", ""},
	} {
		t.Setenv("CI", tt.ci)
		t.Setenv("REQUIRE_REDIS", tt.require)
		r := &recorder{TB: t}
		var wg sync.WaitGroup
		wg.Go(func() { redistest.Start(r) })
		wg.Wait()
		assert.Contains(t, r.fatal, tt.fatal)
		assert.Contains(t, r.skip, tt.skip)
		assert.Equal(t, tt.fatal == "", r.fatal == "")
	}
}

// recorder catches the end of a test.
type recorder struct {
	testing.TB
	fatal string
	skip  string
}

func (r *recorder) Fatal(args ...any) {
	r.fatal = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Skip(args ...any) {
	r.skip = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Fatal(fmt.Sprintf(format, args...))
}
