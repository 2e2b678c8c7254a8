package redistest

import (
	"testing"
	"time"
)

// Longest returns for how long the server was busy with one command at most while f
// ran, 0 when that was less than a millisecond. A script is one command.
func (s *Server) Longest(t testing.TB, f func()) time.Duration {
	t.Helper()
	s.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "1000")
	s.Do(t, "CONFIG", "SET", "slowlog-max-len", "100000")
	s.Do(t, "SLOWLOG", "RESET")
	f()
	entries, err := s.Client(t).SlowLogGet(t.Context(), 100000).Result()
	if err != nil {
		t.Fatal(err)
	}
	longest := time.Duration(0)
	for _, e := range entries {
		longest = max(longest, e.Duration)
	}
	return longest
}

// Bounded fails the test when one command keeps the server busy for longer than a script of
// 20,000 commands does, some 10 ms, in each of five runs of f. That script runs ten times
// about each: a machine with other work makes some of its runs long, too. prepare comes
// before each run of f, and does not count. With -short f runs once, however long it takes.
func (s *Server) Bounded(t testing.TB, prepare, f func()) {
	t.Helper()
	if testing.Short() {
		prepare()
		f()
		return
	}
	rdb := s.Client(t)
	const commands = `for i = 1, 20000 do redis.call('EXISTS', KEYS[1]) end return 1`
	var limit, longest time.Duration
	script := func() {
		for range 5 {
			if err := rdb.Eval(t.Context(), commands, []string{"no key"}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 {
		prepare()
		before := s.Longest(t, script)
		longest = s.Longest(t, f)
		if limit = max(before, s.Longest(t, script)); longest <= limit {
			return
		}
	}
	t.Errorf("one command keeps Redis busy for %s, want %s at most", longest, limit)
}
