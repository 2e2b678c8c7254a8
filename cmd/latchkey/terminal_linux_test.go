package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// onTerminal starts a command as the first of a session that has a terminal. It
// returns the other end of that; what is shown there is c.out.
func onTerminal(t *testing.T, c *command) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		redistest.Missing(t, "no pseudo terminals here: "+err.Error())
	}
	t.Cleanup(func() { _ = master.Close() })
	raw, err := master.SyscallConn() // Fd would make it a file that Close does not interrupt
	require.NoError(t, err)
	var n int
	require.NoError(t, raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer slave.Close()

	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.start()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = c.out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return master
}

func typed(t *testing.T, terminal *os.File, text string) {
	t.Helper()
	_, err := terminal.WriteString(text)
	require.NoError(t, err)
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"job"}, sh(`echo ready; read x; echo "<$x>"; exit 4`))...)
	tty := onTerminal(t, c)
	c.says("ready")
	typed(t, tty, "hello\n")
	assert.Equal(t, 4, c.code())
	c.says("<hello>")
}

func TestTerminalOfPipeline(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	// Input is no terminal, so the child is in the background until it reads
	// from it all the same, as one that asks for a password does.
	c := prepare(t)
	c.cmd.Path = "/bin/sh"
	line := `</dev/null "$0" "$@" | cat; echo over`
	c.cmd.Args = append([]string{"sh", "-c", line, binary}, runAt(s, []string{"job"}, sh(`echo ready; read x </dev/tty; echo "<$x>"`))...)
	tty := onTerminal(t, c)
	c.says("ready")
	typed(t, tty, "hello\n")
	assert.Zero(t, c.code())
	c.says("<hello>\r\nover")
}

func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"job"}, sh(`echo ready; exec sleep 60`))...)
	tty := onTerminal(t, c)
	c.says("ready")
	typed(t, tty, "\x03")
	assert.Equal(t, 130, c.code())
	assert.True(t, free(t, s, "job"))
}

// Where no shell could resume us, Ctrl-Z must not be the end of it all.
func TestTerminalStopWithoutShell(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"job"}, sh(`trap "echo resumed" CONT; echo ready; read x || read x; echo "<$x>"`))...)
	tty := onTerminal(t, c)
	c.says("ready")
	typed(t, tty, "\x1a")
	c.says("resumed")
	typed(t, tty, "hello\n")
	assert.Zero(t, c.code())
	c.says("<hello>")
}

// With a shell it is as with any job: stopped, and resumed in the foreground.
func TestTerminalJobControl(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		redistest.Missing(t, "bash not found: install it")
	}
	s := redistest.Start(t)
	c := prepare(t)
	c.cmd.Path = bash
	c.cmd.Args = []string{"bash", "--norc", "--noprofile", "-i"}
	c.cmd.Env = append(c.cmd.Env, "PS1=$ ", "TERM=dumb", "HISTFILE=")
	tty := onTerminal(t, c)
	c.says("$ ")
	job := func(lease, script string) string {
		return fmt.Sprintf("%s -u redis://%s run --lease %s job sh -c '%s'; echo code=$?.\n", binary, s.Addr, lease, script)
	}
	typed(t, tty, job("60", `echo rea""dy; read x; echo "got<$x>"; exit 7`))
	c.says("ready")
	typed(t, tty, "\x1a")
	c.says("Stopped")
	assert.False(t, free(t, s, "job"), "the lease is long")
	typed(t, tty, "\nfg; echo code=$?.\n") // a shell that is at its prompt just now may lose a character
	typed(t, tty, "hello\n")
	c.says("got<hello>")
	c.says("code=7.")

	// Stopped for longer than the lease, it must not go on.
	before := len(c.out.String())
	since := func(text string) func() bool {
		return func() bool { return strings.Contains(c.out.String()[before:], text) }
	}
	typed(t, tty, job("0.3", `echo beg""un; read x; echo went"" on`))
	redistest.Until(t, "the child", since("begun"))
	typed(t, tty, "\x1a")
	redistest.Until(t, "the stop", since("Stopped"))
	redistest.Until(t, "the end of the lease", func() bool { return free(t, s, "job") })
	typed(t, tty, "\nfg; echo code=$?.\n") // a shell that is at its prompt just now may lose a character
	redistest.Until(t, "the exit code", since("code=76."))
	assert.NotContains(t, c.out.String(), "went on")

	typed(t, tty, "exit 3\n")
	assert.Equal(t, 3, c.code())
}

func TestTerminalDemo(t *testing.T) {
	t.Parallel()
	c := prepare(t, "demo", "--duration", "0.2", "--workers", "8")
	c.cmd.Env = append(c.cmd.Env, "TERM=xterm")
	onTerminal(t, c)
	require.Zero(t, c.code())
	redistest.Until(t, "all of the output", func() bool { return strings.HasSuffix(c.out.String(), "violations 0\r\n") })
	assert.Contains(t, c.out.String(), "waiting")
	assert.Contains(t, c.out.String(), "\x1b[32mok\x1b[0m")

	c = prepare(t, "demo", "--duration", "30", "--workers", "8")
	c.cmd.Env = append(c.cmd.Env, "TERM=xterm", "NO_COLOR=1")
	tty := onTerminal(t, c)
	c.says("waiting")
	typed(t, tty, "\x03")
	assert.Equal(t, 130, c.code())
	redistest.Until(t, "all of the output", func() bool { return strings.HasSuffix(c.out.String(), "interrupted\r\nviolations 0\r\n") })
	assert.NotContains(t, c.out.String(), "\x1b[3")
}

// Ctrl-C is an answer to a question.
func TestTerminalQuestion(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SET", "pool", "1")
	for want, say := range map[int]func(*command, *os.File){
		130: func(_ *command, terminal *os.File) { typed(t, terminal, "\x03") },
		143: func(c *command, _ *os.File) { c.signal(syscall.SIGTERM) },
		1:   func(_ *command, terminal *os.File) { typed(t, terminal, "n\n") },
	} {
		c := prepare(t, at(s, "sem", "delete", "pool")...)
		terminal := onTerminal(t, c)
		c.says("[y/N]")
		say(c, terminal)
		assert.Equal(t, want, c.code())
		assert.False(t, free(t, s, "pool"))
	}
}
