package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
)

const lsHelp = `ls lists the locks that are held or waited for, and the semaphores, permits and
latches that show what they are, with those who have them.

It reads every key name once, by one pass of SCAN, which does not stop others. In a
cluster it reads those of all masters. A semaphore or latch that nobody uses at the
moment is an integer and nothing else in Redis; so is many another thing. It is
listed as a counter by --all, and where --kind asks for semaphores or latches.

WAITING is how many stand in the queue of a fair lock; for the others, how many
connections listen for it, each of which may have many waiters.`

const lsExamples = `  latchkey ls
  latchkey ls --match 'orders:*' --json
  latchkey ls --kind lock,fair,readwrite
  latchkey ls --all`

// kindNames are what --kind takes.
var kindNames = []string{
	string(latchkey.KindLock), string(latchkey.KindFair), string(latchkey.KindReadWrite), string(latchkey.KindMultiLock),
	string(latchkey.KindSemaphore), string(latchkey.KindPermitSemaphore), string(latchkey.KindLatch), string(latchkey.KindCounter), kindFree,
}

func newLs(conn *connection) *cobra.Command {
	f, out := new(finder), new(printer)
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List locks and other objects, with their holders",
		Long:    lsHelp,
		Example: lsExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			out.to(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				objects, err := f.list(ctx, s, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				return out.show(objects, func() { listTable(objects).write(out) })
			})
		},
	}
	f.register(cmd)
	printVar(cmd, out)
	return cmd
}

// register adds the flags that choose what is listed.
func (f *finder) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.match, "match", "", "only names that match the `PATTERN`: * ? [a-z], as in Redis")
	cmd.Flags().StringSliceVar(&f.kinds, "kind", nil, "only these `KINDS`: "+strings.Join(kindNames, ", "))
	cmd.Flags().BoolVarP(&f.all, "all", "A", false, "also integers that may be semaphores or latches, and free locks with a token")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kindNames, cobra.ShellCompDirectiveNoFileComp))
}

func (f *finder) check() error {
	for _, k := range f.kinds {
		if !slices.Contains(kindNames, k) {
			return usagef("%s is no kind; there are %s", shownName(k), strings.Join(kindNames, ", "))
		}
	}
	return nil
}

// list finds what there is, and shows progress on a terminal if that takes long.
func (f *finder) list(ctx context.Context, s *session, errs io.Writer) ([]*object, error) {
	done := f.progress(errs)
	defer done()
	names, err := f.find(ctx, s.rdb)
	if err != nil {
		return nil, err
	}
	objects, err := f.objects(ctx, s, names)
	if objects == nil {
		objects = []*object{} // which JSON calls []
	}
	return objects, err
}

// progress shows how many keys were looked at, after the first second.
func (f *finder) progress(errs io.Writer) (done func()) {
	if !isTerminal(errs) {
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
				fmt.Fprintf(errs, "\r%s keys\x1b[K", grouped(uint64(f.keys.Load())))
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

func listTable(objects []*object) *table {
	t := &table{titles: listTitles}
	for _, o := range objects {
		t.add(o.line()...)
	}
	return t
}
