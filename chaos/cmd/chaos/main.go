// Command chaos tries to prove latchkey wrong: random calls of every primitive from
// several processes, under faults, every one checked. It needs redis-server and
// redis-sentinel, and starts its own.
//
//	chaos run -topology cluster -seed 7 -ops 100000   one campaign
//	chaos run -topology single -seed 7 -round 12      one round of it again
//	chaos figure -name hand-offs -size 200000         one figure
//	chaos plain -runs 20 -seconds 3                   a load without faults, which must leave nothing
//	chaos check                                       a minute of everything
//	chaos prove -write ../docs/evidence/campaign.md   everything, in earnest
//	chaos report -json report.json -write x.md        what a run has written, again
//	chaos soak -minutes 60                            campaigns with new seeds, until then
//
// It exits with 1 when something was not as promised, and then says how to repeat it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/chaos/campaign"
	"github.com/latchkey-go/latchkey/chaos/figures"
	"github.com/latchkey-go/latchkey/chaos/nemesis"
	"github.com/latchkey-go/latchkey/chaos/plain"
	"github.com/latchkey-go/latchkey/chaos/report"
	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/chaos/workload"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

func main() {
	workload.Child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: chaos run|figure|plain|check|prove|soak|report [flags]")
		os.Exit(64)
	}
	x := &session{ctx: ctx}
	fs := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	fs.Uint64Var(&x.seed, "seed", uint64(time.Now().UnixNano()%1_000_000), "of all random choices")
	fs.StringVar(&x.write, "write", "", "document to write the report into")
	fs.StringVar(&x.json, "json", "report.json", "file for the report; none if empty")
	fs.Float64Var(&x.scale, "scale", 1, "of prove: the sizes, as a part of the full ones")
	topology := fs.String("topology", stage.Single, "of run: "+strings.Join(stage.Topologies, ", "))
	round := fs.Int("round", 0, "of run: only this round")
	ops := fs.Int("ops", 0, "of run: calls to make")
	limit := fs.Duration("duration", 0, "of run: time after which no round begins")
	faults := fs.String("faults", "", "of run: names, with commas; all if empty")
	keys := fs.Bool("keys", false, "of run: wait until no key is left that expires")
	repeat := fs.Int("repeat", 1, "of run: how often a round does its fault")
	kinds := fs.String("primitive", "", "of run: names, with commas; all if empty")
	name := fs.String("name", "", "of figure: its name; all if empty")
	size := fs.Int("size", 0, "of figure: how often; 0 for the full size")
	minutes := fs.Int("minutes", 60, "of soak")
	runs := fs.Int("runs", 20, "of plain: how many, each with a seed of its own")
	seconds := fs.Float64("seconds", 3, "of plain: the length of a run")
	server := fs.String("redis", "", "of plain: redis-server; that of the tests if empty")
	monitor := fs.Bool("monitor", false, "of plain: show the commands, too, of what fails")
	_ = fs.Parse(os.Args[2:])

	x.report = report.New("chaos "+strings.Join(os.Args[1:], " "), x.seed)
	switch os.Args[1] {
	case "run":
		cfg := campaign.Config{Topology: *topology, Round: *round, Calls: *ops, Limit: *limit, Kinds: split(*kinds), Repeat: *repeat, Keys: *keys}
		if cfg.Faults = nemesis.For(*topology, split(*faults)...); len(cfg.Faults) == 0 {
			fmt.Fprintf(os.Stderr, "chaos: %s has no such faults: %s\n", *topology, *faults)
			os.Exit(64)
		}
		x.campaign(cfg)
	case "figure":
		for _, m := range figures.All {
			if *name == "" || *name == m.Name {
				x.figure(m, *size)
			}
		}
	case "plain":
		x.plain(*server, *runs, plain.Config{Length: time.Duration(*seconds * float64(time.Second)), Kinds: split(*kinds), Monitor: *monitor})
	case "check":
		x.check()
	case "prove":
		x.prove()
	case "soak":
		x.soak(time.Duration(*minutes) * time.Minute)
	case "report":
		var err error
		if x.report, err = report.Read(x.json); err != nil {
			fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
			os.Exit(66)
		}
		x.json = ""
	default:
		fmt.Fprintf(os.Stderr, "chaos: no such command: %s\n", os.Args[1])
		os.Exit(64)
	}
	os.Exit(x.finish())
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// A session is one run of the command.
type session struct {
	ctx    context.Context
	seed   uint64
	scale  float64
	write  string
	json   string
	report *report.Report
}

