package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

func TestTopWithoutTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, rlock.New(newClient(t, s.Client(t)), "job"))
	code, stdout, stderr := execute(t, at(s, "top", "--count", "2", "-d", "0.1")...)
	assert.Zero(t, code, stderr)
	assert.Regexp(t, `^\d{4}-\d\d-\d\d [\d:]{8}\nNAME .*\njob +lock .*\n\n\d{4}-.*\nNAME .*\njob +lock .*\n\n$`, stdout)

	_, stdout, _ = execute(t, at(s, "top", "--count", "3", "-d", "0.1", "--json")...)
	lines := 0
	for sc := bufio.NewScanner(strings.NewReader(stdout)); sc.Scan(); lines++ {
		var objects []object.Object
		require.NoError(t, json.Unmarshal(sc.Bytes(), &objects), sc.Text())
		assert.Equal(t, []string{"job lock"}, names(objects))
	}
	assert.Equal(t, 3, lines)

	// It goes on without end, until a signal comes.
	c := prepare(t, at(s, "top", "-d", "0.1")...).start()
	redistest.Until(t, "a third list", func() bool { return strings.Count(c.out.String(), "NAME") >= 3 })
	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	assert.Equal(t, 130, c.code())

	// A server that has gone is not one where nothing is held.
	empty := redistest.Start(t)
	c = prepare(t, at(empty, "top", "-d", "0.1")...).start()
	redistest.Until(t, "a list", func() bool { return strings.Contains(c.out.String(), "NAME") })
	empty.Kill()
	assert.Equal(t, exit.Unavailable, c.code())

	for _, flag := range []string{"--delay=0.05", "--count=-1", "--kind=x"} {
		code, _, _ := execute(t, at(s, "top", flag)...)
		assert.Equal(t, exit.Usage, code, flag)
	}
	code, _, _ = execute(t, "-p", "1", "top")
	assert.Equal(t, exit.Unavailable, code)
}

// A pane is a terminal of tmux's, as a person has it.
type pane struct {
	t      *testing.T
	socket string
}

// newPane runs a command in a terminal of tmux's. Without tmux the test is
// skipped, or fails where redistest would.
func newPane(t *testing.T, columns, lines, command string) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		redistest.Missing(t, "tmux not found: install it")
	}
	p := &pane{t: t, socket: t.TempDir() + "/tmux"}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", p.socket, "kill-server").Run() })
	p.do("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", lines, command+"; echo code=$?.; exec cat")
	return p
}

func (p *pane) do(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", p.socket}, args...)...).CombinedOutput()
	require.NoError(p.t, err, "%s", out)
	return string(out)
}

func (p *pane) press(keys ...string) { p.do(append([]string{"send-keys"}, keys...)...) }

// shows waits until the screen has text.
func (p *pane) shows(text string) {
	p.t.Helper()
	redistest.Until(p.t, text+" on the screen", func() bool { return strings.Contains(p.do("capture-pane", "-p"), text) })
}

func TestTopOnTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	h := take(t, rlock.New(c, "job"))
	take(t, rlock.New(c, "evil\x1b[2J\nname"))
	waiter := rlock.New(newClient(t, s.Client(t)), "job").LockAsync(t.Context())
	p := newPane(t, "80", "24", strings.Join(append([]string{binary}, at(s, "top", "-d", "0.1", "--rescan", "0.2")...), " "))
	p.shows("2 names, 1 waited for, 1 waiting")
	p.shows(`"evil\x1b[2J\nname"`)
	p.shows("> job")
	p.press("Down", "Enter")
	p.shows("enter or esc back to the list")
	p.press("Enter", "c")
	p.shows("c all")
	assert.NotContains(t, p.do("capture-pane", "-p"), "evil")
	require.NoError(t, h.Unlock(t.Context()))
	got := <-waiter
	require.NoError(t, got.Err)
	p.shows("0 waited for")
	take(t, rlock.New(c, "another"))
	p.shows("3 names")
	p.press("q")
	p.shows("code=0.")
	assert.NotContains(t, p.do("capture-pane", "-p"), "latchkey top", "the screen from before is back")
}

