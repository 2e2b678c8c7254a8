package redistest

import (
	"testing"
	"time"
)

// Longest returns the longest time that one command kept the server busy while
// f ran, or 0 if that was less than a millisecond. A script is one command.
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

// Bounded fails the test if, in each of five runs of f, one command keeps the
// server busy for longer than a script of 20,000 commands does, which is about
// 10 ms. That script runs ten times around each run of f, so that it is slowed
// down by other work on the machine too. prepare is called before each run of f
// and does not count. With -short, f runs once, however long it takes.
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
