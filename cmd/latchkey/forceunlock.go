package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/listing"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/force"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

const forceUnlockHelp = `force-unlock takes NAME from HOLDER, as show and ls --json give it: a lock, all
hold counts of it; one half of a read-write lock (a writer has :write at its end);
or a permit, whose id is its holder. The beginning of a holder will do where no
other has the same. Waiters are woken.

If somebody else has it by now, nothing happens. A holder that lives, if it is a
Go client, learns of it within a third of its lease, and until then works on.

Exit status: 75 if HOLDER does not have it, 1 if you say no.`

func newForceUnlock(conn *connection) *cobra.Command {
	var yes bool
	cmd := byHolder(conn, &cobra.Command{
		Use:     "force-unlock NAME --id HOLDER",
		Short:   "Take a lock or a permit from its holder",
		Long:    forceUnlockHelp,
		Example: "  latchkey force-unlock orders:42 --id 0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51:17",
	}, func(ctx context.Context, s *session, out *terminal.Printer, name, id string) error {
		return s.forceUnlock(ctx, out, name, id, yes)
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (s *session) forceUnlock(ctx context.Context, out *terminal.Printer, name, id string, yes bool) error {
	o, id, err := s.heldBy(ctx, "force-unlock", name, id)
	if err != nil {
		return err
	}
	if !yes && !out.JSON {
		listing.Print(o, out)
		out.Printf("\n")
	}
	if err := confirm(ctx, yes, "Take %s from %s?", text.Name(name), text.Name(id)); err != nil {
		return err
	}
	if err := s.free(ctx, o, id); err != nil {
		return err
	}
	return out.Show(struct {
		Name  string `json:"name"`
		ID    string `json:"id"`
		Freed bool   `json:"freed"`
	}{name, id, true}, func() {
		out.Printf("%s was taken from %s\n", text.Name(name), text.Name(id))
	})
}

// heldBy returns the object with that name and the holder that id is, or begins.
func (s *session) heldBy(ctx context.Context, cmd, name, id string) (*object.Object, string, error) {
	info, err := s.client.Info(ctx, name)
	if err != nil {
		return nil, "", err
	}
	o := object.New(info)
	if o.Held(id) != nil {
		return o, id, nil
	}
	if len(id) < object.LeastPrefix {
		return nil, "", exit.Usagef("%s: --id %s: at least the first %d characters of a holder", cmd, text.Name(id), object.LeastPrefix)
	}
	switch matches := o.HeldBy(id); len(matches) {
	case 0:
		return nil, "", changed(name, id, o)
	case 1:
		return o, matches[0], nil
	default:
		return nil, "", exit.Usagef("%s: --id %s: %d holders of %s begin with that", cmd, text.Name(id), len(matches), text.Name(name))
	}
}

// changed is the error if another holder, or none, has the object. o is nil if
// the holder is unknown.
func changed(name, id string, o *object.Object) error {
	who := "any more"
	switch {
	case o == nil:
	case len(o.Holders) == 0:
		who = "(nobody has)"
	default:
		who = "(" + o.Who() + ")"
	}
	return exit.Errorf(exit.Conflict, "%s does not hold %s %s", text.Name(id), text.Name(name), who)
}

// free takes an object away from one holder, which must have it.
func (s *session) free(ctx context.Context, o *object.Object, id string) error {
	if !force.Can(o.Info.Kind) {
		return exit.Errorf(exit.Failed, "%s is a %s, which cannot be taken from one holder", text.Name(o.Name), o.Kind)
	}
	freed, err := force.Free(ctx, s.client, &o.Info, id)
	if err == nil && !freed {
		err = changed(o.Name, id, nil)
	}
	return err
}
