// Package report keeps what a run has shown, and writes it down.
package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/chaos/campaign"
	"github.com/latchkey-go/latchkey/chaos/figures"
)

// A Report is one run.
type Report struct {
	Command string
	Seed    uint64
	Started time.Time
	Took    time.Duration
	Go      string
	Machine string

	Campaigns []*campaign.Result
	Figures   []figures.Figure
	Failures  []string // of the run itself
}

// New returns the report of a run that begins now.
func New(command string, seed uint64) *Report {
	return &Report{
		Command: command, Seed: seed, Started: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(),
		Machine: fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
	}
}

// All returns everything that has failed.
func (r *Report) All() []string {
	all := slices.Clone(r.Failures)
	for _, c := range r.Campaigns {
		all = append(all, c.Failures...)
	}
	for _, f := range r.Figures {
		if f.Failure != "" {
			all = append(all, f.Name+": "+f.Failure)
		}
	}
	return all
}

// JSON writes the report into a file.
func (r *Report) JSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Read returns the report that JSON has written.
func Read(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	return r, json.Unmarshal(text, r)
}

// Write puts the report into a document, in the place of the last one.
func (r *Report) Write(path string) error { return Insert(path, "campaign", "chaos", r.Markdown()) }

// Markdown returns the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	redis := ""
	if len(r.Campaigns) > 0 {
		redis = ", Redis " + r.Campaigns[0].Redis
	}
	p("Run of %s UTC: `%s`, seed %d, %v, %s%s, %s.", r.Started.Format("2006-01-02 15:04"), r.Command, r.Seed, r.Took.Round(time.Second), r.Go, redis, r.Machine)
	p("")
	if failed := r.All(); len(failed) > 0 {
		p("**%d FAILURES.**", len(failed))
		for _, f := range failed {
			first, _, _ := strings.Cut(f, "\n")
			p("- %s", first)
		}
		p("")
	}
	if len(r.Figures) > 0 {
		p("| Figure | Claimed | Seen | Time | |")
		p("|---|---|---|---|---|")
		for _, f := range r.Figures {
			p("| `%s` | %s | %s | %v | %s |", f.Name, f.Claim, f.Seen, f.Took.Round(time.Second), mark(f.Failure == ""))
		}
		p("")
	}
	if len(r.Campaigns) == 0 {
		return b.String()
	}
	r.campaigns(p)
	p("")
	r.faults(p)
	return b.String()
}

func (r *Report) campaigns(p func(string, ...any)) {
	p("| Campaign | %s | all |", strings.Join(r.columns(func(c *campaign.Result) string { return c.Topology }), " | "))
	p("|---|%s---|", strings.Repeat("---|", len(r.Campaigns)))
	row := func(name string, f func(*campaign.Result) int) {
		sum := 0
		cells := r.columns(func(c *campaign.Result) string { sum += f(c); return count(f(c)) })
		p("| %s | %s | %s |", name, strings.Join(cells, " | "), count(sum))
	}
	row("rounds", func(c *campaign.Result) int { return c.Rounds })
	row("faults done", func(c *campaign.Result) int {
		n := 0
		for _, f := range c.Faults {
			n += f.Times
		}
		return n
	})
	row("calls recorded and checked", func(c *campaign.Result) int { return c.Verdict.Calls })
	row("… of them put in an order that explains each answer", func(c *campaign.Result) int { return c.Verdict.Explained })
	row("holds checked for exclusion", func(c *campaign.Result) int { return c.Verdict.Holds })
	row("**violations**", func(c *campaign.Result) int { return len(c.Verdict.Violations) })
	row("double grants that a loss of data, or a clock that steps forward, allows", func(c *campaign.Result) int { return c.Verdict.Doubles })
	row("failovers that were not meant", func(c *campaign.Result) int { return c.Unplanned })
	row("… so that the limit for a recovery, 25 s, began again", func(c *campaign.Result) int { return c.Again })
	row("writes offered to the fenced store", func(c *campaign.Result) int { return c.Offered })
	row("… refused, as stale", func(c *campaign.Result) int { return c.Refused })
	row("… accepted although stale", func(c *campaign.Result) int { return c.Stale })
	row("client processes beside the campaign's own", func(c *campaign.Result) int { return c.Children })
	row("goroutines left", func(c *campaign.Result) int { return max(0, c.Goroutines) })
	row("keys left", func(c *campaign.Result) int { return len(c.KeysLeft) })
	text := func(name string, f func(*campaign.Result) string) {
		p("| %s | %s | |", name, strings.Join(r.columns(f), " | "))
	}
	text("longest two holders, after a loss", func(c *campaign.Result) string { return c.Verdict.LongestTwo.Round(time.Millisecond).String() })
	text("longest stall of the machine itself", func(c *campaign.Result) string {
		if c.Stall == 0 {
			return "not measured"
		}
		return c.Stall.Round(time.Millisecond).String()
	})
	text("slowest return after the end of a context, such stalls included", func(c *campaign.Result) string {
		return fmt.Sprintf("%v (%s)", c.SlowestCancel.Late.Round(time.Millisecond), c.SlowestCancel.Kind)
	})
	text("slowest recovery of all kinds of object", func(c *campaign.Result) string {
		return fmt.Sprintf("%v (%s)", c.SlowestRecovery.Round(time.Millisecond), c.Recovering)
	})
	text("seed", func(c *campaign.Result) string { return fmt.Sprint(c.Seed) })
	text("time", func(c *campaign.Result) string { return c.Took.Round(time.Second).String() })
}

func (r *Report) columns(f func(*campaign.Result) string) []string {
	var cells []string
	for _, c := range r.Campaigns {
		cells = append(cells, f(c))
	}
	return cells
}

// faults tells of each fault on each topology.
func (r *Report) faults(p func(string, ...any)) {
	p("Acquisitions before, during and after each fault, over all its rounds. *Proof* is how often it was seen to happen: by the server's counters, by the proxy's, or by asking. *Recovery* is the longest until every kind of object had been served again.")
	p("")
	p("| Topology | Fault | | Times | Proof | Before | During | After | Doubles | Recovery |")
	p("|---|---|---|---|---|---|---|---|---|---|")
	for _, c := range r.Campaigns {
		for _, name := range slices.Sorted(maps.Keys(c.Faults)) {
			f := c.Faults[name]
			p("| %s | `%s` | %s | %d | %s | %s | %s | %s | %d | %d ms |", c.Topology, name, f.What, f.Times, count(int(f.Proof)),
				count(f.Before), count(f.During), count(f.After), f.Doubles, f.Recovery.Milliseconds())
		}
	}
}

func mark(ok bool) string {
	if ok {
		return "holds"
	}
	return "**FAILED**"
}

// count writes a number with commas.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
