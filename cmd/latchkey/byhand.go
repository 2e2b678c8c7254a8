package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/force"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

const acquireHelp = `acquire takes the lock NAME and keeps it when the command has ended, for people who
close something by hand. It stays closed for --lease, which nothing renews:
'latchkey extend' prolongs it, and 'latchkey release' ends it. Without -n or -w it
waits for the lock as long as that takes. (For a command that needs the lock while
it runs, there is 'latchkey run'.)

All who use a name must agree on what it is: a lock, a fair lock (--fair), a
read-write lock (-s and -x) or a number of permits (--permits).

It writes the holder, which the other two commands ask for, and behind a space the
fencing token: each acquisition has a greater one than the last, for what the lock
protects to compare. With -s, -x, --fair and --permits there is none.

Exit status: 75 if somebody else has the lock, or a run that this one is part of.`

const acquireExamples = `  held=$(latchkey acquire deploy --lease 1h --label "ann, release 42")
  latchkey extend deploy --id "${held% *}" --lease 30m
  latchkey release deploy --id "${held% *}"`

func newAcquire(conn *connection) *cobra.Command {
	w, out := &want{fixed: true}, new(terminal.Printer)
	cmd := &cobra.Command{
		Use:               "acquire NAME --lease TIME",
		Short:             "Take a lock and keep it, for people",
		Long:              acquireHelp,
		Example:           acquireExamples,
		Args:              oneName,
		ValidArgsFunction: conn.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("lease") {
				return exit.Usagef("acquire: --lease is missing: for how long?")
			}
			if err := w.check("acquire"); err != nil {
				return err
			}
			if err := mayBe(args[0]); err != nil {
				return err
			}
			w.name, w.conflict = args[0], exit.Conflict
			w.labelFor("")
			out.To(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error { return s.acquire(ctx, out, w) },
				latchkey.WithPubSub(conn.publishes()))
		},
	}
	w.register(cmd.Flags(), "user@host")
	terminal.DurationVar(cmd.Flags(), &w.lease, "lease", "", 0, "how long the lock stays closed, unless it is extended or released; at least 100ms")
	terminal.JSONVar(cmd, out)
	return cmd
}

// acquire takes what w says and leaves it held.
func (s *session) acquire(ctx context.Context, out *terminal.Printer, w *want) error {
	outliveReader()
	// The session's client gives back what it holds when it is closed. So another
	// client takes the lock, and is not closed.
	waiting := &waitingLine{what: w.what()}
	client := latchkey.New(s.rdb, append(waiting.options(), latchkey.WithTakenDetails())...)
	g, err := w.take(ctx, client, s.addr)
	waiting.clear()
	if err != nil {
		_ = client.Close() // takes back a grant whose reply was lost
		return err
	}
	if err = context.Cause(ctx); err == nil {
		err = out.Show(struct {
			Name    string `json:"name"`
			ID      string `json:"id"`
			Token   int64  `json:"token"`
			LeaseMs int64  `json:"lease_ms"`
		}{w.name, g.holder(), g.token(), w.lease.Milliseconds()}, func() {
			if g.token() == 0 {
				out.Printf("%s\n", g.holder())
			} else {
				out.Printf("%s %d\n", g.holder(), g.token())
			}
		})
	}
	if err == nil {
		err = context.Cause(ctx) // a signal, which is reported in place of the holder
	}
	if err != nil { // nobody has read who holds it
		if _, failed := g.release(context.WithoutCancel(ctx)); failed != nil {
			warn("%s could not be given back, and ends with its lease: %v", w.what(), failed)
		}
	}
	return err
}

// outliveReader lets the command go on when nobody reads its output any more: what
// it has taken would be lost. (Nobody reads the channel.)
func outliveReader() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

const extendHelp = `extend makes the lease of HOLDER last for --lease from now. It never shortens a
lease. HOLDER is what 'latchkey acquire' wrote, or what show and ls --json give; the
beginning of a holder will do where no other has the same.

A holder that lives does not hear of it: 'latchkey run' and programs with a lease
that is renewed go on renewing theirs.

Exit status: 75 if HOLDER does not have it any more.`

