package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/listing"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/semaphore"
)

const semHelp = `sem looks at semaphores and changes them. Both of Redisson's kinds look alike in
Redis while no permit is out: a number. Permits with ids (RPermitExpirableSemaphore)
have leases and holders; those of the plain kind (RSemaphore) have neither.`

func newSem(conn *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sem",
		Short: "Look at semaphores, take and give permits",
		Long:  semHelp,
		Args:  cobra.NoArgs,
		RunE:  needsCommand,
	}
	cmd.AddCommand(newSemShow(conn), newSemSet(conn), newSemAdd(conn), newSemAcquire(conn), newSemRelease(conn), newSemDelete(conn))
	return cmd
}

// needsCommand is the action of a group of commands without a subcommand.
func needsCommand(cmd *cobra.Command, _ []string) error {
	return exit.Usagef("%s: which command? 'latchkey %s --help' lists them", cmd.Name(), cmd.Name())
}

// A change is a command that changes an object and then shows it.
type change struct {
	cmd   cobra.Command
	args  int  // number of arguments after NAME
	maybe int  // number of optional arguments after those
	looks bool // the command changes nothing
	do    func(ctx context.Context, s *session, name string, args []string) (any, error)
}

// command returns the cobra command. It shows what do returns: an object as by
// show, a text, or nothing.
func (c *change) command(conn *connection) *cobra.Command {
	cmd, out := &c.cmd, new(terminal.Printer)
	cmd.Args = func(cmd *cobra.Command, args []string) error { return named(cmd, args, 1+c.args, 1+c.args+c.maybe) }
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out.To(cmd.OutOrStdout())
		if !c.looks {
			if err := mayBe(args[0]); err != nil {
				return err
			}
		}
		return conn.session(func(ctx context.Context, s *session) error {
			got, err := c.do(ctx, s, args[0], args[1:])
			if err != nil {
				return err
			}
			err = out.Show(got, func() {
				switch got := got.(type) {
				case *object.Object:
					listing.Print(got, out)
				case *taken:
					got.write(out)
				case *done:
					out.Printf("%s\n", got.text)
				}
			})
			if t, ok := got.(*taken); ok && err != nil {
				err = t.back(context.WithoutCancel(ctx), err)
			}
			return err
		}, latchkey.WithPubSub(conn.publishes()))
	}
	terminal.JSONVar(cmd, out)
	return cmd
}

// A done reports that something was done, or had been done already.
type done struct {
	Name    string `json:"name"`
	Changed bool   `json:"changed"`

	text string
}

// A taken is the output of taking permits.
type taken struct {
	Name    string   `json:"name"`
	Permits int      `json:"permits"`
	IDs     []string `json:"ids"`

	giveBack func(ctx context.Context) error
}

// back gives the permits back because nobody has read their ids, and returns
// err, the reason.
func (t *taken) back(ctx context.Context, err error) error {
	if failed := t.giveBack(ctx); failed != nil {
		return exit.Errorf(exit.Failed, "%v; nor could the permits be given back: %v", err, failed)
	}
	return err
}

func (t *taken) write(out *terminal.Printer) {
	for _, id := range t.IDs {
		out.Printf("%s\n", id)
	}
}

// seen returns the present state of the object with that name. word says what
// its number counts.
func (s *session) seen(ctx context.Context, name, word string) (any, error) {
	info, err := s.client.Info(ctx, name)
	if err != nil {
		return nil, err
	}
	o := object.New(info)
	o.Word = word
	return o, nil
}

// number parses the argument N.
func number(arg string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || n < least || n > most {
		return 0, exit.Usagef("N must be a number between %d and %d, not %s", least, most, text.Name(arg))
	}
	return n, nil
}

// oneOr parses an optional argument; its default is 1.
func oneOr(args []string, most int64) (int64, error) {
	if len(args) == 0 {
		return 1, nil
	}
	return number(args[0], 1, most)
}

func newSemShow(conn *connection) *cobra.Command {
	c := change{looks: true, cmd: cobra.Command{Use: "show NAME", Short: "Show permits and who has them, as 'latchkey show' does", Long: showHelp}}
	c.do = func(ctx context.Context, s *session, name string, _ []string) (any, error) {
		return s.seen(ctx, name, listing.CountAvailable)
	}
	return c.command(conn)
}

