package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

const forceUnlockHelp = `force-unlock takes NAME from HOLDER, as show and ls --json give it: a lock, all
hold counts of it; one half of a read-write lock (a writer has :write at its end);
or a permit, whose id is its holder. Waiters are woken.

If somebody else has it by now, nothing happens. A holder that lives, if it is a
Go client, learns of it within a third of its lease, and until then works on.

Exit status: 75 if HOLDER does not have it, 1 if you say no.`

func newForceUnlock(conn *connection) *cobra.Command {
	var id string
	var yes bool
	out := new(printer)
	cmd := &cobra.Command{
		Use:               "force-unlock NAME --id HOLDER",
		Short:             "Take a lock or a permit from its holder",
		Long:              forceUnlockHelp,
		Example:           "  latchkey force-unlock orders:42 --id 0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51:17",
		Args:              oneName,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if id == "" {
				return usagef("force-unlock: --id is missing: whose hold is it? 'latchkey show' tells")
			}
			if err := mayBe(args[0]); err != nil {
				return err
			}
			out.to(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				return s.forceUnlock(ctx, out, args[0], id, yes)
			}, latchkey.WithPubSub(conn.publishes()))
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the `HOLDER` that must have it")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	printVar(cmd, out)
	return cmd
}

func (s *session) forceUnlock(ctx context.Context, out *printer, name, id string, yes bool) error {
	info, err := s.client.Info(ctx, name)
	if err != nil {
		return err
	}
	o := newObject(info)
	h := o.held(id)
	if h == nil {
		return changed(name, id, o)
	}
	if !yes && !out.json {
		o.writeAll(out)
		out.printf("\n")
	}
	if err := confirm(ctx, yes, "Take %s from %s?", shownName(name), shownName(id)); err != nil {
		return err
	}
	freed, err := s.free(ctx, o, id)
	if err != nil {
		return err
	}
	if !freed {
		return changed(name, id, nil)
	}
	return out.show(struct {
		Name  string `json:"name"`
		ID    string `json:"id"`
		Freed bool   `json:"freed"`
	}{name, id, true}, func() {
		out.printf("%s was taken from %s\n", shownName(name), shownName(id))
	})
}

// held returns the holder of that id, or nil.
func (o *object) held(id string) *latchkey.HolderInfo {
	for i := range o.info.Holders {
		if o.info.Holders[i].ID == id {
			return &o.info.Holders[i]
		}
	}
	return nil
}

// changed is the error when somebody else, or nobody, has it. o is nil where it
// is not known who.
func changed(name, id string, o *object) error {
	who := "any more"
	switch {
	case o == nil:
	case len(o.Holders) == 0:
		who = "(nobody has)"
	default:
		who = "(" + o.who() + ")"
	}
	return exitf(exitConflict, "%s does not hold %s %s", shownName(id), shownName(name), who)
}

// free takes an object from one holder, in the way of its kind.
func (s *session) free(ctx context.Context, o *object, id string) (bool, error) {
	switch o.info.Kind {
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
	return false, exitf(exitFailed, "%s is a %s, which cannot be taken from one holder", shownName(o.Name), o.Kind)
}

// publishes is how releases are published by a command: in a cluster both ways,
// because nobody knows how those listen who wait.
func (c *connection) publishes() latchkey.PubSubMode {
	if c.cluster {
		return latchkey.PubSubBoth
	}
	return latchkey.PubSubAuto
}
