// Package redistest runs Redis for the tests of this module: real servers and
// clusters that can be killed and frozen, a proxy that loses chosen replies,
// and a bubble of fake time around an in-memory server.
//
// Only _test.go files import it.
package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server process of its own that listens on the loopback
// interface. Its methods are safe for concurrent use.
type Server struct {
	Addr string // host:port, the same over restarts
	Dir  string // working directory, removed at the end of the test

	path string
	port int
	head []string // arguments before the defaults
	args []string // arguments after the defaults

	mu      sync.Mutex
	proc    *process
	ctl     *wire     // for the harness's own commands; nil until needed
	own     *sync.Map // addresses of ctl in this run
	counter *Monitor  // behind Commands; nil until needed
	counted int64     // by the counters of earlier runs
	also    []string  // rights of the library's users, set by Allow
	frozen  bool
	denies  bool // the test denies something to the library
}

// Start runs redis-server on a free port and returns when it answers. It has no
// persistence and no password. args are appended to its command line, as in
// Start(t, "--appendonly", "yes"), and override the defaults. The server is
// killed at the end of the test, and on Linux also when the test process dies.
//
// Without redis-server the test is skipped, or fails if $CI is set or
// $REQUIRE_REDIS is 1.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, need(t), nil, args)
}

// StartProgram is Start for another server than that of [Find].
func StartProgram(t testing.TB, path string, args ...string) *Server {
	t.Helper()
	return start(t, path, nil, args)
}

// start is StartProgram with arguments that precede all others.
func start(t testing.TB, path string, head, args []string) *Server {
	t.Helper()
	s, err := try(t, path, head, args)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return s
}

// try is start, except that it returns why the server does not run.
func try(t testing.TB, path string, head, args []string) (*Server, error) {
	t.Helper()
	s := &Server{path: path, Dir: t.TempDir(), head: head, args: args}
	t.Cleanup(s.Kill)
	t.Cleanup(func() { s.checkDenied(t) })
	for range 20 {
		port, err := takePort()
		if err != nil {
			return nil, err
		}
		s.port, s.Addr = port, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		retry, err := s.launch(nil)
		if err == nil {
			t.Cleanup(func() { returnPort(port) })
			return s, nil
		}
		returnPort(port)
		if !retry {
			return nil, err
		}
	}
	return nil, errors.New("redis-server lost the race for its port 20 times")
}

// launch starts the process and waits until it answers. With an error, retry
// reports whether the port was taken.
func (s *Server) launch(extra []string) (retry bool, err error) {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--protected-mode", "no",
		"--daemonize", "no", "--dir", s.Dir, "--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0", // otherwise a replica waits for five seconds
	}
	users, err := s.userArgs()
	if err != nil {
		return false, err
	}
	args = slices.Concat(s.head, args, users, s.args, extra)
	log := filepath.Join(s.Dir, "redis.log")
	before := len(s.Log())
	p, err := startProcess(s.path, s.Dir, log, args)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.proc, s.own, s.frozen = p, &sync.Map{}, false
	s.mu.Unlock()
	up := poll(10*time.Second, func() bool { return p.exited() || s.answers(p) })
	if up && !p.exited() {
		return false, nil
	}
	p.kill()
	text := s.Log()[before:]
	return strings.Contains(text, "Address already in use"), fmt.Errorf("redis-server did not start:\n%s", text)
}

// answers reports whether the process on the port is this one, and not another
// that was faster to bind it.
func (s *Server) answers(p *process) bool {
	w, err := dialWire(s.Addr)
	if err != nil {
		return false
	}
	defer w.Close()
	info, err := w.do("INFO", "server")
	if err != nil || infoField(info[0], "process_id") != strconv.Itoa(p.cmd.Process.Pid) {
		return false
	}
	_, err = w.do("PING")
	return err == nil
}

// Log returns the log of the server, over all its runs.
func (s *Server) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "redis.log"))
	return string(b)
}

