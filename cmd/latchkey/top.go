package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
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
	finder
	delay, rescan time.Duration
	count         int
}

func newTop(conn *connection) *cobra.Command {
	f, out := new(topFlags), new(printer)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch what is held and waited for",
		Long:  topHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			out.to(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				w := &watch{session: s, topFlags: f}
				if out.json || !isTerminal(out.Writer) {
					return w.write(ctx, out)
				}
				return w.live(ctx, out)
			})
		},
	}
	f.register(cmd)
	durationVar(cmd.Flags(), &f.delay, "delay", "d", 2*time.Second, "how long to wait between two looks; at least 100ms")
	durationVar(cmd.Flags(), &f.rescan, "rescan", "", 30*time.Second, "how often to read all key names")
	cmd.Flags().IntVar(&f.count, "count", 0, "how often to write the list where there is no terminal; 0 is without end")
	printVar(cmd, out)
	return cmd
}

func (f *topFlags) check() error {
	if f.delay < 100*time.Millisecond || f.count < 0 {
		return usagef("top: --delay must be at least 100ms, and --count not negative")
	}
	return f.finder.check()
}

// A watch looks at the objects again and again.
type watch struct {
	*session
	*topFlags
	known   []string // names of objects seen last
	scanned time.Time
}

// look returns what there is now.
func (w *watch) look(ctx context.Context, rescan bool) ([]*object, error) {
	now := time.Now()
	var names []string
	var err error
	if rescan || w.scanned.IsZero() || now.Sub(w.scanned) >= w.rescan {
		names, err = w.find(ctx, w.rdb)
		w.scanned = now
	} else {
		names, err = w.again(ctx, w.rdb, w.known)
	}
	if err != nil {
		return nil, err
	}
	w.known = names
	return w.objects(ctx, w.session, names)
}

// write writes the list over and over.
func (w *watch) write(ctx context.Context, out *printer) error {
	tick := time.NewTicker(w.delay)
	defer tick.Stop()
	for n := 1; ; n++ {
		objects, err := w.look(ctx, false)
		if err != nil {
			return err
		}
		byWaiting.sort(objects)
		if out.json {
			if err := out.encode(append([]*object{}, objects...), ""); err != nil {
				return err
			}
		} else {
			out.printf("%s\n", time.Now().Format(time.DateTime))
			listTable(objects).write(out)
			out.printf("\n")
		}
		if out.err != nil {
			return out.err
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

// live shows the list on a terminal until the user has seen enough.
func (w *watch) live(ctx context.Context, out *printer) error {
	m := &screen{watch: w, ctx: ctx, colour: out.colour}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithOutput(out.Writer)).Run()
	if m.failure != nil {
		return m.failure
	}
	return err
}

// An order is in which objects are shown.
type order int

const (
	byWaiting order = iota
	byHeld
	byName
	orders
)

func (o order) String() string { return [...]string{"waiters", "time held", "name"}[o] }

// sort sorts objects; what is equal keeps its order, which is by name.
func (o order) sort(objects []*object) {
	slices.SortStableFunc(objects, func(a, b *object) int {
		switch o {
		case byWaiting:
			return cmp.Compare(b.waiting(), a.waiting())
		case byHeld:
			return cmp.Compare(b.heldFor(), a.heldFor())
		}
		return 0
	})
}
