package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/text"
)

const doctorHelp = `doctor looks at the Redis servers and tries what locks need: version, role, memory
policy, persistence, rights to commands, keys and Redis channels, wake-ups, clocks
and, in a cluster, its state. It says what to set in a program's go-redis options. Each finding is ok, a note, a warning (something works
less well, or may break one day) or a failure (something does not work).

What it writes expires within a second, under names that begin with
latchkey_check:, or with --prefix and that: so an ACL that allows certain keys only
can be tried.

Exit status: 1 if there is a failure.`

func newDoctor(conn *connection) *cobra.Command {
	var prefix string
	var sharded, both bool
	out := new(terminal.Printer)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with a Redis, or with the rights there",
		Long:  doctorHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out.To(cmd.OutOrStdout())
			mode := latchkey.PubSubAuto
			switch {
			case both:
				mode = latchkey.PubSubBoth
			case sharded:
				mode = latchkey.PubSubSharded
			}
			return conn.session(func(ctx context.Context, s *session) error {
				return s.doctor(ctx, out)
			}, latchkey.WithKeyPrefix(prefix), latchkey.WithPubSub(mode))
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "what the names of your locks begin with")
	cmd.Flags().BoolVar(&sharded, "sharded", false, "try sharded pub/sub instead of plain")
	cmd.Flags().BoolVar(&both, "both", false, "try sharded pub/sub and plain")
	cmd.MarkFlagsMutuallyExclusive("sharded", "both")
	terminal.JSONVar(cmd, out)
	return cmd
}

// clientAdvice is about the options of programs, which doctor cannot see.
const clientAdvice = "set ContextTimeoutEnabled in the go-redis options of your programs, as this command does: without it a command whose context " +
	"can end costs a goroutine, and keeps its connection until the read timeout when the server is silent (Check tells)"

// A diagnosis is the output of doctor, as JSON has it.
type diagnosis struct {
	Topology string          `json:"topology"`
	Worst    string          `json:"worst"`
	Servers  []serverJSON    `json:"servers"`
	Findings []findingReport `json:"findings"`
}

type serverJSON struct {
	Addr        string  `json:"addr"`
	Product     string  `json:"product"`
	Version     string  `json:"version"`
	Role        string  `json:"role"`
	User        string  `json:"user"`
	Replicas    int     `json:"replicas"`
	MaxMemory   int64   `json:"max_memory"`
	UsedMemory  int64   `json:"used_memory"`
	Policy      string  `json:"policy"`
	Persistent  bool    `json:"persistent"`
	RoundTripMs float64 `json:"round_trip_ms"`
	ClockMs     int64   `json:"clock_ms"`
}

type findingReport struct {
	Name   string `json:"name"`
	Server string `json:"server"`
	Level  string `json:"level"`
	Text   string `json:"text"`
}

func newDiagnosis(r latchkey.Report) *diagnosis {
	d := &diagnosis{Topology: r.Topology, Worst: r.Worst().String(), Servers: []serverJSON{}, Findings: []findingReport{}}
	for _, s := range r.Servers {
		d.Servers = append(d.Servers, serverJSON{
			Addr: s.Addr, Product: s.Product, Version: s.Version, Role: s.Role, User: s.User, Replicas: s.Replicas,
			MaxMemory: s.MaxMemory, UsedMemory: s.UsedMemory, Policy: s.Policy, Persistent: s.Persistent,
			RoundTripMs: s.RoundTrip.Seconds() * 1000, ClockMs: s.Clock.Milliseconds(),
		})
	}
	for _, f := range r.Findings {
		d.Findings = append(d.Findings, findingReport{f.Name, f.Server, f.Level.String(), f.Text})
	}
	return d
}

// levelColours are the colours of findings on a terminal.
var levelColours = map[latchkey.Level]string{
	latchkey.LevelOK: "32", latchkey.LevelNote: "36", latchkey.LevelWarning: "33", latchkey.LevelFailure: "31",
}

func (s *session) doctor(ctx context.Context, out *terminal.Printer) error {
	r, err := s.client.Check(ctx)
	if err != nil {
		return err
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Name == "client" { // which is about the client of this command
			f.Text = clientAdvice
		}
	}
	if err := out.Show(newDiagnosis(r), func() { writeReport(out, s.addr, r) }); err != nil {
		return err
	}
	if r.Worst() == latchkey.LevelFailure {
		return &exit.Error{Code: exit.Failed}
	}
	return nil
}

func writeReport(out *terminal.Printer, addr string, r latchkey.Report) {
	out.Printf("Redis at %s: %s\n\n", addr, r.Topology)
	t := &terminal.Table{Titles: []string{"", "ABOUT", "SERVER", ""}}
	for _, f := range r.Findings {
		t.Add(out.Paint(levelColours[f.Level], f.Level.String()), f.Name, text.OrDash(text.Phrase(f.Server)), text.Harmless(f.Text))
	}
	t.Print(out)
}
