// Package demo is the command that runs every primitive and checks that what
// must not happen does not.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/connect"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/runner"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/text"
)

const help = `demo puts every primitive to work, with many workers on several clients, as if
on several machines, and checks that what must not happen does not: two at a time
where one may be, a fencing token that is not greater than the one before, a
worker that never gets its turn.

It starts a Redis server of its own, in memory. With --url, -h or -p it uses
yours: under keys of its own, latchkey-demo:..., of which it leaves none behind
but some that expire within a minute.
REDIS_URL alone does not make it do that.

Exit status: 0 if all went well; 1 if anything was violated or failed; 69 if
Redis cannot be reached.`

// turn is the duration of one scenario. All of them together, some of which
// wait for the end of a lease, take less than 10 s.
const turn = 350 * time.Millisecond

// embeddedNote prevents the figures from being taken for those of the library.
const embeddedNote = `The server in memory is one program with the workers, and many times slower than
Redis: the figures below say that it works, not how fast (for that: --url).
`

// redlockNote says the same of the one scenario that always runs in memory.
const redlockNote = `The last, redlock, needs five servers, and has them in memory, where they are slow.
`

// Command returns the command demo. It uses an in-memory server unless conn
// names a server.
func Command(conn *connect.Flags) *cobra.Command {
	var f stage.Flags
	out := new(terminal.Printer)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show every primitive at work, on a server in memory or on yours",
		Long:  help,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out.To(cmd.OutOrStdout())
			people := out.Writer
			if out.JSON {
				people = io.Discard
			}
			if !cmd.Flags().Changed("clients") {
				f.Clients = max(min(f.Clients, f.Workers), 1)
			}
			played, err := results(people, conn, &f)
			if out.JSON && played != nil {
				err = errors.Join(out.Show(played, nil), err)
			}
			return err
		},
	}
	f.Register(cmd.Flags(), turn, 64, 4)
	terminal.JSONVar(cmd, out)
	return cmd
}

// results runs all scenarios. It returns nil results if there was no server.
func results(out io.Writer, conn *connect.Flags, f *stage.Flags) ([]*stage.Result, error) {
	if err := f.Check("demo", 2); err != nil {
		return nil, err
	}
	server, err := stage.OpenServer(conn, "demo")
	if err != nil {
		return nil, err
	}
	defer server.Close()

	ctx, stop := runner.Interruptible(context.Background())
	v := stage.NewView(out)
	fmt.Fprintf(out, "%d workers on %d clients, %s: %d loads of %v or a little more\n", f.Workers, f.Clients, text.Harmless(server.About), len(scenarios), f.Duration)
	if server.Embedded {
		fmt.Fprint(out, embeddedNote)
	} else {
		fmt.Fprint(out, redlockNote)
	}
	fmt.Fprintln(out)
	played := []*stage.Result{}
	for _, sc := range scenarios {
		if ctx.Err() != nil {
			break
		}
		played = append(played, play(ctx, server, v, sc, f))
	}
	interrupted := context.Cause(ctx)
	stop() // a second Ctrl-C ends the process at once

	left, err := server.Clean()
	v.Table(played)
	return played, verdict(out, played, left, err, interrupted)
}

// play runs one scenario.
func play(ctx context.Context, server *stage.Server, v *stage.View, sc scenario, f *stage.Flags) *stage.Result {
	st := stage.New(sc.name, server, f)
	done := v.Follow(st)
	err := sc.run(ctx, st)
	if cerr := st.Close(); err == nil {
		err = cerr
	}
	r := st.Result()
	if err != nil && ctx.Err() == nil {
		r.Err = err
	}
	done(r)
	return r
}

// verdict prints the verdict and returns the error. interrupted is the error of
// a signal, or nil.
func verdict(out io.Writer, results []*stage.Result, left []string, cleaning, interrupted error) error {
	var violations uint64
	failures := cleaning
	for _, r := range results {
		violations += r.Violations
		if r.Err != nil {
			failures = errors.Join(failures, fmt.Errorf("%s: %w", r.Name, r.Err))
		}
	}
	if len(left) > 0 {
		failures = errors.Join(failures, fmt.Errorf("left behind in Redis: %s", strings.Join(left, ", ")))
	}
	if interrupted != nil {
		fmt.Fprintln(out, "interrupted")
	}
	fmt.Fprintf(out, "violations %d\n", violations)
	switch {
	case failures != nil:
		return exit.Errorf(exit.Failed, "demo: %s", strings.ReplaceAll(failures.Error(), "\n", "\ndemo: "))
	case violations > 0:
		return &exit.Error{Code: exit.Failed}
	}
	return interrupted
}
