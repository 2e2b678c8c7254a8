package interop

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// patience is how long an answer may take that is not asked to wait.
const patience = 20 * time.Second

// A jvm is a process that runs java/, with one release of Redisson.
type jvm struct {
	cmd    *exec.Cmd
	stderr tail

	mu     sync.Mutex
	stdin  io.WriteCloser
	last   int
	calls  map[int]*call // without an answer yet
	closed bool          // stdout has ended
	done   chan struct{} // closed then
}

// startJVM runs a JVM until the test ends, or until it is killed.
func startJVM(t *testing.T, v version) *jvm {
	t.Helper()
	j := &jvm{calls: map[int]*call{}, done: make(chan struct{})}
	j.cmd = exec.Command("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath(t, v), "latchkey.interop.Main")
	j.cmd.Stderr = &j.stderr
	var err error
	j.stdin, err = j.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := j.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, j.cmd.Start())
	go j.read(stdout)
	t.Cleanup(func() {
		_ = j.stdin.Close() // it ends then, without a word to Redis
		timer := time.AfterFunc(patience, func() { _ = j.cmd.Process.Kill() })
		defer timer.Stop()
		<-j.done
		_ = j.cmd.Wait()
		if t.Failed() {
			t.Logf("the JVM's stderr ends with:\n%s", j.stderr.String())
		}
	})
	return j
}

// kill ends the process like a power cut, and waits until it is gone.
func (j *jvm) kill() {
	_ = j.cmd.Process.Kill()
	<-j.done
}

// read hands the answers to those who wait for them.
func (j *jvm) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		number, answer, _ := strings.Cut(lines.Text(), " ")
		id, err := strconv.Atoi(number)
		j.mu.Lock()
		c := j.calls[id]
		delete(j.calls, id)
		j.mu.Unlock()
		if err != nil || c == nil {
			fmt.Fprintf(&j.stderr, "not an answer: %s\n", lines.Text())
			continue
		}
		if value, ok := strings.CutPrefix(answer, "ok "); ok {
			c.end(value, nil)
		} else {
			c.end("", javaError(strings.TrimPrefix(answer, "error ")))
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for _, c := range j.calls {
		c.end("", errGone)
	}
	close(j.done)
}

// javaError is what Java threw: the class without its package, and the message.
type javaError string

func (e javaError) Error() string { return "java: " + string(e) }

const errGone = javaError("the JVM is gone")

// A call is a command to a JVM under way.
type call struct {
	what  string
	done  chan struct{} // closed with the answer
	at    time.Time     // when it came
	value string
	err   error
}

func (c *call) end(value string, err error) {
	c.at, c.value, c.err = time.Now(), value, err
	close(c.done)
}

// wait returns the answer, which must come within d and be no error.
func (c *call) wait(t *testing.T, d time.Duration) string {
	t.Helper()
	value, err := c.result(t, d)
	require.NoError(t, err, c.what)
	return value
}

// result returns the answer, which must come within d.
func (c *call) result(t *testing.T, d time.Duration) (string, error) {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(d):
		require.Fail(t, "no answer of Java", "%s, for %v", c.what, d)
	}
	return c.value, c.err
}

// pending fails the test when the answer has come.
func (c *call) pending(t *testing.T) {
	t.Helper()
	select {
	case <-c.done:
		require.Fail(t, "Java should be waiting", "%s: %q, %v", c.what, c.value, c.err)
	default:
	}
}

func (j *jvm) start(thread, client, operation string, args ...any) *call {
	words := fmt.Sprintln(append([]any{thread, client, operation}, args...)...)
	c := &call{what: strings.TrimSpace(words), done: make(chan struct{})}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		c.end("", errGone)
		return c
	}
	j.last++
	j.calls[j.last] = c
	if _, err := fmt.Fprintf(j.stdin, "%d %s", j.last, words); err != nil {
		delete(j.calls, j.last)
		c.end("", err)
	}
	return c
}

var numbers atomic.Int64 // of clients and threads, which each have a name of their own

// A redisson is a Redisson client in a JVM.
type redisson struct {
	jvm  *jvm
	name string
	id   string // its uuid
}

// open makes a Redisson client; see Client.java for the options.
func (j *jvm) open(t *testing.T, options ...string) *redisson {
	t.Helper()
	c := &redisson{jvm: j, name: fmt.Sprintf("client%d", numbers.Add(1))}
	args := make([]any, len(options))
	for i, o := range options {
		args[i] = o
	}
	j.start("main", c.name, "open", args...).wait(t, patience)
	c.id = j.start("main", c.name, "id").wait(t, patience)
	return c
}

// A thread is a Java thread that uses a Redisson client: a holder of locks.
type thread struct {
	client *redisson
	name   string
}

func (c *redisson) thread() *thread {
	return &thread{c, fmt.Sprintf("thread%d", numbers.Add(1))}
}

// start runs an operation, which is in Locks.java or Synchronizers.java, behind
// what the thread is doing.
func (th *thread) start(operation string, args ...any) *call {
	return th.client.jvm.start(th.name, th.client.name, operation, args...)
}

// do runs an operation that does not have to wait, and returns its value.
func (th *thread) do(t *testing.T, operation string, args ...any) string {
	t.Helper()
	return th.start(operation, args...).wait(t, patience)
}

// number is do for an operation that returns a number.
func (th *thread) number(t *testing.T, operation string, args ...any) int64 {
	t.Helper()
	n, err := strconv.ParseInt(th.do(t, operation, args...), 10, 64)
	require.NoError(t, err)
	return n
}

// yes is do for an operation that returns a boolean.
func (th *thread) yes(t *testing.T, operation string, args ...any) bool {
	t.Helper()
	b, err := strconv.ParseBool(th.do(t, operation, args...))
	require.NoError(t, err)
	return b
}

// fails runs an operation that throws an exception with that text in it.
func (th *thread) fails(t *testing.T, text, operation string, args ...any) {
	t.Helper()
	_, err := th.start(operation, args...).result(t, patience)
	require.ErrorContains(t, err, text, operation)
}

// asleep waits until the thread waits for what somebody else has, and would hear of
// it. Redis has answered it before, and a message meanwhile would have passed it by.
func (th *thread) asleep(t *testing.T) {
	t.Helper()
	redistest.Until(t, th.name+" to sleep", func() bool {
		return th.client.jvm.start("main", th.client.name, "asleep", th.name).wait(t, patience) == "true"
	})
}

// holder returns how Redis shows the thread.
func (th *thread) holder(t *testing.T) string {
	t.Helper()
	return th.client.id + ":" + th.do(t, "thread")
}

// tail is a writer that keeps the last 32 kilobytes.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p...)
	w.b = w.b[max(0, len(w.b)-32000):]
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}
