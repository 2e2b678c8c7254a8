package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
)

const benchHelp = `bench puts a load of your choice on a Redis: workers that take a lock or a permit,
keep it for a while, and give it back. It shows how often that went per second,
how long it took to get it, and how many commands it cost.

It starts a Redis server of its own, in memory, which is slower than a real one;
with --url, -h or -p it uses yours, under keys of its own, latchkey-bench:..., of
which it leaves none behind but some that expire within a minute.`

const benchExamples = `  latchkey bench -h redis.example --workers 64 --names 8
  latchkey bench -h redis.example --kind permits --permits 10 --hold 5ms
  latchkey bench -h redis.example --kind readwrite --json`

// benchFlags are the flags of bench.
type benchFlags struct {
	demoFlags
	kind    string
	names   int
	permits int
	hold    time.Duration
}

func newBench(conn *connection) *cobra.Command {
	f, out := new(benchFlags), new(printer)
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure a load of your choice",
		Long:    benchHelp,
		Example: benchExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out.to(cmd.OutOrStdout())
			return f.run(cmd.ErrOrStderr(), out, conn)
		},
	}
	kinds := slices.Sorted(maps.Keys(benchLoads))
	cmd.Flags().StringVar(&f.kind, "kind", "lock", "what is taken: "+strings.Join(kinds, ", "))
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	f.register(cmd.Flags(), 5*time.Second, 16, 1)
	cmd.Flags().IntVar(&f.names, "names", 1, "over how many names the workers are spread")
	cmd.Flags().IntVar(&f.permits, "permits", 4, "how many permits each name has, with --kind semaphore and permits")
	durationVar(cmd.Flags(), &f.hold, "hold", "", 0, "how long it is kept")
	printVar(cmd, out)
	return cmd
}

func (f *benchFlags) check() error {
	switch {
	case benchLoads[f.kind] == nil:
		return usagef("bench: %s is no kind; there are %s", shownName(f.kind), strings.Join(slices.Sorted(maps.Keys(benchLoads)), ", "))
	case f.names < 1 || f.names > f.workers:
		return usagef("bench: --names must be between 1 and the number of workers, not %d", f.names)
	case f.permits < 1 || f.permits > maxPermits:
		return usagef("bench: --permits must be between 1 and %d, not %d", maxPermits, f.permits)
	}
	return f.demoFlags.check("bench", 1)
}

func (f *benchFlags) run(progress io.Writer, out *printer, conn *connection) error {
	if err := f.check(); err != nil {
		return err
	}
	sent := new(atomic.Uint64)
	conn.wrap = func(c net.Conn) net.Conn { return &countedConn{Conn: c, sent: sent} }
	server, err := openDemoServer(conn, "bench")
	if err != nil {
		return err
	}
	defer server.close()
	ctx, stop := interruptible(context.Background())
	defer stop()
	st := newStage(f.kind, server, &f.demoFlags)
	st.turn = f.hold
	v := newDemoView(progress)
	v.quiet = !v.live
	before := sent.Load()
	follow := v.follow(st)
	err = benchLoads[f.kind](ctx, st, f)
	commands := sent.Load() - before
	if cerr := st.close(); err == nil {
		err = cerr
	}
	r := st.result()
	r.err = err
	follow(r)
	left, cerr := server.clean()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil || cerr != nil:
		return exitf(exitFailed, "bench: %v", errors.Join(err, cerr))
	case len(left) > 0:
		return exitf(exitFailed, "bench: left behind in Redis: %s", strings.Join(left, ", "))
	}
	b := newBenchResult(f, server, r, commands)
	return out.show(b, func() { b.write(out) })
}

// A benchResult is what bench shows, as JSON has it.
type benchResult struct {
	Kind         string  `json:"kind"`
	Server       string  `json:"server"`
	Workers      int     `json:"workers"`
	Clients      int     `json:"clients"`
	Names        int     `json:"names"`
	HoldMs       float64 `json:"hold_ms"`
	Seconds      float64 `json:"seconds"`
	Operations   uint64  `json:"operations"`
	PerSecond    float64 `json:"per_second"`
	WaitP50Ms    float64 `json:"wait_p50_ms"`
	WaitP90Ms    float64 `json:"wait_p90_ms"`
	WaitP99Ms    float64 `json:"wait_p99_ms"`
	WaitMaxMs    float64 `json:"wait_max_ms"`
	Commands     uint64  `json:"commands"`
	PerOperation float64 `json:"commands_per_operation"`

	result *demoResult
}

func newBenchResult(f *benchFlags, server *demoServer, r *demoResult, commands uint64) *benchResult {
	return &benchResult{
		Kind: f.kind, Server: server.about, Workers: f.workers, Clients: f.clients, Names: f.names, HoldMs: inMs(f.hold),
		Seconds: r.elapsed.Seconds(), Operations: r.acquisitions, PerSecond: float64(r.acquisitions) / r.elapsed.Seconds(),
		WaitP50Ms: inMs(r.p50), WaitP90Ms: inMs(r.p90), WaitP99Ms: inMs(r.p99), WaitMaxMs: inMs(r.max),
		Commands: commands, PerOperation: float64(commands) / float64(max(r.acquisitions, 1)), result: r,
	}
}

func (b *benchResult) write(out *printer) {
	out.printf("%s, %d workers on %d clients, %d names, %s\n\n", b.Kind, b.Workers, b.Clients, b.Names, b.Server)
	r := b.result
	t := &table{titles: []string{">OPERATIONS", ">PER SECOND", ">WAIT P50", ">P90", ">P99", ">MAX", ">COMMANDS EACH"}}
	t.add(grouped(b.Operations), grouped(uint64(b.PerSecond)), short(r.p50), short(r.p90), short(r.p99), short(r.max),
		strconv.FormatFloat(b.PerOperation, 'f', 2, 64))
	t.write(out)
}

// keep keeps what was taken.
func (f *benchFlags) keep(ctx context.Context) {
	if f.hold <= 0 {
		return
	}
	select {
	case <-time.After(f.hold):
	case <-ctx.Done():
	}
}

// benchName is the name of worker's object.
func (f *benchFlags) benchName(worker int) string {
	return fmt.Sprintf("%s-%d", f.kind, worker%f.names)
}
