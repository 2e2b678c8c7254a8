package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// raceFlags are those of the command under test, where it does much at once.
var raceFlags []string

// binary is the command, built once for all tests; quick is the same, without
// the race detector, which takes its time to start.
var binary, quick string

// busy are the commands that do much at once.
var busy = []string{"run", "demo", "bench", "top"}

// atOnce is how many tests run at a time: most of what they do is to wait for
// processes that do nothing but wait.
const atOnce = 8

func TestMain(m *testing.M) {
	if config := os.Getenv(knotConfig); config != "" {
		os.Exit(knotMain(config))
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(strconv.Itoa(atOnce))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	// Of a test in the background (go test &), children would inherit that these
	// are ignored; what is caught is not inherited.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	dir, err := os.MkdirTemp("", "latchkey-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	quick = filepath.Join(dir, "latchkey.exe")
	binary = quick
	if !build(quick) {
		return 1
	}
	if len(raceFlags) > 0 {
		if binary = filepath.Join(dir, "latchkey-race.exe"); !build(binary, raceFlags...) {
			return 1
		}
	}
	return m.Run()
}

// build builds the command, and says why if it cannot.
func build(path string, flags ...string) bool {
	cmd := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", path}, flags...), ".")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", cmd, err, out)
	}
	return err == nil
}

// output is what a process has written so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// A command is a run of the binary.
type command struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err output
	done     chan struct{}
}

// prepare makes a command that is not started yet, with an environment that
// says nothing of Redis.
func prepare(t testing.TB, args ...string) *command {
	t.Helper()
	path := quick
	if len(args) == 0 || slices.ContainsFunc(args, func(a string) bool { return slices.Contains(busy, a) }) {
		path = binary
	}
	c := &command{t: t, cmd: exec.Command(path, args...), done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "REDIS") && !strings.HasPrefix(e, "LATCHKEY_") {
			c.cmd.Env = append(c.cmd.Env, e)
		}
	}
	// A program with the race detector sleeps for a second at its end.
	c.cmd.Env = append(c.cmd.Env, "GORACE=atexit_sleep_ms=0")
	// What a child has left behind with our pipes is not waited for.
	c.cmd.WaitDelay = time.Second
	return c
}

func (c *command) start() *command {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Start())
	go func() {
		defer close(c.done)
		_ = c.cmd.Wait()
	}()
	c.t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
		if c.t.Failed() {
			c.t.Logf("%v\nstdout: %s\nstderr: %s", c.cmd.Args, &c.out, &c.err)
		}
	})
	return c
}

// code waits for the end, and returns the exit code, negative after a signal.
func (c *command) code() int {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		require.FailNow(c.t, "the command does not end", "%v\nstdout: %s\nstderr: %s", c.cmd.Args, &c.out, &c.err)
	}
	return c.cmd.ProcessState.ExitCode()
}

// says waits until the output has text.
func (c *command) says(text string) {
	c.t.Helper()
	redistest.Until(c.t, fmt.Sprintf("%q in the output", text), func() bool { return strings.Contains(c.out.String(), text) })
}

func (c *command) signal(sig syscall.Signal) {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(sig))
}

// execute runs the binary to its end.
func execute(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := prepare(t, args...).start()
	code = c.code()
	return code, c.out.String(), c.err.String()
}

// at returns the flags for a server, followed by args.
func at(s *redistest.Server, args ...string) []string {
	return append([]string{"-u", "redis://" + s.Addr}, args...)
}