func newExtend(conn *connection) *cobra.Command {
	var lease time.Duration
	cmd := byHolder(conn, &cobra.Command{
		Use:     "extend NAME --id HOLDER --lease TIME",
		Short:   "Prolong the lease of a lock that is kept by hand",
		Long:    extendHelp,
		Example: "  latchkey extend deploy --id 0b7c9a3e --lease 30m",
	}, func(ctx context.Context, s *session, out *terminal.Printer, name, id string) error {
		if lease < time.Millisecond || lease > object.MaxTime {
			return exit.Usagef("extend: a --lease of %v: the least is 1ms, the most %v", lease, object.MaxTime)
		}
		o, id, err := s.heldBy(ctx, "extend", name, id)
		if err != nil {
			return err
		}
		if err := s.extend(ctx, o, id, lease); err != nil {
			return err
		}
		return out.Show(struct {
			Name    string `json:"name"`
			ID      string `json:"id"`
			LeaseMs int64  `json:"lease_ms"`
		}{name, id, lease.Milliseconds()}, func() {
			out.Printf("%s is held by %s for %s at least\n", text.Name(name), text.Name(id), text.Span(lease))
		})
	})
	terminal.DurationVar(cmd.Flags(), &lease, "lease", "", 0, "how long it lasts from now, at least")
	return cmd
}

// extend makes the lease of one holder, which must have the object, last for lease
// from now at least.
func (s *session) extend(ctx context.Context, o *object.Object, id string, lease time.Duration) error {
	var extended bool
	var err error
	if l := force.LockOf(s.client, &o.Info, id); l != nil {
		extended, err = l.ExtendHolder(ctx, id, lease)
	} else if latchkey.Kind(o.Kind) != latchkey.KindPermitSemaphore {
		return exit.Errorf(exit.Failed, "%s is a %s, whose leases cannot be extended for one holder", text.Name(o.Name), o.Kind)
	} else {
		extended, err = permitsemaphore.New(s.client, o.Name).ExtendLease(ctx, id, lease)
	}
	if err == nil && !extended {
		err = changed(o.Name, id, nil)
	}
	return err
}

const releaseHelp = `release gives back what HOLDER has of NAME: a lock, all hold counts of it; one half
of a read-write lock (a writer has :write at its end); or a permit. HOLDER is what
'latchkey acquire' wrote; the beginning of it will do where no other holder has the
same. Waiters are woken. If somebody else has it by now, nothing happens.

Exit status: 75 if HOLDER does not have it any more.`

func newRelease(conn *connection) *cobra.Command {
	return byHolder(conn, &cobra.Command{
		Use:     "release NAME --id HOLDER",
		Short:   "Give back a lock that is kept by hand",
		Long:    releaseHelp,
		Example: "  latchkey release deploy --id 0b7c9a3e",
	}, func(ctx context.Context, s *session, out *terminal.Printer, name, id string) error {
		o, id, err := s.heldBy(ctx, "release", name, id)
		if err != nil {
			return err
		}
		if err := s.free(ctx, o, id); err != nil {
			return err
		}
		return out.Show(struct {
			Name     string `json:"name"`
			ID       string `json:"id"`
			Released bool   `json:"released"`
		}{name, id, true}, func() {
			out.Printf("%s was released by %s\n", text.Name(name), text.Name(id))
		})
	})
}

// byHolder completes a command that changes what one holder has.
func byHolder(conn *connection, cmd *cobra.Command, do func(ctx context.Context, s *session, out *terminal.Printer, name, id string) error) *cobra.Command {
	var id string
	out := new(terminal.Printer)
	cmd.Args = oneName
	cmd.ValidArgsFunction = conn.completeName
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if id == "" {
			return exit.Usagef("%s: --id is missing: whose hold is it? 'latchkey show' tells", cmd.Name())
		}
		if err := mayBe(args[0]); err != nil {
			return err
		}
		out.To(cmd.OutOrStdout())
		return conn.session(func(ctx context.Context, s *session) error { return do(ctx, s, out, args[0], id) },
			latchkey.WithPubSub(conn.publishes()))
	}
	cmd.Flags().StringVar(&id, "id", "", "the `HOLDER` that must have it")
	_ = cmd.RegisterFlagCompletionFunc("id", conn.completeHolder)
	terminal.JSONVar(cmd, out)
	return cmd
}
