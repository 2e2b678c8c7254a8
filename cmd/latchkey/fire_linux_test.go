package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// fireFlag is the fire of most of these tests.
var fireFlag = "--fire=" + strconv.FormatInt(someFire.Unix(), 10)

// lockOf returns the lock of the job "job" for someFire.
func lockOf() string { return object.JobLock("job", someFire, false) }

// only returns the only run of the job "job".
func only(t testing.TB, s *redistest.Server) shownRun {
	t.Helper()
	runs := decoded[[]shownRun](t, at(s, "jobs", "job")...)
	require.Len(t, runs, 1)
	return runs[0]
}

// takeAway ends the hold of a lock, as its lease does.
func takeAway(t testing.TB, s *redistest.Server, name string) {
	t.Helper()
	o := decoded[object.Object](t, at(s, "show", name)...)
	require.Len(t, o.Holders, 1)
	code, _, stderr := execute(t, at(s, "force-unlock", name, "--yes", "--id", o.Holders[0].ID)...)
	require.Zero(t, code, stderr)
}

// waits waits until somebody waits for a lock.
func waits(t testing.TB, s *redistest.Server, name string) {
	t.Helper()
	redistest.Until(t, "somebody to wait", func() bool {
		return s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:"+name)[1] != "0"
	})
}

func TestFire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	code, stdout, stderr := execute(t, runAt(s, []string{fireFlag, "job"}, sh(`echo "$LATCHKEY_NAME $LATCHKEY_FIRE $LATCHKEY_TOKEN"; exit 3`))...)
	assert.Equal(t, 3, code)
	assert.Equal(t, "job 2027-01-15T08:00:00Z 0\n", stdout)
	assert.Empty(t, stderr)
	r := only(t, s)
	assert.Equal(t, "failed", r.Outcome)
	assert.Equal(t, "exit status 3", r.Error)
	assert.Regexp(t, "^.+@.+ sh$", r.Label)
	// A run that comes later has nothing to do, however the time is written.
	for _, flag := range []string{fireFlag, "--fire=2027-01-15T09:00:00+01:00", "--fire=1.8e9", "--fire=1800000000.0004"} {
		code, stdout, stderr = execute(t, runAt(s, []string{flag, "--label", "me", "job"}, sh("echo again"))...)
		assert.Zero(t, code)
		assert.Empty(t, stdout+stderr)
	}
	code, stdout, _ = execute(t, runAt(s, []string{"--fire=1800000060.5", "--label", "me", "-c", "echo $LATCHKEY_FIRE; kill -TERM $$", "job"}, nil)...)
	assert.Equal(t, 143, code)
	assert.Equal(t, "2027-01-15T08:01:00.5Z\n", stdout)
	runs := decoded[[]shownRun](t, at(s, "jobs", "job")...)
	require.Len(t, runs, 2)
	assert.Equal(t, "signal: terminated", runs[0].Error)
	assert.Equal(t, "me", runs[0].Label)

	// The present day.
	for n := range 2 {
		before := time.Now().UTC().Truncate(24 * time.Hour)
		code, stdout, stderr = execute(t, runAt(s, []string{"--once-per", "24h", "--keep", "1h", "daily"}, sh("echo $LATCHKEY_FIRE"))...)
		assert.Zero(t, code, stderr)
		if n == 0 {
			fire, err := time.Parse(time.RFC3339, strings.TrimSpace(stdout))
			require.NoError(t, err)
			assert.Contains(t, []time.Time{before, time.Now().UTC().Truncate(24 * time.Hour)}, fire)
			assert.Equal(t, fire, fire.Truncate(24*time.Hour))
		}
	}
	for _, key := range s.Do(t, "KEYS", "*") {
		left, err := strconv.Atoi(s.Do(t, "PTTL", key)[0])
		require.NoError(t, err)
		assert.Positive(t, left, key)
		assert.Equal(t, !strings.Contains(key, "daily"), left > 3_600_000, key)
	}
	assert.NotContains(t, strings.Join(s.Do(t, "KEYS", "*"), " "), "latchkey_once", "no lock is left")
}

