package matrix

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	Child()
	redis.SetLogger(silent{}) // that servers are away is what this is about
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}

// Every cell of the plan has somebody who plays it, or says why not.
func TestPlan(t *testing.T) {
	cells := 0
	var ids []string
	for _, p := range plan {
		ids = append(ids, p.row)
		for _, c := range p.cells {
			if c != "" {
				cells++
			}
		}
	}
	require.Len(t, plan, 53)
	require.Equal(t, 467, cells)
	var played []string
	for _, w := range rows() {
		played = append(played, w.id)
		require.True(t, w.absent[0] != "" || w.fault != nil || w.play != nil, w.id)
	}
	slices.Sort(ids)
	slices.Sort(played)
	require.Equal(t, ids, played)
}

// A few rows; MATRIX=fast plays the short ones, MATRIX=all all of them.
func TestMatrix(t *testing.T) {
	if _, ok := redistest.Find(); !ok {
		redistest.Missing(t, "redis-server not found: install it, or set REDIS_SERVER to its path")
	}
	some := []string{"A4", "A9", "A12", "A14", "C1", "C9", "C10", "E2", "E7"}
	o := Options{AtOnce: 4}
	switch os.Getenv("MATRIX") {
	case "fast":
		o.Fast = true
	case "all":
	default:
		o.Match = func(row string) bool { return slices.Contains(some, row) }
	}
	o.Tell = func(_ string, cells []Cell) {
		for _, c := range cells {
			if c.Result == Wrong {
				t.Errorf("%s %s, %s: %s: %s", c.Row, c.Fault, c.Primitive, c.Seen, c.Why)
			}
		}
	}
	t.Log(Summarize(Play(t.Context(), o)))
}

// A row whose fault does not happen, and one that is not what it should be, are
// wrong.
func TestWrongIsSeen(t *testing.T) {
	if _, ok := redistest.Find(); !ok {
		redistest.Missing(t, "redis-server not found: install it, or set REDIS_SERVER to its path")
	}
	deletes := func(part string) func(r *rig, begun func()) {
		return func(r *rig, begun func()) {
			for _, key := range r.keys("*" + part) {
				r.do("DEL", key)
			}
			r.happened(1)
			begun()
			r.sleep(recheck + slow)
		}
	}
	for name, tt := range map[string]struct {
		row   row
		cells string
		says  string
	}{
		"no fault": {
			row{fault: func(_ *rig, begun func()) { begun() }, want: keeps}, "LS", "the fault did not happen",
		},
		"holds lost":    {row{fault: deletes("-held"), want: keeps}, "LX", "not k"},
		"holds kept":    {row{fault: func(r *rig, begun func()) { r.happened(1); begun() }, want: loses}, "LX", "not l"},
		"keys are left": {row{fault: litter, want: keeps}, "L", "left in Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.row
			w.id = "A1" // of which there is a plan
			w.absent = map[byte]string{}
			for i := range len(Columns) {
				if !strings.Contains(tt.cells, Columns[i:i+1]) {
					w.absent[Columns[i]] = "not here"
				}
			}
			for _, c := range w.run(t.Context(), nil) {
				if c.Result != NotPlayed {
					require.Equal(t, Wrong, c.Result, c.Primitive)
					require.Contains(t, c.Why, tt.says, c.Primitive)
				}
			}
		})
	}
}

// litter leaves a key behind that looks like a lock's.
func litter(r *rig, begun func()) {
	r.do("HSET", r.name('L', "ghost"), "somebody", 1)
	r.do("PEXPIRE", r.name('L', "ghost"), (10 * time.Second).Milliseconds())
	r.happened(1)
	begun()
}

// The table says of each cell what was seen.
func TestMarkdown(t *testing.T) {
	cells := []Cell{
		{Row: "A1", Primitive: "lock", Right: "d l:1*", Seen: "hold | lost", Result: OK, Proof: 3},
		{Row: "A1", Primitive: "latch", Right: "i:5", Result: NotPlayed, Why: "no time"},
		{Row: "A2", Primitive: "lock", Right: "k a:1,17", Seen: "lost", Result: Wrong, Why: "not k"},
	}
	require.Equal(t, "3 cells in 2 rows: 1 ok, 1 wrong, 1 not played", Summarize(cells).String())
	text := Markdown(cells)
	require.Contains(t, text, "| A1 | kill -9, restart empty | 3 | ✓ d l |")
	require.Contains(t, text, "○ i |")
	require.Contains(t, text, "| A2 lock | k a:1,17 | lost — wrong: not k |")
	require.Contains(t, text, `hold \| lost`)
	for line := range strings.Lines(text) {
		require.NotContains(t, line, "\t")
	}
}
