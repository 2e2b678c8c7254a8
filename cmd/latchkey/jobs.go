package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/listing"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/once"
)

const jobsHelp = `jobs shows the runs of jobs that run once for each scheduled time, of 'latchkey run
--once-per' and of package once: the last run of each job, and every other one that
goes on; or the last runs of NAME, those of the latest times first.

OUTCOME is running; done; failed, with the ERROR, which for a command is how it has
ended; or lost: the process has died, or has lost the lock of the job. An ATTEMPT of
2 is the first retry. Runs are known for as long as they are kept, 7 days by default.

It reads every key name once, as ls does; with a NAME it does not.`

const jobsExamples = `  latchkey jobs
  latchkey jobs nightly-report -n 100
  latchkey jobs --json`

// The runs of a job that are read: those of a NAME by default, the most, and those
// among which the last one and those that go on are looked for.
const (
	runsShown = 20
	mostRuns  = 1000
	runsAsked = 20
)

func newJobs(conn *connection) *cobra.Command {
	f, out := new(listing.Finder), new(terminal.Printer)
	n := 0
	cmd := &cobra.Command{
		Use:     "jobs [NAME]",
		Short:   "Show the last runs of jobs that run once for each scheduled time",
		Long:    jobsHelp,
		Example: jobsExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := oneName(cmd, args); err != nil {
					return err
				}
			}
			switch {
			case len(args) > 0 && cmd.Flags().Changed("match"):
				return exit.Usagef("jobs: a NAME and --match exclude each other")
			case len(args) == 0 && cmd.Flags().Changed("runs"):
				return exit.Usagef("jobs: -n is for the runs of a NAME; the database is --db")
			case n < 1 || n > mostRuns:
				return exit.Usagef("jobs: -n must be between 1 and %d, not %d", mostRuns, n)
			}
			out.To(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				runs, err := s.jobRuns(ctx, f, args, n)
				if err != nil {
					return err
				}
				now, err := s.rdb.Time(ctx).Result()
				if err != nil {
					return err
				}
				err = out.Show(jobsJSON(runs, now), func() { jobsTable(runs, now).Print(out) })
				if err == nil && len(runs) == 0 && !out.JSON {
					what := "a job"
					if len(args) > 0 {
						what = text.Name(args[0])
					}
					say(cmd.ErrOrStderr(), "no run of "+what+" is known")
				}
				return err
			})
		},
		ValidArgsFunction: conn.completeBy((*object.Finder).Jobs),
	}
	cmd.Flags().IntVarP(&n, "runs", "n", runsShown, "show the last `N` runs of NAME")
	f.RegisterMatch(cmd)
	terminal.JSONVar(cmd, out)
	return cmd
}

// A jobRun is a run and the job that it is of.
type jobRun struct {
	job string
	once.Run
}

// jobRuns returns the last n runs of the job of args; without one, for each job that f
// finds the last run and every other one that goes on.
func (s *session) jobRuns(ctx context.Context, f *listing.Finder, args []string, n int) ([]jobRun, error) {
	if len(args) > 0 {
		return s.runsOf(ctx, args[0], n)
	}
	stop := s.closing(ctx)
	jobs, err := f.Jobs(ctx, s.rdb)
	stop()
	if err != nil {
		return nil, err
	}
	all, err := object.Each(ctx, jobs, func(ctx context.Context, job string) ([]jobRun, error) {
		runs, err := s.runsOf(ctx, job, runsAsked)
		if len(runs) == 0 {
			return nil, err
		}
		last := slices.MaxFunc(runs, func(a, b jobRun) int { return a.written().Compare(b.written()) })
		return slices.DeleteFunc(runs, func(r jobRun) bool { return r != last && r.Outcome != once.Running }), err
	})
	return slices.Concat(all...), err
}

// runsOf returns the last n runs of a job.
func (s *session) runsOf(ctx context.Context, job string, n int) (all []jobRun, err error) {
	runs, err := once.New(s.client, job).Runs(ctx, n)
	for _, r := range runs {
		all = append(all, jobRun{job, r})
	}
	return all, err
}

// written returns when the run was begun, or has ended.
func (r *jobRun) written() time.Time {
	if r.Ended.IsZero() {
		return r.Started
	}
	return r.Ended
}

// took returns for how long the run has gone on; false if nobody knows.
func (r *jobRun) took(now time.Time) (time.Duration, bool) {
	switch {
	case r.Outcome == once.Running:
		return max(now.Sub(r.Started), 0), true
	case r.Ended.IsZero():
		return 0, false
	}
	return r.Ended.Sub(r.Started), true
}

// jobsTable returns the table for people.
func jobsTable(runs []jobRun, now time.Time) *terminal.Table {
	t := &terminal.Table{Titles: []string{"~JOB", "FIRE", "OUTCOME", ">STARTED", ">TOOK", "->ATTEMPT", "LABEL", "PROCESS", "ERROR"}}
	for _, r := range runs {
		took := "-"
		if d, ok := r.took(now); ok {
			took = text.Span(d)
		}
		t.Add(text.Name(r.job), text.Instant(r.Fire), text.Phrase(string(r.Outcome)), text.Span(now.Sub(r.Started))+" ago", took, strconv.Itoa(r.Attempt),
			text.OrDash(text.Phrase(r.Label)), object.Process(r.Host, r.PID), text.OrDash(text.Phrase(r.Err)))
	}
	return t
}

// A shownRun is a run as JSON has it. docs/cli.md describes the fields.
type shownRun struct {
	Job      string `json:"job"`
	JobBytes string `json:"job_base64,omitempty"`
	Fire     string `json:"fire"`
	Attempt  int    `json:"attempt"`
	Outcome  string `json:"outcome"`
	Started  string `json:"started"`
	Ended    string `json:"ended,omitempty"`
	TookMs   int64  `json:"took_ms"`
	Label    string `json:"label"`
	Host     string `json:"host"`
	PID      int    `json:"pid"`
	Error    string `json:"error"`
}

// jobsJSON returns the runs for programs.
func jobsJSON(runs []jobRun, now time.Time) []shownRun {
	all := []shownRun{}
	for _, r := range runs {
		took, _ := r.took(now)
		all = append(all, shownRun{
			Job: r.job, JobBytes: object.Bytes(r.job), Fire: object.Instant(r.Fire), Attempt: r.Attempt, Outcome: string(r.Outcome),
			Started: object.Instant(r.Started), Ended: object.Instant(r.Ended), TookMs: took.Milliseconds(),
			Label: r.Label, Host: r.Host, PID: r.PID, Error: r.Err,
		})
	}
	return all
}
