package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/listing"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/elect"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

const leadersHelp = `leaders shows who leads in the elections of package elect: in all that have had a
leader within a day, or in NAME. TERM is the number of the term, which grows with each
leader, and VALUE what the leader has published. Where nobody leads, LEADER is -.

It reads every key name once, as ls does; with a NAME it does not. A leader whose
process has died leads until its lease ends.`

const leadersExamples = `  latchkey leaders
  latchkey leaders reconciler --json`

func newLeaders(conn *connection) *cobra.Command {
	f, out := new(listing.Finder), new(terminal.Printer)
	cmd := &cobra.Command{
		Use:     "leaders [NAME]",
		Short:   "Show who leads in elections",
		Long:    leadersHelp,
		Example: leadersExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := oneName(cmd, args); err != nil {
					return err
				}
				if cmd.Flags().Changed("match") {
					return exit.Usagef("leaders: a NAME and --match exclude each other")
				}
			}
			out.To(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				all, err := s.leadersOf(ctx, f, args)
				if err != nil {
					return err
				}
				now, err := s.rdb.Time(ctx).Result()
				if err != nil {
					return err
				}
				err = out.Show(leadersJSON(all, now), func() { leadersTable(all, now).Print(out) })
				if err == nil && len(all) == 0 && !out.JSON {
					say(cmd.ErrOrStderr(), "no election is known")
				}
				return err
			})
		},
		ValidArgsFunction: conn.completeBy((*object.Finder).Elections),
	}
	f.RegisterMatch(cmd)
	terminal.JSONVar(cmd, out)
	return cmd
}

// A leading is an election and who leads: the zero Leader if nobody does.
type leading struct {
	election string
	elect.Leader
}

// leadersOf returns who leads in the election of args, or in all that f finds.
func (s *session) leadersOf(ctx context.Context, f *listing.Finder, args []string) ([]leading, error) {
	if len(args) == 0 {
		stop := s.closing(ctx)
		found, err := f.Elections(ctx, s.rdb)
		stop()
		if err != nil {
			return nil, err
		}
		args = found
	}
	return object.Each(ctx, args, func(ctx context.Context, name string) (leading, error) {
		l, err := elect.New(s.client, name).Leader(ctx)
		if errors.Is(err, elect.ErrNoLeader) {
			err = nil
		}
		return leading{name, l}, err
	})
}

// leadersTable returns the table for people.
func leadersTable(all []leading, now time.Time) *terminal.Table {
	t := &terminal.Table{Titles: []string{"~ELECTION", "LEADER", ">TERM", ">FOR", "PROCESS", "VALUE"}}
	for _, l := range all {
		if l.Identity == "" {
			t.Add(text.Name(l.election), "-", "-", "-", "-", "-")
			continue
		}
		t.Add(text.Name(l.election), text.Phrase(l.Identity), strconv.FormatInt(l.Term.Number, 10), text.Span(now.Sub(l.Term.Since)),
			object.Process(l.Host, l.PID), text.OrDash(text.Phrase(l.Value)))
	}
	return t
}

// A shownLeader is an election as JSON has it. docs/cli.md describes the fields.
type shownLeader struct {
	Election      string `json:"election"`
	ElectionBytes string `json:"election_base64,omitempty"`
	Leader        string `json:"leader"`
	Term          int64  `json:"term"`
	Since         string `json:"since,omitempty"`
	ForMs         int64  `json:"for_ms"`
	Value         string `json:"value"`
	Host          string `json:"host"`
	PID           int    `json:"pid"`
}

// leadersJSON returns the elections for programs.
func leadersJSON(all []leading, now time.Time) []shownLeader {
	shown := []shownLeader{}
	for _, l := range all {
		one := shownLeader{Election: l.election, ElectionBytes: object.Bytes(l.election), Leader: l.Identity, Term: l.Term.Number, Value: l.Value, Host: l.Host, PID: l.PID}
		if l.Identity != "" {
			one.Since, one.ForMs = object.Instant(l.Term.Since), max(now.Sub(l.Term.Since), 0).Milliseconds()
		}
		shown = append(shown, one)
	}
	return shown
}
