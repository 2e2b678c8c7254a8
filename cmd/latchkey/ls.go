package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/listing"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

const lsHelp = `ls lists the locks that are held or waited for, and the semaphores, permits and
latches that show what they are, with those who have them.

It reads every key name once, by one pass of SCAN, which does not stop others. In a
cluster it reads those of all masters. A semaphore or latch that nobody uses at the
moment is an integer and nothing else in Redis; so is many another thing. It is
listed as a counter by --all, and where --kind asks for semaphores or latches.

WAITING is how many stand in the queue of a fair lock; for the others, how many
connections listen for it, each of which may have many waiters. On a terminal that
is too narrow HOLDER is cut; its beginning is enough for --id of other commands. If
that does not do, TOKEN, COUNT and HOLDER are left out, in this order: show has them.`

const lsExamples = `  latchkey ls
  latchkey ls --match 'orders:*' --json
  latchkey ls --kind lock,fair,readwrite
  latchkey ls --all`

func newLs(conn *connection) *cobra.Command {
	f, out := new(listing.Finder), new(terminal.Printer)
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List locks and other objects, with their holders",
		Long:    lsHelp,
		Example: lsExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			out.To(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				objects, err := list(ctx, s, f, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				err = out.Show(objects, func() { listing.Table(objects).Print(out) })
				if err == nil && len(objects) == 0 && !out.JSON {
					say(cmd.ErrOrStderr(), fmt.Sprintf("no lock, semaphore or latch among %s keys", text.Grouped(uint64(f.Looked()))))
				}
				return err
			})
		},
	}
	f.Register(cmd)
	terminal.JSONVar(cmd, out)
	return cmd
}

// list finds the objects. If that takes long, it shows progress on a terminal.
func list(ctx context.Context, s *session, f *listing.Finder, errs io.Writer) ([]*object.Object, error) {
	done := progress(f, errs)
	defer done()
	stop := s.closing(ctx)
	names, err := f.Find(ctx, s.rdb)
	stop()
	if err != nil {
		return nil, err
	}
	objects, err := f.Objects(ctx, s.client, names)
	if objects == nil {
		objects = []*object.Object{} // so that JSON shows []
	}
	return objects, err
}

// progress shows the number of keys read so far, after the first second.
func progress(f *listing.Finder, errs io.Writer) (done func()) {
	if !terminal.IsTerminal(errs) {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for shown := false; ; shown = true {
			select {
			case <-tick.C:
				fmt.Fprintf(errs, "\r%s keys\x1b[K", text.Grouped(uint64(f.Looked())))
			case <-stop:
				if shown {
					fmt.Fprint(errs, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() { close(stop); <-ended }
}