func TestFireTooLate(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	late := []string{"--fire=1700000000", "--not-later-than=1m"}
	code, stdout, stderr := execute(t, runAt(s, append(late, "job"), []string{"echo", "x"})...)
	assert.Equal(t, exit.Conflict, code)
	assert.Empty(t, stdout)
	assert.Equal(t, "latchkey: it is too late to run the job \"job\" for 2023-11-14T22:13:20Z\n", stderr)
	code, _, stderr = execute(t, runAt(s, append(late, "-E", "0", "job"), []string{"echo", "x"})...)
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	code, stdout, _ = execute(t, runAt(s, []string{"--fire=1700000000", "job"}, []string{"echo", "x"})...)
	assert.Zero(t, code)
	assert.Equal(t, "x\n", stdout)
}

func TestFireUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flags, want string }{
		{"-n", "--nonblock makes no sense with"},
		{"-w 1", "--wait makes no sense with"},
		{"--permits 2", "--permits makes no sense with"},
		{"-s", "--shared makes no sense with"},
		{"-x", "--exclusive makes no sense with"},
		{"--fair", "--fair makes no sense with"},
		{"--hold-at-least 1", "--hold-at-least makes no sense with"},
		{"--lease 0.01", "a --lease of 10ms: the least is 100ms"},
		{"--once-per 1m", "--once-per and --fire exclude each other"},
		{"--retries -1", "--retries must be between 0 and 1000, not -1"},
		{"--retries 1001", "--retries must be"},
		{"--not-later-than 0", "--not-later-than 0s: the least is 1ms"},
		{"--keep 0.5", "--keep 500ms: the least is 1s"},
	} {
		code, stdout, stderr := execute(t, append(append([]string{"-p", "1", "run", fireFlag}, strings.Fields(c.flags)...), "job", "true")...)
		assert.Equal(t, exit.Usage, code, c)
		assert.Empty(t, stdout, c)
		assert.Contains(t, stderr, "latchkey: run: "+c.want, c)
	}
	for _, c := range []struct{ flags, want string }{
		{"--retries=1", "--retries is for --once-per and --fire"},
		{"--no-overlap", "--no-overlap is for"},
		{"--keep=1h", "--keep is for"},
		{"--not-later-than=1h", "--not-later-than is for"},
		{"--once-per=0.5", "--once-per 500ms: the least is 1s"},
		{"--fire=soon", "--fire soon: neither a time"},
		{"--fire=0", "--fire 0 is no time of a job"},
		{"--fire=-1", "--fire -1 is no time of a job"},
		{"--fire=NaN", "neither"},
		{"--fire=1e300", "neither"},
		{"--fire=", `--fire "": neither`},
	} {
		code, _, stderr := execute(t, "-p", "1", "run", c.flags, "job", "true")
		assert.Equal(t, exit.Usage, code, c)
		assert.Contains(t, stderr, c.want, c)
	}
}

// Three machines whose crontabs run the same line at the same times run the job once for
// each.
func TestFireOnThreeMachines(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "runs")
	fires := redistest.Many(20, 5)
	var all []*command
	for n := range fires {
		fire := "--fire=" + strconv.FormatInt(someFire.Unix()+int64(n), 10)
		for range 3 {
			all = append(all, prepare(t, runAt(s, []string{fire, "-c", "echo $LATCHKEY_FIRE >>" + file + "; sleep .01", "job"}, nil)...).start())
		}
		if n%2 == 0 { // some fires come together
			continue
		}
		for _, c := range all {
			assert.Zero(t, c.code())
			assert.Empty(t, c.out.String()+c.err.String())
		}
		all = nil
	}
	for _, c := range all {
		assert.Zero(t, c.code())
	}
	lines, err := os.ReadFile(file)
	require.NoError(t, err)
	runs := map[string]int{}
	for line := range strings.Lines(string(lines)) {
		runs[line]++
	}
	assert.Len(t, runs, fires)
	for fire, n := range runs {
		assert.Equal(t, 1, n, fire)
	}
	for _, r := range decoded[[]shownRun](t, at(s, "jobs", "job", "-n", "1000")...) {
		assert.Equal(t, "done", r.Outcome, r.Fire)
	}
}

