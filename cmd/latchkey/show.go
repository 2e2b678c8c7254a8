package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
)

const showHelp = `show tells what NAME stands for, who holds it and who waits for it: with label,
host and process where the holder has a label, as 'latchkey run' gives it; of a
Java holder, Redis knows client and thread. It is no error that nobody does.`

func newShow(conn *connection) *cobra.Command {
	return newLook(conn, &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a lock, permits or a latch, and who waits",
		Long:  showHelp,
	}, func(o *object) any { return o }, (*object).writeAll)
}

const waitersHelp = `waiters lists who waits for NAME, the next one first. Redis knows that of fair
locks only. For all others it knows how many connections listen: each is a
process, with one waiter or many.`

func newWaiters(conn *connection) *cobra.Command {
	return newLook(conn, &cobra.Command{
		Use:   "waiters NAME",
		Short: "List who waits, in order",
		Long:  waitersHelp,
	}, func(o *object) any {
		return struct {
			Name      string   `json:"name"`
			NameBytes string   `json:"name_base64,omitempty"`
			Waiters   []waiter `json:"waiters"`
			Listeners int      `json:"listeners"`
		}{o.Name, o.NameBytes, o.Waiters, o.Listeners}
	}, (*object).writeWaiters)
}

// newLook makes a command that shows something of an object.
func newLook(conn *connection, cmd *cobra.Command, data func(*object) any, people func(*object, *printer)) *cobra.Command {
	out := new(printer)
	cmd.Args = oneName
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out.to(cmd.OutOrStdout())
		return conn.session(func(ctx context.Context, s *session) error {
			info, err := s.client.Info(ctx, args[0])
			if err != nil {
				return err
			}
			o := newObject(info)
			return out.show(data(o), func() { people(o, out) })
		})
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	printVar(cmd, out)
	return cmd
}

// oneName checks that there is one argument, and that it is not empty.
func oneName(cmd *cobra.Command, args []string) error { return named(cmd, args, 1, 1) }

// named checks that the first argument is a NAME, and how many there are.
func named(cmd *cobra.Command, args []string, least, most int) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return usagef("%s: the NAME is missing", cmd.Name())
	case len(args) < least:
		return usagef("%s: %s", cmd.Name(), "something is missing: "+cmd.UseLine())
	case len(args) > most:
		return usagef("%s: there is more than a NAME: %s", cmd.Name(), shownName(args[most]))
	}
	return nil
}

// writeAll writes all there is to know.
func (o *object) writeAll(out *printer) {
	out.printf("%s  %s\n", shownName(o.Name), out.paint("1", o.Kind))
	if o.Beside != "" {
		out.printf("  this is    %s\n", o.Beside)
	}
	if o.info.Kind != latchkey.KindFree && !o.counted() {
		out.printf("  lease      %s\n", leaseText(o.info.Lease))
	}
	if o.counted() {
		out.printf("  %s  %d\n", o.countWord(), o.Count)
		if n := len(o.Holders); n > 0 {
			out.printf("  out        %d\n", n)
		}
		if o.info.Lease > 0 {
			out.printf("  vanishes   in %s\n", span(o.info.Lease))
		}
	}
	if o.Token > 0 {
		out.printf("  token      %d\n", o.Token)
	}
	if o.Listeners > 0 {
		out.printf("  listeners  %d\n", o.Listeners)
	}
	if len(o.Holders) > 0 {
		out.printf("\n")
		o.holderTable().write(out)
	}
	if len(o.Waiters) > 0 {
		out.printf("\n")
		o.waiterTable().write(out)
	}
}

const (
	countLeft      = "left     "
	countAvailable = "available"
)

// countWord says what the number of an object counts, nine letters wide.
func (o *object) countWord() string {
	switch {
	case o.info.Kind == latchkey.KindLatch:
		return countLeft
	case o.info.Kind != latchkey.KindCounter:
		return countAvailable
	case o.word != "" && o.Beside == "":
		return o.word
	}
	return "value    "
}

func (o *object) holderTable() *table {
	t := &table{titles: []string{"HOLDER", "MODE", ">COUNT", ">HELD", ">LEASE", "LABEL", "PROCESS"}}
	for _, h := range o.info.Holders {
		mode := h.Mode
		if h.Value != "" {
			mode = h.Value
		}
		t.add(shownName(h.ID), orDash(shownText(mode)), strconv.Itoa(h.Count), since(h.Since, o.info.At), leaseText(h.Lease),
			orDash(shownText(h.Label)), process(h.Host, h.PID))
	}
	return t
}

func (o *object) waiterTable() *table {
	t := &table{titles: []string{">PLACE", "WAITER", ">WAITS", ">DEADLINE", "LABEL", "PROCESS"}}
	for i, w := range o.info.Waiters {
		deadline := "-"
		if !w.Deadline.IsZero() {
			deadline = span(w.Deadline.Sub(o.info.At))
		}
		t.add(strconv.Itoa(i+1), orDash(shownText(w.ID)), since(w.Since, o.info.At), deadline,
			orDash(shownText(w.Label)), process(w.Host, w.PID))
	}
	return t
}

// writeWaiters writes the queue, or what there is to know without one.
func (o *object) writeWaiters(out *printer) {
	switch {
	case len(o.Waiters) > 0:
		o.waiterTable().write(out)
	case o.Listeners > 0:
		listen := "connections listen"
		if o.Listeners == 1 {
			listen = "connection listens"
		}
		out.printf("%d %s for %s; who waits there, nobody else knows\n", o.Listeners, listen, shownName(o.Name))
	case o.Listeners < 0:
		out.printf("nobody stands in a queue for %s; who listens, this server does not tell\n", shownName(o.Name))
	default:
		out.printf("nobody waits for %s\n", shownName(o.Name))
	}
}
