package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A run within a run of the same name would wait for itself for ever.
func TestRunNested(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	run := quick + " -u redis://" + s.Addr + " run "
	const self = "latchkey: a run that this one is part of has "
	for _, c := range []struct {
		outer, inner string
		code         int
		stderr       string
	}{
		{"job", run + "job echo in", exit.Conflict, self + "the lock \"job\""},
		{"job", run + "other " + run + "job echo in", exit.Conflict, self + "the lock \"job\""},
		{"job", run + "-n job echo in", exit.Conflict, self},
		{"job", run + "-w 1h -E 3 job echo in", 3, self},
		{"job", run + "-n -E 0 job", 0, ""},
		{"job", run + "--fair job echo in", exit.Conflict, self},
		{"--fair job", run + "job echo in", exit.Conflict, self},
		{"-x data", run + "-x data echo in", exit.Conflict, self + "the read-write lock \"data\""},
		{"-x data", run + "-s data echo in", exit.Conflict, self},
		{"-s data", run + "-x data echo in", exit.Conflict, self},
		{"-s data", run + "-s data echo in", 0, ""},
		{"--permits 1 one", run + "--permits 1 one echo in", exit.Conflict, self + "the permits of \"one\""},
		{"--permits 2 two", run + "--permits 2 two echo in", 0, ""},
		{"--permits 2 two", run + "--permits 2 two " + run + "--permits 2 two echo in", exit.Conflict, self},
		{"job", run + "other echo in", 0, ""},
		{"job", run + "--db 1 job echo in", 0, ""}, // another lock of the same name
	} {
		if strings.HasSuffix(c.inner, "-E 0 job") {
			c.inner += " echo out; echo in"
		}
		code, stdout, stderr := execute(t, runAt(s, strings.Fields(c.outer), sh(c.inner))...)
		assert.Equal(t, c.code, code, "%v in %v", c.inner, c.outer)
		if c.code == 0 {
			assert.Equal(t, "in\n", stdout, "%v in %v", c.inner, c.outer)
			assert.Empty(t, stderr, "%v in %v", c.inner, c.outer)
			continue
		}
		assert.Empty(t, stdout, "%v in %v", c.inner, c.outer)
		assert.True(t, strings.HasPrefix(stderr, c.stderr), "%v in %v: %s", c.inner, c.outer, stderr)
	}
}

// The environment of a run whose lock is another's by now refuses nothing.
func TestRunNestedAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, env, _ := execute(t, runAt(s, []string{"job"}, []string{"env"})...)
	require.Contains(t, env, "LATCHKEY_HOLDER=")
	c := prepare(t, runAt(s, []string{"job"}, sh("echo $LATCHKEY_OUTER"))...)
	c.cmd.Env = append(c.cmd.Env, strings.Split(strings.TrimSpace(env), "\n")...)
	c.start()
	assert.Zero(t, c.code())
	assert.Contains(t, env, "LATCHKEY_HOLDER="+strings.TrimSpace(c.out.String()))
}

// With -x, LATCHKEY_HOLDER is what Redis shows, and what force-unlock takes.
func TestRunHolderOfAWriter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"-x", "data"}, sh("echo $LATCHKEY_HOLDER; read x"))...)
	stdin, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.start()
	c.says("\n")
	assert.Equal(t, "1", s.Do(t, "HEXISTS", "data", strings.TrimSpace(c.out.String()))[0])
	require.NoError(t, stdin.Close())
	c.code()
}

// What the caller wants ignored stays so, here and in CMD. Go tells of HUP and
// INT only.
func TestRunInheritsIgnored(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	args := quick + " " + strings.Join(runAt(s, []string{"job"}, nil), " ")
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP,
	} {
		number := strings.Fields("x HUP INT QUIT x x x x x x USR1 x USR2 x x TERM x x x x TSTP")[sig]
		// The child hears of a signal by itself, and would die of what is passed on.
		script := "trap '' " + number + "; " + args + " sh -c 'kill -" + number + " $PPID; grep SigIgn /proc/self/status; sleep 0.1; echo lives'; echo $?"
		c := prepare(t)
		c.cmd.Path, c.cmd.Args = "/bin/sh", []string{"sh", "-c", script}
		c.start()
		c.code()
		assert.True(t, strings.HasSuffix(c.out.String(), "lives\n0\n"), "%v: %s", sig, &c.out)
	}
}
