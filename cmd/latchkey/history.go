package main

import (
	"context"
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/history"
	keys "github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

const historyHelp = `history shows what clients with the option WithHistory have told lately, of NAME or
of everything: who acquired, released, lost or forced it, and how long that one
waited and held it; and which lease was renewed late, and how late. The newest event comes first. Clients with a key prefix
have a history of their own: name it with --prefix. Only the newest 20,000
events are searched for NAME, which is a key, with its prefix.`

// The events that are shown: by default, and at most.
const (
	eventsShown = 20
	mostEvents  = 10_000
)

func newHistory(conn *connection) *cobra.Command {
	out := new(terminal.Printer)
	n, prefix := 0, ""
	cmd := &cobra.Command{
		Use:   "history [NAME]",
		Short: "Show what was acquired, released, lost and forced lately",
		Long:  historyHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			var match func(*history.Event) bool
			if len(args) > 0 {
				if err := oneName(cmd, args); err != nil {
					return err
				}
				match = func(ev *history.Event) bool { return ev.Name == args[0] }
			}
			if n < 1 || n > mostEvents {
				return exit.Usagef("history: -n must be between 1 and %d, not %d", mostEvents, n)
			}
			out.To(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				events, on, err := history.Read(ctx, s.rdb, keys.History(prefix), n, time.Time{}, match)
				if err != nil {
					return err
				}
				now, err := s.rdb.Time(ctx).Result()
				if err != nil {
					return err
				}
				err = out.Show(eventsJSON(events), func() { eventsTable(events, now).Print(out) })
				if err == nil && len(events) == 0 && !out.JSON {
					why := "no client writes a history (latchkey.WithHistory)"
					if on {
						why = "nothing is known of it"
					}
					say(cmd.ErrOrStderr(), why)
				}
				return err
			})
		},
		ValidArgsFunction: conn.completeName,
	}
	cmd.Flags().IntVarP(&n, "events", "n", eventsShown, "show the last `N` events")
	cmd.Flags().StringVar(&prefix, "prefix", "", "what the names of your locks begin with (WithKeyPrefix)")
	terminal.JSONVar(cmd, out)
	return cmd
}

// A shownEvent is an event in JSON. docs/cli.md describes the fields.
type shownEvent struct {
	At        time.Time `json:"at"`
	Event     string    `json:"event"`
	Kind      string    `json:"kind"`
	Name      string    `json:"name"`
	NameBytes string    `json:"name_base64,omitempty"`
	Holder    string    `json:"holder"`
	Label     string    `json:"label"`
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Wait      float64   `json:"wait_ms"`
	Held      float64   `json:"held_ms"`
	Reason    string    `json:"reason"`
	Version   string    `json:"version"`
}

func eventsJSON(events []history.Event) []shownEvent {
	all := make([]shownEvent, 0, len(events))
	for _, ev := range events {
		e := shownEvent{
			At: ev.At.UTC(), Event: ev.What, Kind: ev.Kind, Name: ev.Name, Holder: ev.Holder, Label: ev.Label, Host: ev.Host, PID: ev.PID,
			Wait: float64(ev.Wait.Microseconds()) / 1000, Held: float64(ev.Held.Microseconds()) / 1000, Reason: ev.Reason, Version: ev.Version,
		}
		if !utf8.ValidString(ev.Name) {
			e.NameBytes = base64.StdEncoding.EncodeToString([]byte(ev.Name))
		}
		all = append(all, e)
	}
	return all
}

func eventsTable(events []history.Event, now time.Time) *terminal.Table {
	t := &terminal.Table{Titles: []string{">WHEN", "EVENT", "~NAME", "KIND", ">WAITED", ">HELD", "HOLDER", "LABEL", "PROCESS", "REASON"}}
	for _, ev := range events {
		waited, held := "-", "-"
		switch ev.What {
		case engine.Acquired, engine.Late:
			waited = text.Short(ev.Wait)
		case engine.Released, engine.Lost:
			held = text.Short(ev.Held)
		}
		process := "-"
		if ev.Host != "" {
			process = object.Process(ev.Host, ev.PID)
		}
		t.Add(text.Span(now.Sub(ev.At))+" ago", ev.What, text.Name(ev.Name), text.OrDash(text.Phrase(ev.Kind)), waited, held,
			text.OrDash(text.Phrase(ev.Holder)), text.OrDash(text.Phrase(ev.Label)), process, text.OrDash(text.Phrase(ev.Reason)))
	}
	return t
}
