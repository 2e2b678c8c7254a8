package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey/bench/internal/relay"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// measure runs the plan. When ours has failed somewhere, there is a report as well
// as an error.
func (p *plan) measure() (r *report, err error) {
	rig := &rig{}
	defer rig.end()
	defer catch(&err)
	one := servers{rig, []*redistest.Server{redistest.Start(rig)}}
	var cluster servers
	x := &runner{plan: p, rig: rig, dir: rig.TempDir(), lacking: map[string]string{}}
	defer x.end()
	x.prepare()
	r = &report{Machine: machine(one), Rounds: p.rounds, Length: p.length}
	all := comparison()
	if p.growth {
		all = append(all, growth()...)
	}
	var broken []string
	for _, s := range all {
		if !p.run.MatchString(s.Title) {
			continue
		}
		if p.quick {
			s = s.brief()
		}
		if s.Cluster && cluster.nodes == nil {
			cluster = servers{rig, redistest.StartCluster(rig, 3).Nodes}
		}
		result := x.scenario(s, one, cluster)
		if len(result.Rows) == 0 {
			continue
		}
		r.Results = append(r.Results, result)
		fmt.Fprintln(os.Stderr, result.Title)
		for _, row := range result.Rows {
			if row.Error != "" && row.ours() {
				broken = append(broken, fmt.Sprintf("%s: %s: %s", s.Title, row.Side, row.Error))
			}
			if row.Overlaps > 0 && row.ours() {
				broken = append(broken, fmt.Sprintf("%s: %s: %v were inside with others", s.Title, row.Side, row.Overlaps))
			}
		}
	}
	if len(r.Results) == 0 {
		return nil, fmt.Errorf("nothing to run: no scenario matches, or none has the sides")
	}
	if len(broken) > 0 {
		return r, fmt.Errorf("%d failed:\n%s", len(broken), lines(broken))
	}
	return r, nil
}

// A runner gives the sides their turns.
type runner struct {
	*plan
	rig     *rig
	dir     string
	lacking map[string]string // why a side cannot run
	etcd    *etcdServer
	link    *relay.Relay // to the one server; nil until a scenario needs it
	java    []string     // how to start the driver of Redisson
}

// prepare finds out which sides can run: of the optional ones, with -quick only
// those that are asked for.
func (x *runner) prepare() {
	wanted := func(side string) bool {
		if x.sides == nil && x.quick {
			x.lacking[side] = "takes long to start"
			return false
		}
		return x.sides == nil || x.sides[side]
	}
	note := func(side string, err error) {
		if err != nil {
			x.lacking[side] = err.Error()
			fmt.Fprintf(os.Stderr, "without %s: %v\n", side, err)
		}
	}
	if wanted("etcd") {
		var err error
		x.etcd, err = startEtcd(x.dir)
		note("etcd", err)
	}
	if wanted("redisson") {
		var err error
		x.java, err = findRedisson(x.interop)
		note("redisson", err)
	}
}

func (x *runner) end() {
	if x.etcd != nil {
		x.etcd.stop()
	}
	if x.link != nil {
		_ = x.link.Close()
	}
}

// scenario lets all sides do it in each round, beginning with another one each
// time.
func (x *runner) scenario(s scenario, one, cluster servers) *result {
	res := &result{scenario: s}
	for _, side := range s.Sides {
		if (x.sides == nil || x.sides[side] || side == s.Floor) && x.lacking[side] == "" {
			res.Rows = append(res.Rows, &row{Side: side})
		}
	}
	for round := range x.rounds {
		for i := range res.Rows {
			row := res.Rows[(i+round)%len(res.Rows)]
			if row.Error != "" {
				continue
			}
			on := one
			if s.Cluster && row.Side != "latchkey-one" {
				on = cluster
			}
			sample, err := x.turn(s, row.Side, on)
			if err != nil {
				row.Error = err.Error()
				continue
			}
			row.samples = append(row.samples, sample)
		}
	}
	res.sum()
	return res
}

// A worker is a process that does a task: it says when it is ready, is told to
// begin, and answers with an outcome.
type worker interface {
	ready() error
	begin() error
	outcome() (*outcome, error)
	end()
}

// turn is one side's turn.
func (x *runner) turn(s scenario, side string, on servers) (*sample, error) {
	on.flush()
	page := filepath.Join(x.dir, "page")
	if err := os.WriteFile(page, make([]byte, pageSize), 0o600); err != nil {
		return nil, err
	}
	addrs, err := x.addrs(s, on)
	if err != nil {
		return nil, err
	}
	processes := max(s.Processes, 1)
	t := task{
		Work: s.Work, Side: side, Object: s.Object, Addrs: addrs, Cluster: len(on.nodes) > 1, Names: s.Names,
		Goroutines: s.Goroutines / processes, Limit: s.Limit, For: cmp.Or(s.Hold, x.length), Patience: 10 * time.Second,
		Lease: s.Lease, Page: page,
	}
	if s.Goroutines > 10_000 {
		t.Patience = time.Minute
	}
	if x.quick {
		t.Patience = min(t.Patience, 3*time.Second)
	}
	if side == "floor-set" && t.Names == 0 { // it cannot wait: a name for each
		t.Names = s.Goroutines
	}
	if side == "etcd" {
		t.Addrs = []string{x.etcd.addr}
	}
	var workers []worker
	defer func() {
		for _, w := range workers {
			w.end()
		}
	}()
	for i := range processes {
		t.Process = i
		w, err := x.start(&t)
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		if err := w.ready(); err != nil {
			return nil, err
		}
	}
	before := on.used()
	for _, w := range workers {
		if err := w.begin(); err != nil {
			return nil, err
		}
	}
	var outcomes []*outcome
	for _, w := range workers {
		o, err := w.outcome()
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, o)
	}
	return newSample(side, outcomes, before, on.used()), nil
}

// linkDelay is how long a link takes, each way.
const linkDelay = 200 * time.Microsecond

// addrs returns where clients find the servers: over a link, which this process relays,
// as it does nothing else meanwhile.
func (x *runner) addrs(s scenario, on servers) ([]string, error) {
	if !s.Link {
		return on.addrs(), nil
	}
	if x.link == nil {
		link, err := relay.Start(on.nodes[0].Addr, linkDelay)
		if err != nil {
			return nil, err
		}
		x.link = link
	}
	return []string{x.link.Addr()}, nil
}

// start starts a process that does the task.
func (x *runner) start(t *task) (worker, error) {
	if t.Side == "redisson" {
		return startRedisson(x.java, t)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startSelf(exec.Command(self), t)
}

// machine tells in words on what this runs.
func machine(s servers) string {
	return fmt.Sprintf("%s/%s, %d cores, %s, Redis %s, loopback",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), s.version())
}

// sum makes medians of the samples, and ratios to the floor of the same round.
func (res *result) sum() {
	at := slices.IndexFunc(res.Rows, func(r *row) bool { return r.Side == res.Floor })
	for _, r := range res.Rows {
		if len(r.samples) == 0 || r.Error != "" {
			continue
		}
		r.sample = *medians(r.samples)
		if at < 0 || res.Rows[at].Error != "" {
			continue
		}
		var ratios, tails []float64
		for i, x := range r.samples {
			floor := res.Rows[at].samples[i]
			of := x.Rate / floor.Rate
			if res.Slowness {
				of = x.P50 / floor.P50
			}
			ratios = append(ratios, of)
			tails = append(tails, x.P99/floor.P99)
		}
		r.Ratio, r.TailRatio = median(ratios), median(tails)
	}
}
