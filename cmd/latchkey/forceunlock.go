package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

const forceUnlockHelp = `force-unlock takes NAME from HOLDER, as show and ls --json give it: a lock, all
hold counts of it; one half of a read-write lock (a writer has :write at its end);
or a permit, whose id is its holder. The beginning of a holder will do where no
other has the same. Waiters are woken.

If somebody else has it by now, nothing happens. A holder that lives, if it is a
Go client, learns of it within a third of its lease, and until then works on.

Exit status: 75 if HOLDER does not have it, 1 if you say no.`

func newForceUnlock(conn *connection) *cobra.Command {
	var id string
	var yes bool
	out := new(text.Printer)
	cmd := &cobra.Command{
		Use:               "force-unlock NAME --id HOLDER",
		Short:             "Take a lock or a permit from its holder",
		Long:              forceUnlockHelp,
		Example:           "  latchkey force-unlock orders:42 --id 0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51:17",
		Args:              oneName,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if id == "" {
				return exit.Usagef("force-unlock: --id is missing: whose hold is it? 'latchkey show' tells")
			}
			if err := mayBe(args[0]); err != nil {
				return err
			}
			out.To(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				return s.forceUnlock(ctx, out, args[0], id, yes)
			}, latchkey.WithPubSub(conn.publishes()))
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the `HOLDER` that must have it")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	text.JSONVar(cmd, out)
	return cmd
}

func (s *session) forceUnlock(ctx context.Context, out *text.Printer, name, id string, yes bool) error {
	info, err := s.client.Info(ctx, name)
	if err != nil {
		return err
	}
	o := object.New(info)
	if o.Held(id) == nil {
		matches := o.HeldBy(id)
		switch len(matches) {
		case 0:
			return changed(name, id, o)
		case 1:
			id = matches[0]
		default:
			return exit.Usagef("force-unlock: --id %s: %d holders of %s begin with that", text.Name(id), len(matches), text.Name(name))
		}
	}
	if !yes && !out.JSON {
		o.Print(out)
		out.Printf("\n")
	}
	if err := confirm(ctx, yes, "Take %s from %s?", text.Name(name), text.Name(id)); err != nil {
		return err
	}
	freed, err := s.free(ctx, o, id)
	if err != nil {
		return err
	}
	if !freed {
		return changed(name, id, nil)
	}
	return out.Show(struct {
		Name  string `json:"name"`
		ID    string `json:"id"`
		Freed bool   `json:"freed"`
	}{name, id, true}, func() {
		out.Printf("%s was taken from %s\n", text.Name(name), text.Name(id))
	})
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

// free takes an object away from one holder, by the method of its kind.
func (s *session) free(ctx context.Context, o *object.Object, id string) (bool, error) {
	switch latchkey.Kind(o.Kind) {
	case latchkey.KindLock:
		return rlock.New(s.client, o.Name).ForceUnlockHolder(ctx, id)
	case latchkey.KindFair:
		return fairlock.New(s.client, o.Name).ForceUnlockHolder(ctx, id)
	case latchkey.KindReadWrite:
		rw := rwlock.New(s.client, o.Name)
		if strings.HasSuffix(id, ":write") {
			return rw.WriteLock().ForceUnlockHolder(ctx, id)
		}
		return rw.ReadLock().ForceUnlockHolder(ctx, id)
	case latchkey.KindPermitSemaphore:
		err := permitsemaphore.New(s.client, o.Name).Release(ctx, id)
		if errors.Is(err, latchkey.ErrNotHeld) {
			return false, nil
		}
		return err == nil, err
	}
	return false, exit.Errorf(exit.Failed, "%s is a %s, which cannot be taken from one holder", text.Name(o.Name), o.Kind)
}
