package main

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := execute(t, "demo", "--duration", "0.05", "--workers", "12", "--clients", "3")
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	assert.True(t, strings.HasSuffix(stdout, "\nviolations 0\n"), stdout)
	for _, sc := range demoScenarios {
		assert.Regexp(t, sc.name+` +[\d,]+ acquired in +[\d.]+s  ok\n`, stdout)
		assert.Regexp(t, `\n *`+sc.name+` +12( +[^ ]+){5} +0\n`, stdout)
	}
	assert.NotContains(t, stdout, "\x1b")
	assert.True(t, strings.HasPrefix(stdout, "12 workers on 3 clients, a server in memory: 14 loads of 50ms"), stdout)
	assert.Contains(t, stdout, embeddedNote)
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
	require.Len(t, results, len(demoScenarios))
	for i, r := range results {
		assert.Equal(t, demoScenarios[i].name, r.Scenario)
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
	assert.NotContains(t, stdout, embeddedNote)
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
			assert.Equal(t, exitSignal+int(sig), c.code())
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
	assert.Equal(t, exitUnavailable, code)
	assert.Regexp(t, `^latchkey: Redis at 127\.0\.0\.1:1: `, stderr)
}

// The detector must see an overlap, or no violations means nothing.
func TestSectionSeesOverlap(t *testing.T) {
	st := new(stage)
	s := section{st: st}
	for range 3 {
		s.leave(s.enter())
	}
	s.settle()
	assert.Zero(t, st.violations.Load())

	a := s.enter()
	b := s.enter()
	assert.EqualValues(t, 1, st.violations.Load(), "b has met a")
	s.leave(a)
	s.leave(b)
	s.settle()
	assert.EqualValues(t, 2, st.violations.Load(), "and has undone its count")

	s.enter()
	s.count.Store(s.turns.Load())
	s.settle()
	assert.EqualValues(t, 3, st.violations.Load(), "somebody is inside still")
}

func TestVerdict(t *testing.T) {
	fine := &demoResult{name: "a"}
	bad := &demoResult{name: "b", violations: 2}
	failed := &demoResult{name: "c", err: errors.New("no")}
	for _, c := range []struct {
		results     []*demoResult
		left        []string
		interrupted error
		code        int
	}{
		{results: []*demoResult{fine}, code: 0},
		{results: []*demoResult{fine, bad}, code: exitFailed},
		{results: []*demoResult{failed}, code: exitFailed},
		{results: []*demoResult{fine}, left: []string{"k"}, code: exitFailed},
		{results: []*demoResult{fine}, interrupted: endedBy(syscall.SIGINT), code: 130},
		{results: []*demoResult{bad}, interrupted: endedBy(syscall.SIGINT), code: exitFailed},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, c.code, report(&errs, verdict(&out, c.results, c.left, nil, c.interrupted)))
		require.Contains(t, out.String(), "violations ")
	}
}

// Who competes for what each keeps for long has a turn after all the others have
// had theirs.
func TestCompeteForWhatIsKept(t *testing.T) {
	const keeps = grace / 8 // so that eleven of them take longer than it
	compete := func(t *testing.T, turn time.Duration) (turns int, err error) {
		st := newStage("", nil, &demoFlags{duration: 100 * time.Millisecond, workers: 12, clients: 1})
		st.turn = turn
		one := make(chan struct{}, 1)
		err = st.compete(t.Context(), func(ctx context.Context, _ int) error {
			select {
			case one <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			turns++
			time.Sleep(keeps)
			<-one
			return nil
		})
		return turns, err
	}
	synctest.Test(t, func(t *testing.T) {
		turns, err := compete(t, keeps)
		require.NoError(t, err)
		assert.Equal(t, 12, turns)
		_, err = compete(t, 0)
		assert.ErrorIs(t, err, errNoProgress)
	})
}