// A machine dies in the middle of a run. With retries the one that waits runs the job
// again, once; without, nobody does, and the run counts as lost.
func TestFireOfAMachineThatDies(t *testing.T) {
	t.Parallel()
	for _, retries := range []string{"0", "1"} {
		t.Run(retries, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			file := filepath.Join(t.TempDir(), "runs")
			flags := []string{fireFlag, "--retries", retries, "-c", "echo run >>" + file + "; [ $(wc -l <" + file + ") -gt 1 ] || exec sleep 60", "job"}
			first := prepare(t, runAt(s, flags, nil)...).start()
			redistest.Until(t, "the first run", func() bool { b, _ := os.ReadFile(file); return string(b) == "run\n" })
			assert.Equal(t, "running", only(t, s).Outcome)
			var others []*command
			for range 2 {
				others = append(others, prepare(t, runAt(s, flags, nil)...).start())
			}
			if retries != "0" {
				waits(t, s, lockOf())
			} else {
				for _, c := range others {
					assert.Zero(t, c.code())
				}
			}
			first.signal(syscall.SIGKILL)
			first.code()
			takeAway(t, s, lockOf())
			for _, c := range others {
				assert.Zero(t, c.code())
				assert.Empty(t, c.out.String()+c.err.String())
			}
			code, _, _ := execute(t, runAt(s, flags, nil)...)
			assert.Zero(t, code)
			runs, err := os.ReadFile(file)
			require.NoError(t, err)
			r := only(t, s)
			if retries == "0" {
				assert.Equal(t, "run\n", string(runs))
				assert.Equal(t, "lost", r.Outcome)
				assert.Equal(t, first.cmd.Process.Pid, r.PID)
			} else {
				assert.Equal(t, "run\nrun\n", string(runs))
				assert.Equal(t, "done", r.Outcome)
				assert.Equal(t, 2, r.Attempt)
			}
		})
	}
}

// A process that is asked to end does not run the job again; a job that is run again takes signals
// as it did the first time.
func TestFireAndSignals(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "runs")
	// The first attempt fails. The second one ends in its own way when it is told to.
	script := `echo run >>` + file + `; [ $(wc -l <` + file + `) -gt 1 ] || exit 1; trap 'exit 5' TERM; echo ready; while :; do sleep .01; done`
	flags := []string{fireFlag, "--retries", "5", "-c", script, "job"}
	c := prepare(t, runAt(s, flags, nil)...).start()
	c.says("ready")
	waiter := prepare(t, runAt(s, flags, nil)...).start()
	waits(t, s, lockOf())
	waiter.signal(syscall.SIGTERM) // it waits: that ends it
	assert.Equal(t, 143, waiter.code())
	c.signal(syscall.SIGTERM)
	assert.Equal(t, 5, c.code())
	runs, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "run\nrun\n", string(runs))
	r := only(t, s)
	assert.Equal(t, "failed", r.Outcome)
	assert.Equal(t, "exit status 5", r.Error)
	assert.Equal(t, 2, r.Attempt)
}

func TestFireHoldAtMost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	code, _, stderr := execute(t, runAt(s, []string{fireFlag, "--hold-at-most", "100ms", "job"}, []string{"sleep", "60"})...)
	assert.Equal(t, exit.Timeout, code)
	assert.Equal(t, "latchkey: sleep was stopped: it had held \"job\" for 100ms\n", stderr)
	r := only(t, s)
	assert.Equal(t, "failed", r.Outcome)
	assert.Equal(t, `sleep was stopped: it had held "job" for 100ms`, r.Error)
}

