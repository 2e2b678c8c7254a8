package main

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/internal/text/texttest"
	"github.com/latchkey-go/latchkey/once"
)

// someFire is a fire of the tests' jobs.
var someFire = time.UnixMilli(1_800_000_000_000)

// runJob runs a job for a fire; it fails with err.
func runJob(t testing.TB, c *latchkey.Client, name string, fire time.Time, err error, opts ...once.Option) {
	t.Helper()
	ran, got := once.New(c, name, opts...).Do(t.Context(), fire, func(context.Context) error { return err })
	require.True(t, ran)
	require.Equal(t, err, got)
}

// goOn lets a job run for a fire until the function that it returns is called.
func goOn(t testing.TB, c *latchkey.Client, name string, fire time.Time, opts ...once.Option) (end func()) {
	t.Helper()
	begun, over, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := once.New(c, name, opts...).Do(t.Context(), fire, func(context.Context) error {
			close(begun)
			<-over
			return nil
		})
		ended <- err
	}()
	<-begun
	return func() {
		close(over)
		require.NoError(t, <-ended)
	}
}

// jobOutcomes returns what tests compare of runs.
func jobOutcomes(runs []shownRun) (all []string) {
	for _, r := range runs {
		all = append(all, r.Job+" "+r.Fire+" "+r.Outcome)
	}
	return all
}

func TestJobs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	code, stdout, stderr := execute(t, at(s, "jobs")...)
	assert.Zero(t, code)
	assert.Regexp(t, `^JOB .*\n$`, stdout)
	assert.Equal(t, "latchkey: no run of a job is known\n", stderr)
	assert.Empty(t, decoded[[]shownRun](t, at(s, "jobs", "report")...))
	_, _, stderr = execute(t, at(s, "jobs", "report")...)
	assert.Equal(t, "latchkey: no run of report is known\n", stderr)

	fire := func(n int) time.Time { return someFire.Add(time.Duration(n) * time.Minute) }
	for n := range 30 {
		runJob(t, c, "report", fire(n), nil)
	}
	rdb := s.Client(t)
	later := func() { // runs are in the order of the milliseconds in which they were written
		t.Helper()
		from := rdb.Time(t.Context()).Val()
		redistest.Until(t, "the next millisecond", func() bool {
			return rdb.Time(t.Context()).Val().After(from.Truncate(time.Millisecond).Add(time.Millisecond))
		})
	}
	later()
	runJob(t, c, "report", fire(30), errors.New("no paper"), once.Label("ann"))
	later()
	end := goOn(t, c, "report", fire(10).Add(time.Millisecond))
	defer end()
	runJob(t, c, "report", fire(31), nil, once.OnFailure(once.Retry(2)))
	endAlone := goOn(t, c, "alone", fire(1), once.NoOverlap())
	defer endAlone()
	// A run whose process has died.
	runJob(t, c, "dead", fire(0), nil)
	s.Do(t, "HSET", "{dead}:latchkey_run:1800000000000", "state", "running")
	s.Do(t, "HDEL", "{dead}:latchkey_run:1800000000000", "ended")
	// Nothing of ours, however much it looks like it.
	s.Do(t, "SET", "{text}:latchkey_runs", "x")
	s.Do(t, "ZADD", "{odd}:latchkey_runs", "1", "x", "2", "1800000000000")
	s.Do(t, "SET", "{odd}:latchkey_run:1800000000000", "x")
	s.Do(t, "ZADD", "rank:latchkey_runs", "1", "1800000000000")

	all := decoded[[]shownRun](t, at(s, "jobs")...)
	assert.Equal(t, []string{
		"alone 2027-01-15T08:01:00.000Z running", "dead 2027-01-15T08:00:00.000Z lost",
		"report 2027-01-15T08:31:00.000Z done", "report 2027-01-15T08:10:00.001Z running",
	}, jobOutcomes(all))
	assert.Equal(t, jobOutcomes(all[:1]), jobOutcomes(decoded[[]shownRun](t, at(s, "jobs", "--match", "al*")...)))
	runs := decoded[[]shownRun](t, at(s, "jobs", "report")...)
	require.Len(t, runs, 20)
	assert.Equal(t, "2027-01-15T08:31:00.000Z", runs[0].Fire)
	host, err := os.Hostname()
	require.NoError(t, err)
	r := runs[1]
	assert.Equal(t, "failed", r.Outcome)
	assert.Equal(t, "no paper", r.Error)
	assert.Equal(t, "ann", r.Label)
	assert.Equal(t, host, r.Host)
	assert.Equal(t, os.Getpid(), r.PID)
	assert.Equal(t, 1, r.Attempt)
	started, err := time.Parse(time.RFC3339Nano, r.Started)
	require.NoError(t, err)
	ended, err := time.Parse(time.RFC3339Nano, r.Ended)
	require.NoError(t, err)
	assert.Equal(t, ended.Sub(started).Milliseconds(), r.TookMs)
	assert.WithinDuration(t, time.Now(), ended, time.Minute)
	assert.Len(t, decoded[[]shownRun](t, at(s, "jobs", "report", "-n", "25")...), 25)
	assert.Len(t, decoded[[]shownRun](t, at(s, "jobs", "report", "-n", "1000")...), 33)
	assert.Empty(t, decoded[[]shownRun](t, at(s, "jobs", "--db", "1")...))

	code, stdout, stderr = execute(t, at(s, "jobs", "report", "-n", "3")...)
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	assert.Regexp(t, `^JOB +FIRE +OUTCOME +STARTED +TOOK +ATTEMPT +LABEL +PROCESS +ERROR\n`+
		`report +\S+ +done +[\d.]+s ago +[\d.]+s +1 +- +`+host+`:\d+ +-\n`+
		`report +\S+ +failed +[\d.]+s ago +[\d.]+s +1 +ann +`+host+`:\d+ +no paper\nreport +\S+ +running `, stdout)
	assert.Contains(t, stdout, text.Instant(fire(30)))

	for _, args := range [][]string{
		{"jobs", "-n", "2"}, {"jobs", "report", "-n", "0"}, {"jobs", "report", "-n", "1001"}, {"jobs", ""}, {"jobs", "a", "b"}, {"jobs", "a", "--match", "a"},
	} {
		code, stdout, stderr := execute(t, at(s, args...)...)
		assert.Equal(t, exit.Usage, code, args)
		assert.Empty(t, stdout, args)
		assert.Contains(t, stderr, "latchkey: jobs: ", args)
	}

	// ls has the locks of what runs, and nothing else of a job.
	for _, flags := range [][]string{nil, {"--all"}} {
		assert.Equal(t, []string{"{alone}:latchkey_once lock", "{report}:latchkey_once:1800000600001 lock"},
			names(decoded[[]object.Object](t, at(s, append([]string{"ls"}, flags...)...)...)))
	}
	o := decoded[object.Object](t, at(s, "show", "{report}:latchkey_once:1800000600001")...)
	require.Len(t, o.Holders, 1)
	assert.Equal(t, "the lock of the job report for "+text.Instant(fire(10).Add(time.Millisecond)), o.Beside)
	assert.Equal(t, "the lock of the job alone", decoded[object.Object](t, at(s, "show", "{alone}:latchkey_once")...).Beside)
	_, _, stderr = execute(t, at(s, "run", "{report}:latchkey_runs", "true")...)
	assert.Contains(t, stderr, "{report}:latchkey_runs is a note of latchkey about runs of the job report\n")
}

