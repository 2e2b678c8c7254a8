// Package campaign lets clients work under faults, round after round, and checks each
// round before the next.
//
// A round has objects of its own and one fault. The clients work before it, during it
// and after it; then they stop, every object must be free within a bound, and all that
// was recorded is checked. A round in which too little succeeded, or in which the fault
// cannot be shown to have happened, fails.
package campaign

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/chaos/model"
	"github.com/latchkey-go/latchkey/chaos/nemesis"
	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/chaos/workload"
)

// A Config says what a campaign does.
type Config struct {
	Topology string
	Seed     uint64
	Faults   []nemesis.Fault // empty for all that the topology can have
	Kinds    []string
	Round    int // if not 0, this round only: to repeat what has failed

	// The campaign ends when it has made so many calls and every fault was done
	// once, or after this time. Zero is no bound; with neither, after every fault.
	Calls int
	Limit time.Duration

	Repeat int  // how often a round does its fault, where that makes sense
	Keys   bool // wait at the end until no key is left that will expire
	Log    func(format string, args ...any)
}

// A Result is what has come out of a campaign.
type Result struct {
	Topology string
	Seed     uint64
	Redis    string
	Took     time.Duration

	Rounds   int
	Children int // processes that worked
	// Unplanned is how many failovers there were that were not meant: a machine that
	// stalls has a primary taken for dead.
	Unplanned int
	Again     int // times that the limit for a recovery has begun again, for those
	Verdict   model.Verdict
	Faults    map[string]Tally
	Served    map[string]int // acquisitions by kind

	Offered, Refused, Stale int // writes to the fenced store; accepted although stale

	SlowestCancel   workload.Slow // from the end of a context to the return of the call
	Stall           time.Duration // of the machine itself
	SlowestRecovery time.Duration // from the end of a fault to an acquisition of each kind
	Recovering      string        // where that was

	KeysLeft   []string
	Goroutines int // more than before
	Failures   []string

	cfg Config
}

// A Tally is what is counted for each kind of fault.
type Tally struct {
	What                  string
	Times                 int
	Proof                 int64
	Before, During, After int // acquisitions
	Doubles               int // grants that a loss of data, or an early end of leases, allows
	Recovery              time.Duration
}

// What each kind of object must have served at least, before and after a fault, and
// all together during one that leaves some clients served.
const (
	atLeast       = 3
	atLeastDuring = 10
	patience      = 3 * time.Second  // for those
	recovery      = 25 * time.Second // for all kinds, after a fault
	mostAgain     = 3                // how often that begins again, see limit
	searchLimit   = 20 * time.Second // for one object
)

// New returns the result of a campaign that has not begun.
func New(cfg Config) *Result {
	return &Result{Topology: cfg.Topology, Seed: cfg.Seed, Faults: map[string]Tally{}, Served: map[string]int{}, cfg: cfg}
}

// Run runs the campaign. What breaks a promise is in Failures; t fails, and Run does
// not return, where the servers do not do as they are told.
func (r *Result) Run(ctx context.Context, t testing.TB) {
	start := time.Now()
	cfg := r.cfg
	bird := stage.Watch()
	defer func() { r.Took, r.Stall = time.Since(start), bird.Stall() }()
	faults := cfg.Faults
	if len(faults) == 0 {
		faults = nemesis.For(cfg.Topology)
	}
	s := stage.New(t, cfg.Topology, slices.ContainsFunc(faults, func(f nemesis.Fault) bool { return f.ServerClock }))
	r.Redis = s.Version()
	atStage := runtime.NumGoroutine()
	order := rand.New(rand.NewPCG(cfg.Seed, 0)).Perm(len(faults))
	for n := 1; ctx.Err() == nil && len(r.Failures) < 5; n++ {
		enough := n > len(faults) && r.Verdict.Calls >= cfg.Calls
		if enough || cfg.Limit > 0 && time.Since(start) > cfg.Limit || cfg.Round != 0 && n > cfg.Round {
			break
		}
		if cfg.Round != 0 && n != cfg.Round {
			continue
		}
		f := faults[order[(n-1)%len(faults)]]
		x := &round{cfg: cfg, Stage: s, fault: f, number: n, rand: rand.New(rand.NewPCG(cfg.Seed, uint64(n)))}
		r.add(x, x.run(ctx))
	}
	if cfg.Keys {
		r.KeysLeft = leftovers(ctx, s, 150*time.Second)
	} else {
		r.KeysLeft = leftovers(ctx, s, 0)
	}
	if len(r.KeysLeft) > 0 {
		r.fail("keys are left: %s", strings.Join(r.KeysLeft[:min(10, len(r.KeysLeft))], " "))
	}
	for range 100 { // those that have ended need a moment to be gone
		if r.Goroutines = runtime.NumGoroutine() - atStage; r.Goroutines <= 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if r.Goroutines > 30 { // the harness has some for each connection of its own
		r.fail("%d goroutines are left", r.Goroutines)
	}
}

func (r *Result) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
	if r.cfg.Log != nil {
		r.cfg.Log("FAILED: "+format, args...)
	}
}

// leftovers returns the keys that are left. With a limit, it waits for so long until
// there are none; without, those that expire do not count. The counters of fencing
// tokens stay for good, and the record of who has led last for a day.
func leftovers(ctx context.Context, s *stage.Stage, limit time.Duration) []string {
	for end := time.Now().Add(limit); ; time.Sleep(500 * time.Millisecond) {
		left := slices.DeleteFunc(s.Keys(), func(key string) bool {
			lasts := limit > 0 && !strings.HasSuffix(key, ":latchkey_leader")
			return strings.HasPrefix(key, "redisson_lock_token:") || !lasts && s.Expires(key)
		})
		if len(left) == 0 || time.Now().After(end) || ctx.Err() != nil {
			return left
		}
	}
}
