package campaign

import (
	"sync"

	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/chaos/workload"
)

// A store is what fenced locks protect: it refuses a token that is less than one it
// has seen.
type store struct {
	mu       sync.Mutex
	highest  map[string]int64
	accepted []workload.Write // in order
	offered  int
	refused  int
}

func (s *store) offer(w workload.Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered++
	if s.highest == nil {
		s.highest = map[string]int64{}
	}
	if w.Token < s.highest[w.Key] {
		s.refused++
		return
	}
	s.highest[w.Key] = w.Token
	s.accepted = append(s.accepted, w)
}

// stale returns how many writes the store has accepted of holders who had been
// granted the lock before another asked for it who has written already. The history
// tells who was granted when; the tokens have no say in it.
func (s *store) stale(entries []history.Entry) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := map[workload.Write]*history.Entry{}
	for i := range entries {
		if e := &entries[i]; e.Token != 0 {
			granted[workload.Write{Key: e.Key, Token: e.Token}] = e
		}
	}
	latest := map[string]int64{} // when the last one to write asked for the lock
	stale := 0
	for _, w := range s.accepted {
		e := granted[w]
		if e == nil {
			continue // the caller died before it could tell
		}
		if latest[w.Key] > e.Return {
			stale++
		}
		latest[w.Key] = max(latest[w.Key], e.Call)
	}
	return stale
}
