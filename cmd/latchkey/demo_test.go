package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// scenarios are what the demo plays.
var scenarios = []string{
	"rlock", "rlock fenced", "rlock spin", "rlock reentrant", "rlock crash", "rlock forced", "fairlock", "rwlock",
	"semaphore", "permitsemaphore", "countdownlatch", "multilock", "multilock group", "redlock",
}

// slowServer is a part of what it says of a server in memory.
const slowServer = "the figures below say that it works, not how fast"

func TestDemo(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := execute(t, "demo", "--duration", "0.05", "--workers", "12", "--clients", "3")
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	assert.True(t, strings.HasSuffix(stdout, "\nviolations 0\n"), stdout)
	for _, name := range scenarios {
		assert.Regexp(t, name+` +[\d,]+ acquired in +[\d.]+s  ok\n`, stdout)
		assert.Regexp(t, `\n *`+name+`( +[^ ]+){5} +0\n`, stdout)
	}
	assert.NotContains(t, stdout, "\x1b")
	assert.True(t, strings.HasPrefix(stdout, "12 workers on 3 clients, a server in memory: 14 loads of 50ms"), stdout)
	assert.Contains(t, stdout, slowServer)
}

func TestDemoJSON(t *testing.T) {
	t.Parallel()
	type result struct {
		Scenario     string  `json:"scenario"`
		Workers      int     `json:"workers"`
		Acquisitions uint64  `json:"acquisitions"`
		Seconds      float64 `json:"seconds"`
		WaitP50Ms    float64 `json:"wait_p50_ms"`
		WaitP99Ms    float64 `json:"wait_p99_ms"`
		WaitMaxMs    float64 `json:"wait_max_ms"`
		Violations   uint64  `json:"violations"`
	}
	results := decoded[[]result](t, "demo", "--duration", "0.05", "--workers", "4")
	require.Len(t, results, len(scenarios))
	for i, r := range results {
		assert.Equal(t, scenarios[i], r.Scenario)
		assert.Zero(t, r.Violations)
		assert.NotZero(t, r.Acquisitions)
	}
}

func TestDemoOnRealServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	code, stdout, stderr := execute(t, at(s, "demo", "--duration", "0.05", "--workers", "12")...)
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "Redis at "+s.Addr)
	assert.NotContains(t, stdout, slowServer)
	leavesNothing(t, s)

	// Without a flag that names it, a server in the environment is left alone.
	before := s.Do(t, "INFO", "commandstats")[0]
	c := prepare(t, "demo", "--duration", "1ms", "--workers", "2")
	c.cmd.Env = append(c.cmd.Env, "REDIS_URL=redis://"+s.Addr)
	c.start()
	assert.Zero(t, c.code())
	assert.Equal(t, strings.Count(before, "\n"), strings.Count(s.Do(t, "INFO", "commandstats")[0], "\n"))
	assert.Contains(t, c.out.String(), "a server in memory")
}

// leavesNothing sees that a server has no keys of the demo but what expires soon.
func leavesNothing(t *testing.T, s *redistest.Server) {
	t.Helper()
	for _, k := range s.Do(t, "KEYS", "*latchkey-demo:*") {
		assert.Regexp(t, "^latchkey_(claim|ended):{latchkey-demo:", k)
		left, err := strconv.Atoi(s.Do(t, "TTL", k)[0])
		require.NoError(t, err)
		assert.True(t, 0 < left && left <= 60, "%s expires in %d s", k, left)
	}
}

// Whatever signal ends it, it leaves nothing behind, and says which one that was.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := prepare(t, at(s, "demo", "--duration", "0.2", "--workers", "8")...).start()
			c.says("rlock spin") // by then there is a counter of tokens
			c.signal(sig)
			assert.Equal(t, exit.Signal+int(sig), c.code())
			assert.Contains(t, c.out.String(), "interrupted\nviolations 0\n")
			for _, key := range s.Do(t, "KEYS", "*") {
				assert.NotEqual(t, []string{"-1"}, s.Do(t, "TTL", key), key)
			}
		})
	}
}

func TestDemoUnavailable(t *testing.T) {
	t.Parallel()
	code, _, stderr := execute(t, "demo", "-p", "1")
	assert.Equal(t, exit.Unavailable, code)
	assert.Regexp(t, `^latchkey: Redis at 127\.0\.0\.1:1: `, stderr)
}