func newSemSet(conn *connection) *cobra.Command {
	c := change{args: 1, cmd: cobra.Command{
		Use:   "set NAME N",
		Short: "Bring the number of permits to N",
		Long: `set brings the number of permits to N, and makes the semaphore if there is none.
Permits with ids that are out count; so less than none may be available for a
while. Those of a plain semaphore that are in use are known to nobody: N are
available then, which is how to bring back what crashed workers have taken.`,
	}}
	absent := c.cmd.Flags().Bool("if-absent", false, "only if there is no semaphore")
	c.do = func(ctx context.Context, s *session, name string, args []string) (any, error) {
		n, err := number(args[0], 0, object.MaxPermits)
		if err != nil {
			return nil, err
		}
		sem := permitsemaphore.New(s.client, name)
		if *absent {
			_, err = sem.TrySetPermits(ctx, int(n))
		} else {
			err = sem.SetPermits(ctx, int(n))
		}
		if err != nil {
			return nil, err
		}
		return s.seen(ctx, name, listing.CountAvailable)
	}
	return c.command(conn)
}

func newSemAdd(conn *connection) *cobra.Command {
	c := change{args: 1, cmd: cobra.Command{
		Use:     "add NAME N",
		Short:   "Add permits, or with -- and a number below 0 take some away for good",
		Example: "  latchkey sem add pool 2\n  latchkey sem add pool -- -2",
	}}
	c.do = func(ctx context.Context, s *session, name string, args []string) (any, error) {
		n, err := number(args[0], -object.MaxPermits, object.MaxPermits)
		if err == nil {
			err = permitsemaphore.New(s.client, name).AddPermits(ctx, int(n))
		}
		if err != nil {
			return nil, err
		}
		return s.seen(ctx, name, listing.CountAvailable)
	}
	return c.command(conn)
}

const semAcquireHelp = `acquire takes N permits (1), and waits for them as long as that takes. The permits
are kept when the command has ended: give them back with 'latchkey sem release'.
(What a command needs while it runs, 'latchkey run --permits' gives it, and gives
it back.)

With --lease, permits with ids are taken, and their ids are written to standard
output, one in a line; each comes back by itself when its lease is over. Without,
they are those of a plain semaphore, which have neither.

Exit status: 75 if they were not to be had in time.`

func newSemAcquire(conn *connection) *cobra.Command {
	c := change{maybe: 1, cmd: cobra.Command{
		Use: "acquire NAME [N]", Short: "Take permits and keep them", Long: semAcquireHelp,
		Example: "  id=$(latchkey sem acquire pool --lease 10m) && ./job; latchkey sem release pool --id $id",
	}}
	w := new(waitFlags)
	w.register(c.cmd.Flags(), "")
	var lease time.Duration
	terminal.DurationVar(c.cmd.Flags(), &lease, "lease", "", 0, "take permits with ids, which come back after so long at the latest")
	c.do = func(ctx context.Context, s *session, name string, args []string) (any, error) {
		n, err := oneOr(args, 10_000)
		if err == nil {
			err = w.check()
		}
		leased := c.cmd.Flags().Changed("lease")
		if err == nil && leased && (lease < time.Millisecond || lease > object.MaxTime) {
			err = exit.Usagef("acquire: a --lease of %v: the least is 1ms, the most %v", lease, object.MaxTime)
		}
		if err != nil {
			return nil, err
		}
		outliveReader()
		if !leased {
			return s.acquirePlain(ctx, name, int(n), w)
		}
		return s.acquireLeased(ctx, name, int(n), lease, w)
	}
	return c.command(conn)
}

