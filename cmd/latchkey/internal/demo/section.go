package demo

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
)

// A section may have one worker inside at a time. A worker that enters while
// another is inside finds the marker of that worker. Each worker also reads a
// count on entering and writes it on leaving, which shows turns that another
// worker has undone.
type section struct {
	st     *stage.Stage
	inside atomic.Pointer[visit]
	count  atomic.Int64 // only loaded and stored
	turns  atomic.Int64
}

// A visit is one stay in a section.
type visit struct{ count int64 }

// newSection returns an empty section.
func newSection(st *stage.Stage) *section { return &section{st: st} }

// enter marks the section and returns what leave needs.
func (s *section) enter() *visit {
	v := &visit{count: s.count.Load()}
	s.st.Violated(s.inside.CompareAndSwap(nil, v))
	return v
}

// leave removes the marker.
func (s *section) leave(v *visit) {
	s.count.Store(v.count + 1)
	s.turns.Add(1)
	// A worker that entered during another's visit has no marker to remove.
	s.inside.CompareAndSwap(v, nil)
}

// work is the work in a section.
func (s *section) work() { work(s.turns.Load()) }

// work sometimes takes long enough for an intruder to be noticed.
func work(turn int64) {
	if turn%16 == 0 {
		time.Sleep(time.Millisecond)
	}
	runtime.Gosched()
}

// settle counts the turns whose count was overwritten. It is called when the
// section is empty.
func (s *section) settle() {
	s.st.Violated(s.inside.Load() == nil)
	if lost := s.turns.Load() - s.count.Load(); lost > 0 {
		s.st.Violations.Add(uint64(lost))
	}
}
