package demo

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
)

// A section is what one at a time may be in. Who comes while somebody is inside
// is seen by the marker that one has left; and a count that each reads at the
// beginning and writes at the end shows whose turn another has undone.
type section struct {
	st     *stage.Stage
	inside atomic.Pointer[visit]
	count  atomic.Int64 // only ever loaded and stored
	turns  atomic.Int64
}

// A visit is one stay in a section.
type visit struct{ count int64 }

// newSection returns a section where nobody has been.
func newSection(st *stage.Stage) *section { return &section{st: st} }

// enter marks the section, and returns what leave needs.
func (s *section) enter() *visit {
	v := &visit{count: s.count.Load()}
	s.st.Violated(s.inside.CompareAndSwap(nil, v))
	return v
}

// leave takes the marker away.
func (s *section) leave(v *visit) {
	s.count.Store(v.count + 1)
	s.turns.Add(1)
	// Who came in during another's stay has no marker to take away.
	s.inside.CompareAndSwap(v, nil)
}

// work is what goes on in a section.
func (s *section) work() { work(s.turns.Load()) }

// work takes its time now and then, long enough for an intruder to be met.
func work(turn int64) {
	if turn%16 == 0 {
		time.Sleep(time.Millisecond)
	}
	runtime.Gosched()
}

// settle counts the turns whose count was overwritten. Nobody is inside any more.
func (s *section) settle() {
	s.st.Violated(s.inside.Load() == nil)
	if lost := s.turns.Load() - s.count.Load(); lost > 0 {
		s.st.Violations.Add(uint64(lost))
	}
}
