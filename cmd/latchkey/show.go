package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/listing"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

const showHelp = `show tells what NAME stands for, who holds it and who waits for it: with label,
host and process where the holder has a label, as 'latchkey run' gives it; of a
Java holder, Redis knows client and thread. It is no error that nobody does.`

func newShow(conn *connection) *cobra.Command {
	return newLook(conn, &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a lock, permits or a latch, and who waits",
		Long:  showHelp,
	}, func(o *object.Object) any { return o }, listing.Print)
}

const waitersHelp = `waiters lists who waits for NAME, the next one first. Redis knows that of fair
locks only. For all others it knows how many connections listen: each is a
process, with one waiter or many.`

func newWaiters(conn *connection) *cobra.Command {
	return newLook(conn, &cobra.Command{
		Use:   "waiters NAME",
		Short: "List who waits, in order",
		Long:  waitersHelp,
	}, func(o *object.Object) any {
		return struct {
			Name      string          `json:"name"`
			NameBytes string          `json:"name_base64,omitempty"`
			Waiters   []object.Waiter `json:"waiters"`
			Listeners int             `json:"listeners"`
		}{o.Name, o.NameBytes, o.Waiters, o.Listeners}
	}, listing.PrintWaiters)
}

// newLook returns a command that shows a part of an object.
func newLook(conn *connection, cmd *cobra.Command, data func(*object.Object) any, people func(*object.Object, *terminal.Printer)) *cobra.Command {
	out := new(terminal.Printer)
	cmd.Args = oneName
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out.To(cmd.OutOrStdout())
		return conn.session(func(ctx context.Context, s *session) error {
			info, err := s.client.Info(ctx, args[0])
			if err != nil {
				return err
			}
			o := object.New(info)
			return out.Show(data(o), func() { people(o, out) })
		})
	}
	cmd.ValidArgsFunction = conn.completeName
	terminal.JSONVar(cmd, out)
	return cmd
}

// oneName checks that there is exactly one argument and that it is a NAME.
func oneName(cmd *cobra.Command, args []string) error { return named(cmd, args, 1, 1) }

// named checks the number of arguments, and that the first is a NAME.
func named(cmd *cobra.Command, args []string, least, most int) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return exit.Usagef("%s: the NAME is missing", cmd.Name())
	case len(args) < least:
		return exit.Usagef("%s: %s", cmd.Name(), "something is missing: "+cmd.UseLine())
	case len(args) > most:
		return exit.Usagef("%s: there is more than a NAME: %s", cmd.Name(), text.Name(args[most]))
	}
	return nil
}

// mayBe returns an error if name cannot be the name of an object, or nil.
func mayBe(name string) error {
	if what := object.About(name); what != "" {
		return exit.Usagef("%s is %s", text.Name(name), what)
	}
	return nil
}
