package demo

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/runner"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
)

// The detector must see an overlap, or no violations means nothing.
func TestSectionSeesOverlap(t *testing.T) {
	st := new(stage.Stage)
	s := newSection(st)
	for range 3 {
		s.leave(s.enter())
	}
	s.settle()
	assert.Zero(t, st.Violations.Load())

	a := s.enter()
	b := s.enter()
	assert.EqualValues(t, 1, st.Violations.Load(), "b has met a")
	s.leave(a)
	s.leave(b)
	s.settle()
	assert.EqualValues(t, 2, st.Violations.Load(), "and has undone its count")

	s.enter()
	s.count.Store(s.turns.Load())
	s.settle()
	assert.EqualValues(t, 3, st.Violations.Load(), "somebody is inside still")
}

func TestVerdict(t *testing.T) {
	fine := &stage.Result{Name: "a"}
	bad := &stage.Result{Name: "b", Violations: 2}
	failed := &stage.Result{Name: "c", Err: errors.New("no")}
	for _, c := range []struct {
		results     []*stage.Result
		left        []string
		interrupted error
		code        int
	}{
		{results: []*stage.Result{fine}, code: 0},
		{results: []*stage.Result{fine, bad}, code: exit.Failed},
		{results: []*stage.Result{failed}, code: exit.Failed},
		{results: []*stage.Result{fine}, left: []string{"k"}, code: exit.Failed},
		{results: []*stage.Result{fine}, interrupted: runner.EndedBy(syscall.SIGINT), code: 130},
		{results: []*stage.Result{bad}, interrupted: runner.EndedBy(syscall.SIGINT), code: exit.Failed},
	} {
		var out bytes.Buffer
		assert.Equal(t, c.code, exit.Code(verdict(&out, c.results, c.left, nil, c.interrupted)))
		require.Contains(t, out.String(), "violations ")
	}
}
