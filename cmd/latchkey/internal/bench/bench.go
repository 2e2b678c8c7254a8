// Package bench is the command that measures a load that the user chooses.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/connect"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/runner"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

const help = `bench puts a load of your choice on a Redis: workers that take a lock or a permit,
keep it for a while, and give it back. It shows how often that went per second,
how long it took to get it, and how many commands it cost.

It starts a Redis server of its own, in memory, which is slower than a real one;
with --url, -h or -p it uses yours, under keys of its own, latchkey-bench:..., of
which it leaves none behind but some that expire within a minute.`

const examples = `  latchkey bench -h redis.example --workers 64 --names 8
  latchkey bench -h redis.example --kind permits --permits 10 --hold 5ms
  latchkey bench -h redis.example --kind readwrite --json`

// flags are the flags of bench.
type flags struct {
	stage.Flags
	kind    string
	names   int
	permits int
	hold    time.Duration
}

// Command returns the command bench. It uses an in-memory server unless conn
// names a server.
func Command(conn *connect.Flags) *cobra.Command {
	f, out := new(flags), new(terminal.Printer)
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure a load of your choice",
		Long:    help,
		Example: examples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out.To(cmd.OutOrStdout())
			return f.run(cmd.ErrOrStderr(), out, conn)
		},
	}
	kinds := slices.Sorted(maps.Keys(loads))
	cmd.Flags().StringVar(&f.kind, "kind", "lock", "what is taken: "+strings.Join(kinds, ", "))
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	f.Register(cmd.Flags(), 5*time.Second, 16, 1)
	cmd.Flags().IntVar(&f.names, "names", 1, "over how many names the workers are spread")
	cmd.Flags().IntVar(&f.permits, "permits", 4, "how many permits each name has, with --kind semaphore and permits")
	terminal.DurationVar(cmd.Flags(), &f.hold, "hold", "", 0, "how long it is kept")
	terminal.JSONVar(cmd, out)
	return cmd
}

// check checks the flags.
func (f *flags) check() error {
	switch {
	case loads[f.kind] == nil:
		return exit.Usagef("bench: %s is no kind; there are %s", text.Name(f.kind), strings.Join(slices.Sorted(maps.Keys(loads)), ", "))
	case f.names < 1 || f.names > f.Workers:
		return exit.Usagef("bench: --names must be between 1 and the number of workers, not %d", f.names)
	case f.permits < 1 || f.permits > object.MaxPermits:
		return exit.Usagef("bench: --permits must be between 1 and %d, not %d", object.MaxPermits, f.permits)
	}
	return f.Flags.Check("bench", 1)
}

func (f *flags) run(progress io.Writer, out *terminal.Printer, conn *connect.Flags) error {
	if err := f.check(); err != nil {
		return err
	}
	sent := new(counter)
	server, err := stage.OpenServer(conn, "bench", sent)
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, stop := runner.Interruptible(context.Background())
	defer stop()
	st := stage.New(f.kind, server, &f.Flags)
	st.Turn = f.hold
	v := stage.NewView(progress)
	v.Quiet = !v.Live
	before := sent.sent.Load()
	follow := v.Follow(st)
	err = loads[f.kind](ctx, st, f)
	commands := sent.sent.Load() - before
	if cerr := st.Close(); err == nil {
		err = cerr
	}
	r := st.Result()
	r.Err = err
	follow(r)
	left, cerr := server.Clean()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil || cerr != nil:
		return exit.Errorf(exit.Failed, "bench: %v", errors.Join(err, cerr))
	case len(left) > 0:
		return exit.Errorf(exit.Failed, "bench: left behind in Redis: %s", strings.Join(left, ", "))
	}
	b := newResult(f, server, r, commands)
	return out.Show(b, func() { b.write(out) })
}

// A Result is the output of bench, as JSON has it.
type Result struct {
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

	result *stage.Result
}

func newResult(f *flags, server *stage.Server, r *stage.Result, commands uint64) *Result {
	return &Result{
		Kind: f.kind, Server: server.About, Workers: f.Workers, Clients: f.Clients, Names: f.names, HoldMs: stage.Milliseconds(f.hold),
		Seconds: r.Elapsed.Seconds(), Operations: r.Acquisitions, PerSecond: float64(r.Acquisitions) / r.Elapsed.Seconds(),
		WaitP50Ms: stage.Milliseconds(r.P50), WaitP90Ms: stage.Milliseconds(r.P90), WaitP99Ms: stage.Milliseconds(r.P99), WaitMaxMs: stage.Milliseconds(r.Max),
		Commands: commands, PerOperation: float64(commands) / float64(max(r.Acquisitions, 1)), result: r,
	}
}

func (b *Result) write(out *terminal.Printer) {
	out.Printf("%s, %d workers on %d clients, %d names, %s\n\n", b.Kind, b.Workers, b.Clients, b.Names, b.Server)
	r := b.result
	t := &terminal.Table{Titles: []string{">OPERATIONS", ">PER SECOND", ">WAIT P50", ">P90", ">P99", ">MAX", ">COMMANDS EACH"}}
	t.Add(text.Grouped(b.Operations), text.Grouped(uint64(b.PerSecond)), text.Short(r.P50), text.Short(r.P90), text.Short(r.P99), text.Short(r.Max),
		strconv.FormatFloat(b.PerOperation, 'f', 2, 64))
	t.Print(out)
}

// keep waits for as long as each lock or permit is to be held.
func (f *flags) keep(ctx context.Context) {
	if f.hold <= 0 {
		return
	}
	select {
	case <-time.After(f.hold):
	case <-ctx.Done():
	}
}

// name returns the name of worker's object.
func (f *flags) name(worker int) string {
	return fmt.Sprintf("%s-%d", f.kind, worker%f.names)
}
