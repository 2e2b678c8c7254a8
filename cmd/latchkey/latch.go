package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/listing"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/text"
)

const latchHelp = `latch lets scripts wait for each other: one sets a count, others count it down,
and whoever awaits it goes on when it has come to 0.`

const latchExamples = `  latchkey latch set deployed 3
  ./deploy.sh && latchkey latch count-down deployed     on each of three machines
  latchkey latch await deployed -w 10m && ./switch-over.sh`

func newLatch(conn *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "latch",
		Short:   "Wait for others, and count down for those who wait",
		Long:    latchHelp,
		Example: latchExamples,
		Args:    cobra.NoArgs,
		RunE:    needsCommand,
	}
	cmd.AddCommand(newLatchShow(conn), newLatchSet(conn), newLatchCountDown(conn), newLatchAwait(conn), newLatchDelete(conn))
	return cmd
}

func newLatchShow(conn *connection) *cobra.Command {
	c := change{looks: true, cmd: cobra.Command{Use: "show NAME", Short: "Show the count that is left, as 'latchkey show' does", Long: showHelp}}
	c.do = func(ctx context.Context, s *session, name string, _ []string) (any, error) {
		return s.seen(ctx, name, listing.CountLeft)
	}
	return c.command(conn)
}

func newLatchSet(conn *connection) *cobra.Command {
	c := change{args: 1, cmd: cobra.Command{
		Use:   "set NAME N",
		Short: "Begin a count of N",
		Long: `set begins a count of N.

Exit status: 75 if a count is running; that goes on.`,
	}}
	c.do = func(ctx context.Context, s *session, name string, args []string) (any, error) {
		n, err := number(args[0], 1, engine.MaxCount)
		if err != nil {
			return nil, err
		}
		set, err := countdownlatch.New(s.client, name).TrySetCount(ctx, n)
		if err == nil && !set {
			err = exit.Errorf(exit.Conflict, "a count of %s is running", text.Name(name))
		}
		if err != nil {
			return nil, err
		}
		return s.seen(ctx, name, listing.CountLeft)
	}
	return c.command(conn)
}

func newLatchCountDown(conn *connection) *cobra.Command {
	c := change{maybe: 1, cmd: cobra.Command{
		Use:     "count-down NAME [N]",
		Aliases: []string{"countdown"},
		Short:   "Count N down (1)",
		Long:    "count-down counts N down (1), each by a request of its own. When no count is running,\nnothing happens.",
	}}
	c.do = func(ctx context.Context, s *session, name string, args []string) (any, error) {
		n, err := oneOr(args, 1_000_000)
		if err != nil {
			return nil, err
		}
		latch := countdownlatch.New(s.client, name)
		for ; n > 0 && ctx.Err() == nil; n-- {
			if err := latch.CountDown(ctx); err != nil {
				return nil, err
			}
		}
		return s.seen(ctx, name, listing.CountLeft)
	}
	return c.command(conn)
}

func newLatchAwait(conn *connection) *cobra.Command {
	c := change{cmd: cobra.Command{
		Use:   "await NAME",
		Short: "Wait until the count has come to 0",
		Long: `await waits until the count of NAME has come to 0. When no count is running it does
not wait, because Redis cannot tell one that has ended from one that has not
begun: --set waits for one to be begun first.

Exit status: 75 if the time of --wait was over, or --nonblock found a count running.`,
	}}
	w := new(waitFlags)
	w.register(c.cmd.Flags(), "")
	set := c.cmd.Flags().Bool("set", false, "wait first for a count to be begun, if none is running")
	c.do = func(ctx context.Context, s *session, name string, _ []string) (any, error) {
		err := w.check()
		if err == nil && w.nonblock && *set {
			err = exit.Usagef("await: --nonblock and --set exclude each other")
		}
		if err == nil {
			err = awaited(ctx, countdownlatch.New(s.client, name), *set, w)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = exit.Errorf(exit.Conflict, "the count of %s has not come to 0", text.Name(name))
		}
		return &done{name, true, text.Name(name) + " has come to 0"}, err
	}
	return c.command(conn)
}

// awaited waits for a latch. It returns context.DeadlineExceeded if the wait is
// over.
func awaited(ctx context.Context, latch *countdownlatch.Latch, set bool, w *waitFlags) error {
	if w.nonblock || !set && w.bounded() && w.wait == 0 {
		n, err := latch.Count(ctx)
		if err == nil && n > 0 {
			err = context.DeadlineExceeded
		}
		return err
	}
	bounded := ctx
	if w.bounded() {
		var cancel func()
		bounded, cancel = context.WithTimeout(ctx, w.wait)
		defer cancel()
	}
	await := latch.Await
	if set {
		await = latch.AwaitSet
	}
	err := await(bounded)
	if errors.Is(err, context.DeadlineExceeded) {
		// If Redis is silent, the state of the count is unknown.
		last, cancel := context.WithTimeout(ctx, lastLook)
		defer cancel()
		if _, failed := latch.Count(last); failed != nil {
			return errors.New("no answer at the end of the wait")
		}
	}
	return err
}

// lastLook is how long the last request after a wait may take.
const lastLook = time.Second

func newLatchDelete(conn *connection) *cobra.Command {
	c := change{cmd: cobra.Command{
		Use:   "delete NAME",
		Short: "End a count whatever is left of it; who waits is released",
	}}
	yes := c.cmd.Flags().BoolP("yes", "y", false, "do not ask")
	c.do = func(ctx context.Context, s *session, name string, _ []string) (any, error) {
		if err := confirm(ctx, *yes, "End the count of %s, and let go on whoever waits for it?", text.Name(name)); err != nil {
			return nil, err
		}
		was, err := countdownlatch.New(s.client, name).Delete(ctx)
		return removed(name, was), err
	}
	return c.command(conn)
}
