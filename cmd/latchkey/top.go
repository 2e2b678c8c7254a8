package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/listing"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/tui"
	"github.com/latchkey-go/latchkey/internal/object"
)

const topHelp = `top shows what is held and waited for, over and over, with what most wait for
first. Every --rescan it reads all key names, as ls does; in between it looks at
what it knows and at what somebody listens to.

Keys: up and down select, enter shows holders and waiters of the selected name, c
shows only what is waited for, s sorts by waiters, by time held or by name, r reads
all key names now, q ends it.

When standard output is no terminal, top writes the list of ls every --delay, or
with --json a line of JSON, until it has done so --count times.`

// topFlags are the flags of top.
type topFlags struct {
	listing.Finder
	delay, rescan time.Duration
	count         int
}

func newTop(conn *connection) *cobra.Command {
	f, out := new(topFlags), new(terminal.Printer)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch what is held and waited for",
		Long:  topHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			out.To(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				w := &watch{session: s, topFlags: f}
				if out.JSON || !terminal.IsTerminal(out.Writer) {
					return w.write(ctx, out)
				}
				return w.live(ctx, out)
			})
		},
	}
	f.Register(cmd)
	terminal.DurationVar(cmd.Flags(), &f.delay, "delay", "d", 2*time.Second, "how long to wait between two looks; at least 100ms")
	terminal.DurationVar(cmd.Flags(), &f.rescan, "rescan", "", 30*time.Second, "how often to read all key names")
	cmd.Flags().IntVar(&f.count, "count", 0, "how often to write the list where there is no terminal; 0 is without end")
	terminal.JSONVar(cmd, out)
	return cmd
}

func (f *topFlags) check() error {
	if f.delay < 100*time.Millisecond || f.count < 0 {
		return exit.Usagef("top: --delay must be at least 100ms, and --count not negative")
	}
	return f.Finder.Check()
}

// A watch reads the objects again and again.
type watch struct {
	*session
	*topFlags
	known   []string // names of the objects seen last
	scanned time.Time
}

// look returns the present objects.
func (w *watch) look(ctx context.Context, rescan bool) ([]*object.Object, error) {
	now := time.Now()
	var names []string
	var err error
	stop := w.closing(ctx)
	if rescan || w.scanned.IsZero() || now.Sub(w.scanned) >= w.rescan {
		names, err = w.Find(ctx, w.rdb)
		w.scanned = now
	} else {
		names, err = w.Again(ctx, w.rdb, w.known)
	}
	stop()
	if err != nil {
		return nil, err
	}
	w.known = names
	return w.Objects(ctx, w.client, names)
}

// write prints the list again and again.
func (w *watch) write(ctx context.Context, out *terminal.Printer) error {
	tick := time.NewTicker(w.delay)
	defer tick.Stop()
	for n := 1; ; n++ {
		objects, err := w.look(ctx, false)
		if err != nil {
			return err
		}
		object.ByWaiting.Sort(objects)
		if out.JSON {
			if err := out.Encode(append([]*object.Object{}, objects...), ""); err != nil {
				return err
			}
		} else {
			out.Printf("%s\n", time.Now().Format(time.DateTime))
			listing.Table(objects).Print(out)
			out.Printf("\n")
		}
		if out.Err != nil {
			return out.Err
		}
		if n == w.count {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// live shows the list on a terminal until the user quits.
func (w *watch) live(ctx context.Context, out *terminal.Printer) error {
	return tui.Show(ctx, out, &tui.Source{
		Addr: w.addr, Delay: w.delay, Look: w.look,
		Explain: func(err error) error { return w.failed(ctx, err) },
	})
}
