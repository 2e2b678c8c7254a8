package redistest

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// CommandStats returns how often each command was called, from INFO
// commandstats, with lower-case names ("config|get" for a subcommand). Calls by
// scripts are included, so only for commands that scripts cannot call, such as
// evalsha, is it the number that clients sent. An EVALSHA that fails with
// NOSCRIPT counts.
func (s *Server) CommandStats(t testing.TB) map[string]int64 {
	t.Helper()
	stats := map[string]int64{}
	for line := range strings.Lines(s.Do(t, "INFO", "commandstats")[0]) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		n, _, _ := strings.Cut(rest, ",")
		stats[name], _ = strconv.ParseInt(n, 10, 64)
	}
	return stats
}

// Commands returns the number of commands that clients have sent since the
// first call of Commands, which returns 0. It is exact, because it uses a
// [Monitor]. It excludes commands that scripts call, connection set-up (HELLO,
// CLIENT, AUTH, SELECT), and the commands of this package. MONITOR does not
// show administrative commands, such as CONFIG, so they do not count either.
// Each command of a pipeline or transaction counts. The count continues after a
// restart, but may lack the commands of the last moment before the kill.
func (s *Server) Commands(t testing.TB) int64 {
	t.Helper()
	s.mu.Lock()
	m, before := s.counter, s.counted
	s.mu.Unlock()
	if m == nil {
		m = s.Monitor(t)
		s.mu.Lock()
		s.counter = m
		s.mu.Unlock()
	}
	m.sync(t)
	return before + m.count()
}

// lastMark numbers the marks by which monitors determine how far they are.
var lastMark atomic.Int64

// Monitor records all commands a server executes.
type Monitor struct {
	s    *Server
	t    testing.TB
	w    *wire
	own  *sync.Map // addresses of the harness
	done chan struct{}

	mu    sync.Mutex
	lines []Line
	marks map[string]bool // sync marks seen
}

// Line is one command seen by a [Monitor].
type Line struct {
	Source string // address of the client, or "lua"
	DB     int
	Args   []string
}

// Script reports whether a script, not a client, called the command.
func (l Line) Script() bool { return l.Source == "lua" }

// Name returns the name of the command in lower case.
func (l Line) Name() string { return strings.ToLower(l.Args[0]) }

// String returns the words of the command, prefixed by "lua:" if a script
// called it.
func (l Line) String() string {
	text := strings.Join(l.Args, " ")
	if l.Script() {
		return "lua: " + text
	}
	return text
}

// Monitor starts to record the server's commands. It stops at the end of the
// test, or when the server is killed. A recording slows the server down.
func (s *Server) Monitor(t testing.TB) *Monitor {
	t.Helper()
	w, err := dialWire(s.Addr)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if _, err := w.do("MONITOR"); err != nil {
		t.Fatalf("redistest: MONITOR: %v", err)
	}
	s.mu.Lock()
	own := s.own
	s.mu.Unlock()
	m := &Monitor{s: s, t: t, w: w, own: own, done: make(chan struct{}), marks: map[string]bool{}}
	go m.read()
	t.Cleanup(m.Stop)
	return m
}

// Lines returns all commands executed so far, sent by clients or called by
// scripts, except connection set-up and the commands of this package.
func (m *Monitor) Lines() []Line {
	m.t.Helper()
	m.sync(m.t)
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Line(nil), m.lines...)
}

// Count returns how often clients have sent a command. Calls by scripts do not
// count.
func (m *Monitor) Count(name string) int {
	m.t.Helper()
	n := 0
	for _, l := range m.Lines() {
		if !l.Script() && strings.EqualFold(l.Args[0], name) {
			n++
		}
	}
	return n
}

// Stop ends the recording. What was recorded stays readable.
func (m *Monitor) Stop() {
	_ = m.w.Close()
	<-m.done
}

// count returns the number of recorded commands that clients have sent.
func (m *Monitor) count() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var n int64
	for _, l := range m.lines {
		if !l.Script() {
			n++
		}
	}
	return n
}

// sync waits until everything executed so far is recorded. It returns at once
// if the recording has ended.
func (m *Monitor) sync(t testing.TB) {
	t.Helper()
	select {
	case <-m.done:
		return
	default:
	}
	mark := "redistest-mark-" + strconv.FormatInt(lastMark.Add(1), 10)
	if _, err := m.s.do("ECHO", mark); err != nil {
		t.Errorf("redistest: monitor: %v", err)
		return
	}
	Until(t, "the monitor to catch up", func() bool {
		select {
		case <-m.done:
			return true
		default:
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.marks[mark]
	})
}

func (m *Monitor) read() {
	defer close(m.done)
	_ = m.w.SetDeadline(time.Time{})
	for {
		msg, err := readMessage(m.w.r)
		if err != nil {
			return
		}
		l, ok := parseLine(msg.flat)
		if !ok || isSetup(l.Args[0]) {
			continue
		}
		_, own := m.own.Load(l.Source)
		m.mu.Lock()
		switch {
		case !own:
			m.lines = append(m.lines, l)
		case l.Name() == "echo" && len(l.Args) == 2:
			m.marks[l.Args[1]] = true
		}
		m.mu.Unlock()
	}
}

// parseLine parses what MONITOR says of one command, as in
//
//	1339518083.107412 [0 127.0.0.1:60866] "set" "key" "value"
//	1339518083.107412 [0 lua] "get" "key"
func parseLine(flat []string) (Line, bool) {
	if len(flat) != 1 {
		return Line{}, false
	}
	_, text, ok1 := strings.Cut(flat[0], " [")
	head, text, ok2 := strings.Cut(text, "] ")
	db, source, ok3 := strings.Cut(head, " ")
	n, err := strconv.Atoi(db)
	if !ok1 || !ok2 || !ok3 || err != nil {
		return Line{}, false
	}
	l := Line{Source: source, DB: n}
	for text != "" {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return Line{}, false
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return Line{}, false
		}
		l.Args = append(l.Args, word)
		text = strings.TrimPrefix(text[len(quoted):], " ")
	}
	return l, len(l.Args) > 0
}