func (s *session) acquirePlain(ctx context.Context, name string, n int, w *waitFlags) (any, error) {
	info, err := s.client.Info(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Kind == latchkey.KindPermitSemaphore {
		return nil, exit.Usagef("the permits of %s have ids and leases, so --lease is needed", text.Name(name))
	}
	sem := semaphore.New(s.client, name)
	if w.bounded() {
		err = sem.TryAcquire(ctx, n, w.option()...)
	} else {
		err = sem.Acquire(ctx, n)
	}
	t := &taken{Name: name, Permits: n, IDs: []string{}}
	t.giveBack = func(ctx context.Context) error { return sem.Release(ctx, n) }
	return t, s.notTaken(name, err)
}

func (s *session) acquireLeased(ctx context.Context, name string, n int, lease time.Duration, w *waitFlags) (any, error) {
	// The session's client gives back what it holds when it is closed. So
	// another client takes the permits, and is not closed.
	client := latchkey.New(s.rdb)
	sem := permitsemaphore.New(client, name)
	acquire := func(how func(context.Context, int, ...latchkey.LockOption) ([]*permitsemaphore.Permit, error)) acquire[[]*permitsemaphore.Permit] {
		return func(ctx context.Context, opts ...latchkey.LockOption) ([]*permitsemaphore.Permit, error) {
			return how(ctx, n, opts...)
		}
	}
	permits, err := attempt(ctx, w, acquire(sem.AcquireN), acquire(sem.TryAcquireN), []latchkey.LockOption{latchkey.Lease(lease)})
	if err != nil {
		_ = client.Close() // takes back permits whose grant was lost
	}
	t := &taken{Name: name, Permits: n, IDs: []string{}}
	for _, p := range permits {
		t.IDs = append(t.IDs, p.ID())
	}
	t.giveBack = func(ctx context.Context) error {
		return permitsemaphore.New(s.client, name).Release(ctx, t.IDs...)
	}
	return t, s.notTaken(name, err)
}

// notTaken returns the error to report for an acquire that returned err, or
// nil.
func (s *session) notTaken(name string, err error) error {
	if refusal(err) != nil {
		return exit.Errorf(exit.Conflict, "%s has not so many permits available", text.Name(name))
	}
	return err
}

func newSemRelease(conn *connection) *cobra.Command {
	c := change{maybe: 1, cmd: cobra.Command{
		Use:   "release NAME [N]",
		Short: "Give permits back: N of a plain semaphore, or those of --id",
		Long: `release gives N permits (1) back to a plain semaphore, which does not ask where
they come from. With --id it gives back those permits, all or none.

Exit status: 75 if a permit of --id is not out.`,
	}}
	ids := c.cmd.Flags().StringSlice("id", nil, "`ID` of a permit; may be given several times")
	c.do = func(ctx context.Context, s *session, name string, args []string) (any, error) {
		if c.cmd.Flags().Changed("id") {
			if len(args) > 0 {
				return nil, exit.Usagef("release: N and --id exclude each other")
			}
			if len(*ids) == 0 || slices.Contains(*ids, "") {
				return nil, exit.Usagef("release: an --id is empty")
			}
			if err := permitsemaphore.New(s.client, name).Release(ctx, *ids...); err != nil {
				return nil, err
			}
			return s.seen(ctx, name, listing.CountAvailable)
		}
		n, err := oneOr(args, object.MaxPermits)
		if err != nil {
			return nil, err
		}
		info, err := s.client.Info(ctx, name)
		if err == nil && info.Kind == latchkey.KindPermitSemaphore {
			err = exit.Usagef("the permits of %s have ids, so --id is needed", text.Name(name))
		}
		if err == nil {
			err = semaphore.New(s.client, name).Release(ctx, int(n))
		}
		if err != nil {
			return nil, err
		}
		return s.seen(ctx, name, listing.CountAvailable)
	}
	return c.command(conn)
}

func newSemDelete(conn *connection) *cobra.Command {
	c := change{cmd: cobra.Command{
		Use:   "delete NAME",
		Short: "Remove a semaphore and the permits that are out",
	}}
	yes := c.cmd.Flags().BoolP("yes", "y", false, "do not ask")
	c.do = func(ctx context.Context, s *session, name string, _ []string) (any, error) {
		if err := confirm(ctx, *yes, "Remove the semaphore %s?", text.Name(name)); err != nil {
			return nil, err
		}
		was, err := permitsemaphore.New(s.client, name).Delete(ctx)
		return removed(name, was), err
	}
	return c.command(conn)
}

// removed reports whether there was anything to remove.
func removed(name string, was bool) *done {
	if was {
		return &done{name, true, text.Name(name) + " was removed"}
	}
	return &done{name, false, text.Name(name) + " was not there"}
}
