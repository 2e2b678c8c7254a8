package sim

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

var (
	seedFlag    = flag.Uint64("sim.seed", 0, "run only this seed, as a failure says it")
	workersFlag = flag.Int("sim.workers", 700, "workers; fewer make a failure easier to read")
	clientsFlag = flag.Int("sim.clients", 8, "clients that they share")
	hoursFlag   = flag.Float64("sim.hours", 0.5, "hours of fake time")
	faultsFlag  = flag.Int("sim.faults", -1, "only the first so many faults; -1: all")
	kindsFlag   = flag.String("sim.kinds", "", "only objects of these kinds, with commas; all if empty")
)

// seeds returns the seeds to run: LATCHKEY_SIM_SEEDS of them (default 2),
// starting with LATCHKEY_SIM_FROM (default 2). With every third seed the server
// loses its data.
func seeds(t *testing.T) (list []uint64) {
	t.Helper()
	if *seedFlag > 0 {
		return []uint64{*seedFlag}
	}
	n, from := 2, 2
	for name, v := range map[string]*int{"LATCHKEY_SIM_SEEDS": &n, "LATCHKEY_SIM_FROM": &from} {
		if text := os.Getenv(name); text != "" {
			var err error
			*v, err = strconv.Atoi(text)
			require.NoError(t, err, name)
		}
	}
	for i := range n {
		list = append(list, uint64(from+i)) //nolint:gosec // small
	}
	return list
}

// All promises hold during hours in which everything happens at once.
func TestSimulation(t *testing.T) {
	redistest.Long(t, "half an hour of everything at once")
	for _, seed := range seeds(t) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			start := time.Now()
			var w *world
			redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
				w = newWorld(t, env, seed)
				w.run()
			})
			l := w.ledger
			t.Logf("%v of fake time in %v: %d grants, %d refused or given up, %d lost, %d errors, faults %v",
				w.length, time.Since(start).Round(time.Millisecond), l.grants, l.refused, l.lost, l.errors, w.faults.done)
			for _, v := range l.violations {
				t.Error(v)
			}
			if t.Failed() {
				t.Logf("again: go test ./tests/sim -run TestSimulation -sim.seed=%d%s", seed, changed())
				return
			}
			// What has not happened shows nothing.
			require.Greater(t, l.grants, *workersFlag/4)
			if *faultsFlag < 0 {
				require.Positive(t, l.errors+l.lost, "no fault has had any effect")
				require.GreaterOrEqual(t, len(w.faults.done), 3, "%v", w.faults.done)
			}
		})
	}
}

// changed returns the flags for running a failure again.
func changed() (text string) {
	flag.Visit(func(f *flag.Flag) {
		if len(f.Name) > 4 && f.Name[:4] == "sim." && f.Name != "sim.seed" {
			text += fmt.Sprintf(" -%s=%v", f.Name, f.Value)
		}
	})
	return text
}