// Whatever a job is called, jobs finds it, and terminals see it in a form that does no
// harm; so do completions.
func TestJobNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	all := map[string]bool{}
	for _, name := range append([]string{"report", "{report}", "a b{c}d", "{a}{}", "x}", ":latchkey_runs"}, texttest.Hostile...) {
		if name == "" || strings.Contains(name, "\x00") {
			continue // no argument of a command can be that
		}
		all[name] = true
		runJob(t, c, name, someFire, errors.New(name), once.Label(name[:min(len(name), maxLabel)]))
		if !strings.HasPrefix(name, "-") { // for which it takes a "--"
			assert.Len(t, decoded[[]shownRun](t, at(s, "jobs", name)...), 1, "%q", name)
		}
	}
	listed := map[string]bool{}
	for _, r := range decoded[[]shownRun](t, at(s, "jobs")...) {
		name := r.Job
		if r.JobBytes != "" {
			raw, err := base64.StdEncoding.DecodeString(r.JobBytes)
			require.NoError(t, err)
			name = string(raw)
		}
		listed[name] = true
	}
	assert.Equal(t, all, listed)
	for _, args := range [][]string{{"jobs"}, {"jobs", "--json"}} {
		_, stdout, stderr := execute(t, at(s, args...)...)
		harmlessText(t, stdout)
		assert.Empty(t, stderr)
	}
	for begun, want := range map[string]string{
		"rep": "report\n:4\n", "x": "x}\n:4\n", "{": ":4\n", "$": ":4\n", "*": ":4\n",
	} {
		_, stdout, _ := execute(t, append([]string{"__complete"}, at(s, "jobs", begun)...)...)
		assert.Equal(t, want, stdout, begun)
	}
	_, stdout, _ := execute(t, append([]string{"__complete"}, at(s, "jobs", "report", "")...)...)
	assert.Equal(t, ":4\n", stdout)
}

// On a narrow terminal what does not fit stands below the line.
func TestJobsOnNarrowTerminal(t *testing.T) {
	now := someFire.Add(time.Hour)
	out := new(strings.Builder)
	jobsTable([]jobRun{{"report", once.Run{
		Fire: someFire, Attempt: 2, Started: now.Add(-time.Minute), Ended: now.Add(-55 * time.Second), Label: "ann", Host: "ci-1", PID: 7, Outcome: once.Failed, Err: "exit status 3",
	}}}, now).Print(&terminal.Printer{Writer: out, Width: 64})
	assert.Equal(t, "JOB     FIRE"+strings.Repeat(" ", len(text.Instant(someFire))-2)+"OUTCOME  STARTED  TOOK  LABEL\n"+
		"report  "+text.Instant(someFire)+"  failed    1m ago  5.0s  ann\n  process ci-1:7  error exit status 3\n", out.String())
}

func TestJobsOfACluster(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t, 2)
	c := newClient(t, cl.Client(t))
	var want []string
	for n := range 8 {
		name := "report-" + strconv.Itoa(n)
		runJob(t, c, name, someFire, nil)
		want = append(want, name+" 2027-01-15T08:00:00.000Z done")
	}
	at := []string{"-u", "redis://" + cl.Nodes[1].Addr, "--cluster", "jobs"}
	assert.Equal(t, want, jobOutcomes(decoded[[]shownRun](t, at...)))
	assert.Equal(t, want[3:4], jobOutcomes(decoded[[]shownRun](t, append(at, "report-3")...)))
	_, _, stderr := execute(t, "-u", "redis://"+cl.Nodes[1].Addr, "jobs")
	assert.Contains(t, stderr, "it is a node of a Redis Cluster, and has a part of the names only (--cluster)")
}
