package model_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/chaos/model"
)

// TestFires: every kind of violation at a fire of a job is found, and its lawful
// neighbour is not taken for one. A fire has two attempts here.
func TestFires(t *testing.T) {
	do := history.Do
	done := func(e *h) { e.N = 1 }
	run := func(owner string, from, to int64) h { return call(acq, owner, from, from+1, until(to), n(2)) }
	dead := call(do, "", 0, 1, unknown)
	for _, c := range []struct {
		what   string
		right  bool
		losses []model.Loss
		calls  []h
	}{
		{"done once", true, nil, []h{run("a", 1, 5), call(rel, "a", 5, 6, done), call(do, "", 1, 6), call(do, "", 2, 3)}},
		{"done twice", false, nil, []h{run("a", 1, 5), call(rel, "a", 5, 6, done), run("b", 5, 8), call(rel, "b", 8, 9, done)}},
		{"done twice, by a loss", true, at(model.Loss{From: 6, To: 7}), []h{run("a", 1, 5), call(rel, "a", 5, 6, done), run("b", 7, 8), call(rel, "b", 8, 9, done)}},
		{"done twice, before a loss", false, at(model.Loss{From: 16, To: 17}), []h{run("a", 1, 5), call(rel, "a", 5, 6, done), run("b", 7, 8), call(rel, "b", 8, 9, done)}},
		{"done twice, by a small leap", false, at(model.Loss{From: 6, To: 7, Lease: 20, Step: time.Second}), []h{run("a", 1, 5), call(rel, "a", 5, 6, done), run("b", 7, 8), call(rel, "b", 8, 9, done)}},
		{"done twice, by a leap beyond what is kept", true, at(model.Loss{From: 6, To: 7, Lease: 20, Step: time.Hour}), []h{run("a", 1, 5), call(rel, "a", 5, 6, done), run("b", 7, 8), call(rel, "b", 8, 9, done)}},
		{"run after it was done", false, nil, []h{run("a", 1, 5), call(rel, "a", 5, 6, done), run("b", 7, 8), call(rel, "b", 8, 9)}},
		{"begun before it was done", true, nil, []h{run("a", 4, 5), call(rel, "a", 5, 7, done), call(acq, "b", 1, 3, until(3), n(2)), call(rel, "b", 3, 4)}},
		{"perhaps not noted", true, nil, []h{run("a", 1, 5), call(rel, "a", 5, 6, done, unanswered), run("b", 7, 8), call(rel, "b", 8, 9, done)}},
		{"tried twice", true, nil, []h{run("a", 1, 3), call(rel, "a", 3, 4), run("b", 5, 8), call(rel, "b", 8, 9), call(do, "", 1, 10)}},
		{"tried three times", false, nil, []h{run("a", 1, 3), call(rel, "a", 3, 4), run("b", 5, 8), call(rel, "b", 8, 9), run("c", 10, 12), call(rel, "c", 12, 13)}},
		{"tried once, and given up", false, nil, []h{run("a", 1, 3), call(rel, "a", 3, 4), call(do, "", 1, 10)}},
		{"tried once, and perhaps by one who is dead", true, nil, []h{run("a", 1, 3), call(rel, "a", 3, 4), call(do, "", 1, 10), dead}},
		{"tried once, and no end is known", true, nil, []h{run("a", 1, 3), call(rel, "a", 3, 4), call(do, "", 1, 10, refused)}},
		{"nobody has run it", false, nil, []h{call(do, "", 1, 10), call(do, "", 2, 4)}},
		{"perhaps one who is dead has run it", true, nil, []h{call(do, "", 1, 10), dead}},
		{"two at a time", false, nil, []h{run("a", 1, 5), run("b", 3, 6)}},
	} {
		t.Run(c.what, func(t *testing.T) {
			for i := range c.calls {
				e := &c.calls[i]
				e.Kind, e.Key, e.Worker, e.Party = "once", "k@1", i, i
			}
			v := model.Check(c.calls, c.losses, 10*time.Second, model.Leaving)
			require.Equal(t, c.right, len(v.Violations) == 0, "%v", v.Violations)
		})
	}
}