// Client returns a new client of the server with go-redis's default options,
// changed by opts. It is closed at the end of the test.
func (s *Server) Client(t testing.TB, opts ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: s.Addr, ContextTimeoutEnabled: Inline()}
	for _, f := range opts {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Do runs a command on a connection of its own, which [Server.Commands] and
// [Monitor] leave out, and returns the scalars of the reply, depth first. An
// error reply fails the test.
func (s *Server) Do(t testing.TB, args ...string) []string {
	t.Helper()
	reply, err := s.do(args...)
	if err != nil {
		t.Fatalf("redistest: %s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// Ask is Do, except that it returns the error. An error that is not an error
// reply means that the connection was lost; the next call makes another.
func (s *Server) Ask(args ...string) ([]string, error) { return s.do(args...) }

func (s *Server) do(args ...string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctl == nil {
		w, err := dialWire(s.Addr)
		if err != nil {
			return nil, err
		}
		s.ctl = w
		s.own.Store(w.LocalAddr().String(), true)
	}
	reply, err := s.ctl.do(args...)
	var refused errReply
	if err != nil && !errors.As(err, &refused) { // the connection is out of step from here on
		_ = s.ctl.Close()
		s.ctl = nil
	}
	return reply, err
}

// Pid returns the process id of the running server, or of the last one.
func (s *Server) Pid() int { return s.process().cmd.Process.Pid }

func (s *Server) portText() string { return strconv.Itoa(s.port) }

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Kill ends the server like a power cut and waits until it is gone. Its port
// stays reserved for [Server.Restart]. A dead or frozen server may be killed
// too.
func (s *Server) Kill() {
	s.mu.Lock()
	p, ctl, counter := s.proc, s.ctl, s.counter
	s.ctl, s.counter = nil, nil
	s.mu.Unlock()
	if counter != nil {
		counter.Stop()
		s.mu.Lock()
		s.counted += counter.count()
		s.mu.Unlock()
	}
	if ctl != nil {
		_ = ctl.Close()
	}
	if p != nil {
		p.kill()
	}
}

// Restart starts the server again on the same port, with the same arguments and
// args appended. It kills the server first if it is alive. The server comes
// back empty, scripts included, unless it has persistence.
func (s *Server) Restart(t testing.TB, args ...string) {
	t.Helper()
	s.Kill()
	var retry bool
	var err error
	poll(10*time.Second, func() bool {
		retry, err = s.launch(args)
		return !retry
	})
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// Freeze suspends the server, like a long fork or a paused virtual machine.
// Connections stay open, and the kernel accepts new ones, but nothing is
// answered. Time passes: a key whose TTL ends meanwhile is gone when the server
// continues.
func (s *Server) Freeze() {
	s.setFrozen(true)
	if err := suspend(s.process().cmd.Process); err != nil {
		panic(fmt.Sprintf("redistest: freeze: %v", err))
	}
}

// Thaw resumes a frozen server. It then runs the commands that it received
// meanwhile, even those whose senders have given up.
func (s *Server) Thaw() {
	s.setFrozen(false)
	if err := resume(s.process().cmd.Process); err != nil {
		panic(fmt.Sprintf("redistest: thaw: %v", err))
	}
}

func (s *Server) setFrozen(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = on
}

// StartReplica runs a replica of another server, with the same program, and
// returns when it has synchronized. Its clients may only read. args are as for
// Start.
func StartReplica(t testing.TB, of *Server, args ...string) *Server {
	t.Helper()
	s := StartProgram(t, of.path, append([]string{"--replicaof", "127.0.0.1", of.portText()}, args...)...)
	waitSynced(t, s)
	return s
}

// FlushAll empties the server, its script cache included.
func (s *Server) FlushAll(t testing.TB) {
	t.Helper()
	s.Do(t, "FLUSHALL")
	s.Do(t, "SCRIPT", "FLUSH")
}

// infoField returns the value of one line of an INFO text, or "" if there is
// none.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