// A CMD that cannot be started is a failed run, too, but one that is not there is none.
func TestFireOfNoCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	code, _, _ := execute(t, runAt(s, []string{fireFlag, "job"}, []string{"no-such-command"})...)
	assert.Equal(t, exit.NotFound, code)
	assert.Empty(t, s.Do(t, "KEYS", "*"))
	file := filepath.Join(t.TempDir(), "cmd")
	require.NoError(t, os.WriteFile(file, []byte("#!/no/such/shell\n"), 0o755))
	code, _, stderr := execute(t, runAt(s, []string{fireFlag, "job"}, []string{file})...)
	assert.Equal(t, exit.NotFound, code)
	assert.Contains(t, stderr, "cannot run")
	assert.Contains(t, only(t, s).Error, "cannot run")
}

func TestFireLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{fireFlag, "job"}, sh("echo ready; exec sleep 60"))...).start()
	c.says("ready")
	takeAway(t, s, lockOf())
	assert.Equal(t, exit.Lost, c.code())
	assert.Equal(t, "latchkey: lost the job \"job\"; sh was stopped\n", c.err.String())
	assert.Equal(t, "lost", only(t, s).Outcome)
}

// Without Redis CMD is not run; if it is gone at the end, the exit status is that of CMD.
func TestFireWithoutRedis(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := execute(t, "-u", "redis://"+nobody(t), "run", fireFlag, "job", "echo", "x")
	assert.Equal(t, exit.Unavailable, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "connection refused by")
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{fireFlag, "job"}, sh("echo ready; read x; exit 4"))...)
	stdin, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.start()
	c.says("ready")
	s.Kill()
	require.NoError(t, stdin.Close())
	assert.Equal(t, 4, c.code())
	assert.Contains(t, c.err.String(), `latchkey: what became of "job" could not be noted, and it counts as lost when its lease has ended: Redis at `)
}

// A run cannot wait for one that it is part of; runs for other times may overlap.
func TestFireWithinItself(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, c := range []struct {
		flags, inner string
		code         int
		out          string
	}{
		{"--fire=1 --no-overlap", "--fire=2 --no-overlap", exit.Conflict, ""},
		{"--fire=3 --retries=1", "--fire=3 --retries=1", exit.Conflict, ""},
		{"--fire=4", "--fire=4", 0, ""},
		{"--fire=5", "--fire=6 --retries=1", 0, "x\n"},
	} {
		inner := strings.Join(append(append([]string{binary}, at(s, "run")...), c.inner, "job echo x; echo =$?"), " ")
		code, stdout, stderr := execute(t, append(append(at(s, "run"), strings.Fields(c.flags)...), "-c", inner, "job")...)
		assert.Zero(t, code, c)
		assert.Equal(t, c.out+"="+strconv.Itoa(c.code)+"\n", stdout, c)
		assert.Equal(t, c.code != 0, strings.Contains(stderr, `a run that this one is part of has the job "job", and ends after this one`), stderr)
	}
}

// --lease is the lease of a job's lock, too.
func TestFireWithALease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	enough := filepath.Join(t.TempDir(), "enough")
	ended := make(chan int)
	go func() {
		code, _, _ := execute(t, runAt(s, []string{fireFlag, "--lease", "10m", "--keep", "1h", "job"}, sh("while [ ! -e "+enough+" ]; do sleep 0.02; done"))...)
		ended <- code
	}()
	redistest.Until(t, "a lock with that lease", func() bool {
		left, err := strconv.Atoi(s.Do(t, "PTTL", lockOf())[0])
		return err == nil && left > 540_000 && left <= 600_000
	})
	require.NoError(t, os.WriteFile(enough, nil, 0o600))
	require.Zero(t, <-ended)
}