func (x *session) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// campaign runs a campaign with the session's seed, unless cfg has its own.
func (x *session) campaign(cfg campaign.Config) {
	if x.ctx.Err() != nil {
		return
	}
	if cfg.Seed == 0 {
		cfg.Seed = x.seed
	}
	if len(cfg.Kinds) == 0 {
		cfg.Kinds = workload.Kinds
	}
	cfg.Log = x.say
	r := campaign.New(cfg)
	x.report.Campaigns = append(x.report.Campaigns, r)
	err := redistest.Program(x.ctx, nil, func(t testing.TB) { r.Run(x.ctx, t) })
	if err != nil {
		x.report.Failures = append(x.report.Failures, fmt.Sprintf("campaign %s, seed %d: %v", cfg.Topology, cfg.Seed, err))
	}
}

func (x *session) figure(m figures.Measure, size int) {
	if x.ctx.Err() != nil {
		return
	}
	if size == 0 {
		size = m.Size
	}
	err := redistest.Program(x.ctx, nil, func(t testing.TB) {
		f := m.Run(x.ctx, t, size)
		x.say("%s: %s %s", f.Name, f.Seen, f.Failure)
		x.report.Figures = append(x.report.Figures, f)
	})
	if err != nil {
		x.report.Failures = append(x.report.Failures, fmt.Sprintf("%s: %v", m.Name, err))
	}
}

// plain makes runs of a load without faults, the first with the session's seed.
func (x *session) plain(server string, runs int, cfg plain.Config) {
	x.json = ""
	x.say("plain: seed %d", x.seed)
	err := redistest.Program(x.ctx, nil, func(t testing.TB) {
		s := plain.Start(t, server)
		for i := range uint64(runs) {
			if x.ctx.Err() != nil {
				break
			}
			cfg.Seed = x.seed + i
			for _, f := range s.Run(x.ctx, cfg) {
				f = fmt.Sprintf("plain, seed %d: %s", cfg.Seed, f)
				x.say("FAILED: %s", f)
				x.report.Failures = append(x.report.Failures, f[:strings.IndexByte(f+"\n", '\n')])
			}
		}
		x.say("plain: %d holds in %d runs on Redis %s", s.Holds.Load(), runs, s.Redis)
	})
	if err != nil {
		x.report.Failures = append(x.report.Failures, fmt.Sprintf("plain, seed %d: %v", cfg.Seed, err))
	}
}

// check is everything for a moment.
func (x *session) check() {
	x.campaign(campaign.Config{Topology: stage.Single, Limit: 22 * time.Second})
	x.campaign(campaign.Config{Topology: stage.AOF, Faults: nemesis.For(stage.AOF, "kill-aof", "loading")})
	x.campaign(campaign.Config{Topology: stage.Sentinel, Faults: nemesis.For(stage.Sentinel, "failover")})
	x.campaign(campaign.Config{Topology: stage.Cluster, Faults: nemesis.For(stage.Cluster, "cluster-failover", "slot-moves")})
	for _, m := range figures.All {
		x.figure(m, m.Size/100)
	}
}

// prove is everything that docs/evidence/campaign.md shows.
func (x *session) prove() {
	for _, m := range figures.All {
		x.figure(m, int(float64(m.Size)*x.scale))
	}
	for _, c := range []campaign.Config{
		{Topology: stage.Single, Calls: 400_000, Keys: true},
		{Topology: stage.AOF, Calls: 350_000},
		{Topology: stage.Sentinel, Calls: 100_000},
		{Topology: stage.Cluster, Calls: 150_000, Keys: true},
	} {
		c.Calls, c.Repeat = int(float64(c.Calls)*x.scale), 2
		x.campaign(c)
	}
}

// soak runs campaigns with new seeds for a time, or until something fails.
func (x *session) soak(limit time.Duration) {
	start := time.Now()
	for n := uint64(1); time.Since(start) < limit && x.ctx.Err() == nil && len(x.report.All()) == 0; n++ {
		for i, topology := range []string{stage.Single, stage.Cluster, stage.AOF, stage.Sentinel} {
			if left := limit - time.Since(start); left > 0 {
				x.campaign(campaign.Config{Topology: topology, Seed: x.seed + 10*n + uint64(i), Limit: min(left, 3*time.Minute), Calls: 1 << 30, Repeat: 4})
			}
		}
	}
}

// finish writes the report and returns the code to exit with.
func (x *session) finish() int {
	r := x.report
	if r.Took == 0 {
		r.Took = time.Since(r.Started)
	}
	fmt.Println(r.Markdown())
	failed := r.All()
	if x.json != "" {
		if err := r.JSON(x.json); err != nil {
			failed = append(failed, err.Error())
		}
	}
	if x.write != "" {
		if err := r.Write(x.write); err != nil {
			failed = append(failed, err.Error())
		}
	}
	for _, f := range failed {
		x.say("FAILED: %s", f)
	}
	if len(failed) > 0 {
		return 1
	}
	return 0
}