// On 80 columns there is room for what matters, and the beginning of a holder is
// enough to take the lock from it.
func TestTopOnNarrowTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	h := take(t, rlock.New(c, "deploy", rlock.Fenced()), latchkey.Label("ann@ci-1 deploy.sh"))
	p := newPane(t, "80", "24", strings.Join(append([]string{binary}, at(s, "top", "-d", "0.1")...), " "))
	p.shows("> deploy")
	screen := p.do("capture-pane", "-p")
	assert.Regexp(t, `\n  NAME +KIND +WAITING +HOLDER +LABEL +HELD +LEASE`, screen)
	assert.Regexp(t, `\n> deploy +lock +- +`+h.HolderID()[:8]+`\S*… +ann@ci-1 deploy\.sh +[\d.]+m?s +[\d.]+s`, screen)
	p.press("Enter")
	p.shows(h.HolderID())
	p.press("q")
	p.shows("code=0.")

	p = newPane(t, "80", "24", strings.Join(append([]string{binary}, at(s, "ls")...), " "))
	p.shows("code=0.")
	screen = p.do("capture-pane", "-p")
	assert.Contains(t, screen, "ann@ci-1 deploy.sh")
	shown := regexp.MustCompile(h.HolderID()[:8] + `\S*…`).FindString(screen)
	require.NotEmpty(t, shown, screen)
	code, _, stderr := execute(t, at(s, "release", "deploy", "--id", shown)...)
	assert.Zero(t, code, stderr)
}

// The child has the terminal, and Ctrl-C is for it.
func TestRunInTmux(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := newPane(t, "120", "24", strings.Join(append([]string{binary}, runAt(s, []string{"job"}, []string{"cat"})...), " "))
	redistest.Until(t, "the lock", func() bool { return !free(t, s, "job") })
	p.press("hello", "Enter")
	p.shows("hello\nhello")
	p.press("C-c")
	p.shows("code=130.")
	assert.True(t, free(t, s, "job"))

	p = newPane(t, "120", "24", strings.Join(append([]string{quick}, at(s, "sem", "set", "pool", "1")...), " ")+"; "+
		strings.Join(append([]string{quick}, at(s, "sem", "delete", "pool")...), " "))
	p.shows("Remove the semaphore pool? [y/N]")
	p.press("n", "Enter")
	p.shows("latchkey: nothing was done")
	p.shows("code=1.")
	assert.False(t, free(t, s, "pool"))
}

// Nobody has to wait for a Redis that does not answer.
func TestLookInterrupted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Freeze()
	defer s.Thaw()
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"top"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			proxy := redistest.NewProxy(t, s.Addr)
			c := prepare(t, append([]string{"-u", "redis://" + proxy.Addr()}, args...)...).start()
			redistest.Until(t, "its greeting", func() bool { return proxy.Commands("hello") > 0 })
			start := time.Now()
			c.signal(syscall.SIGINT)
			assert.Equal(t, exit.Signal+2, c.code())
			assert.Less(t, time.Since(start), 2*time.Second)
			assert.Empty(t, c.err.String())
		})
	}
}

// On a terminal run says after a second what it waits for, and takes that away again.
func TestRunSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h, err := rlock.New(newClient(t, s.Client(t)), "job").Lock(t.Context(), latchkey.Label("ann"))
	require.NoError(t, err)
	p := newPane(t, "160", "24", strings.Join(append([]string{binary}, runAt(s, []string{"job"}, []string{"echo", "mine"})...), " "))
	p.shows(`latchkey: waiting for the lock "job": held by ann (`)
	// Its client reports after 4 s and after 8 s.
	later := regexp.MustCompile(`held by ann \(\S+\) for [567]`)
	redistest.Until(t, "the line to be written over", func() bool { return later.MatchString(p.do("capture-pane", "-p")) })
	require.NoError(t, h.Unlock(t.Context()))
	p.shows("mine")
	p.shows("code=0.")
	assert.NotContains(t, p.do("capture-pane", "-p"), "waiting for")
}
