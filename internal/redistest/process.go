package redistest

import (
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// busOffset is the difference between the port of a Redis node for clients and
// its port of the cluster bus.
const busOffset = 10000

// Ports are drawn from [portBase, portBase+portCount), and the bus ports from
// the range right above. Both are below the ephemeral range of the usual
// systems, so no outgoing connection can sit on a port that is about to be
// bound, or bound again by [Server.Restart].
const (
	portBase  = 10240
	portCount = busOffset
)

// LeakOptions returns options for goleak.VerifyTestMain in a package whose
// tests start servers. They ignore the one goroutine that lives as long as the
// process, because the kernel ties the servers to its thread, and the
// goroutines of go-redis that dial a dead server and notice only after a second
// that their pool is closed. Everything else that this package starts has ended
// when the tests end.
func LeakOptions() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/latchkey-go/latchkey/internal/redistest.startProcesses"),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
	}
}

type startRequest struct {
	cmd *exec.Cmd
	err chan error
}

var (
	startOnce     sync.Once
	startRequests = make(chan startRequest)
)

// startProcesses starts all children of this process on one thread, which it
// keeps for good. On Linux the parent-death signal is sent when the thread that
// forked ends, not the process, and the Go runtime ends threads at any time.
func startProcesses() {
	runtime.LockOSThread()
	for r := range startRequests {
		r.err <- r.cmd.Start()
	}
}

// process is one run of redis-server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been reaped
}

// startProcess runs redis-server with its output appended to log.
func startProcess(path, dir, log string, args []string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = childAttr()

	startOnce.Do(func() { go startProcesses() })
	r := startRequest{cmd, make(chan error, 1)}
	startRequests <- r
	if err := <-r.err; err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // we killed it, or its log tells why it ended
	}()
	return p, nil
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill kills the process and waits for its end.
func (p *process) kill() {
	_ = resume(p.cmd.Process)
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ports are the ports in use by the servers of this process. A killed server
// keeps its port, because it may be restarted.
var ports = struct {
	sync.Mutex
	taken map[int]bool
}{taken: map[int]bool{}}

// takePort returns a random port that is free together with its bus port.
// Another process may still take it before the server does; the caller then
// tries again.
func takePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 200 {
		port := portBase + rand.IntN(portCount)
		if !ports.taken[port] && bindable(port) && bindable(port+busOffset) {
			ports.taken[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port in %d..%d", portBase, portBase+portCount-1)
}

func returnPort(port int) {
	ports.Lock()
	defer ports.Unlock()
	delete(ports.taken, port)
}

func bindable(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Find returns the path of redis-server: $REDIS_SERVER if set, otherwise the
// one in $PATH.
func Find() (string, bool) {
	name := os.Getenv("REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	return lookPath(name)
}

// LoadsLibraries reports whether the program at path loads libraries, so that
// another can be loaded before them. A statically linked program does not.
func LoadsLibraries(path string) bool {
	program, err := elf.Open(path)
	if err != nil {
		return true // a script, not an ELF file
	}
	defer func() { _ = program.Close() }()
	return slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// FindWaitAOF returns the path of a server with WAITAOF: that of [Find] if it
// has it, otherwise the valkey-server in $PATH.
func FindWaitAOF() (string, bool) {
	if path, ok := Find(); ok && since(path, 7, 2) {
		return path, true
	}
	return lookPath("valkey-server")
}

// Since reports whether the server of [Find] has the features of that Redis
// version. Valkey began as Redis 7.2, and its versions at 8.
func Since(major, minor int) bool {
	path, ok := Find()
	return ok && since(path, major, minor)
}

var versions sync.Map // path of a server -> [2]int

func since(path string, major, minor int) bool {
	known, ok := versions.Load(path)
	if !ok {
		out, _ := exec.Command(path, "--version").Output()
		_, text, _ := strings.Cut(string(out), " v=")
		var v [2]int
		_, _ = fmt.Sscanf(text, "%d.%d", &v[0], &v[1])
		known = v
		versions.Store(path, v)
	}
	v := known.([2]int)
	return v[0] > major || v[0] == major && v[1] >= minor
}

// Sharded reports whether the server of [Find] has sharded pub/sub.
func Sharded() bool { return Since(7, 0) }

func lookPath(name string) (string, bool) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", false
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", false
	}
	return path, true
}

// need returns the path of redis-server, or ends the test: it skips the test on
// a developer's machine, and fails it where a skipped test would go unnoticed.
func need(t testing.TB) string {
	t.Helper()
	path, ok := Find()
	if ok {
		return path
	}
	Missing(t, "redis-server not found: install it, or set REDIS_SERVER to its path")
	return ""
}

// Missing ends a test that needs a program this machine does not have: skipped,
// or failed if $CI is set or $REQUIRE_REDIS is 1.
func Missing(t testing.TB, text string) {
	t.Helper()
	if os.Getenv("CI") != "" || os.Getenv("REQUIRE_REDIS") == "1" {
		t.Fatal(text)
	}
	t.Skip(text)
}

// Until polls cond and returns when it holds. It fails the test after ten
// seconds. Do not use it inside a [Bubble], where time advances only while
// everything is idle: call synctest.Wait there.
func Until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !poll(10*time.Second, cond) {
		t.Fatalf("redistest: still waiting for %s after 10s", what)
	}
}

func poll(limit time.Duration, cond func() bool) bool {
	for end := time.Now().Add(limit); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
