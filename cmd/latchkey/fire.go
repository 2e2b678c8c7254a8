package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/connect"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/runner"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/once"
)

// fireFlags make run run a job of package once.
type fireFlags struct {
	per            time.Duration
	fire           string
	retries        int
	notLater, keep time.Duration
	noOverlap      bool

	at time.Time // the fire; zero if run runs no such job
}

func (f *fireFlags) register(fs *pflag.FlagSet) {
	terminal.DurationVar(fs, &f.per, "once-per", "", 0, "run the job NAME once for each multiple of that time (in UTC), on all machines\ntogether: for the present one")
	fs.StringVar(&f.fire, "fire", "", "run the job NAME once for the scheduled `TIME`: 2027-01-15T08:00:00Z, or seconds since 1970")
	fs.IntVar(&f.retries, "retries", 0, "with these two: run CMD again, up to `N` times, when it fails or its machine dies")
	terminal.DurationVar(fs, &f.notLater, "not-later-than", "", 0, "… do not begin later than so long after the scheduled time")
	fs.BoolVar(&f.noOverlap, "no-overlap", false, "… wait for the end of the runs for other times")
	terminal.DurationVar(fs, &f.keep, "keep", "", 7*24*time.Hour, "… how long Redis has the record of a run; who comes later runs CMD again")
}

// check checks the flags, and sets the fire.
func (f *fireFlags) check(fs *pflag.FlagSet) error {
	given := func(all ...string) string {
		for _, name := range all {
			if fs.Changed(name) {
				return name
			}
		}
		return ""
	}
	switch period, fire := fs.Changed("once-per"), fs.Changed("fire"); {
	case period && fire:
		return exit.Usagef("run: --once-per and --fire exclude each other")
	case !period && !fire:
		if name := given("retries", "not-later-than", "no-overlap", "keep"); name != "" {
			return exit.Usagef("run: --%s is for --once-per and --fire", name)
		}
		return nil
	case period && (f.per < time.Second || f.per > object.MaxTime):
		return exit.Usagef("run: --once-per %v: the least is 1s, the most %v", f.per, object.MaxTime)
	case period:
		f.at = once.Every(f.per)
	default:
		var err error
		if f.at, err = parseFire(f.fire); err != nil {
			return err
		}
	}
	name := given("nonblock", "wait", "permits", "shared", "exclusive", "fair", "hold-at-least")
	switch {
	case name != "":
		return exit.Usagef("run: --%s makes no sense with --once-per and --fire", name)
	case f.retries < 0 || f.retries > maxRetries:
		return exit.Usagef("run: --retries must be between 0 and %d, not %d", maxRetries, f.retries)
	case fs.Changed("not-later-than") && f.notLater < time.Millisecond || f.notLater > object.MaxTime:
		return exit.Usagef("run: --not-later-than %v: the least is 1ms, the most %v", f.notLater, object.MaxTime)
	case f.keep < time.Second || f.keep > object.MaxTime:
		return exit.Usagef("run: --keep %v: the least is 1s, the most %v", f.keep, object.MaxTime)
	}
	return nil
}

// maxRetries is the most that --retries takes.
const maxRetries = 1000

// parseFire parses the TIME of --fire.
func parseFire(s string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		seconds, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || math.IsNaN(seconds) || math.Abs(seconds) >= 1<<43 {
			return time.Time{}, exit.Usagef("run: --fire %s: neither a time, as 2027-01-15T08:00:00Z, nor seconds since 1970", text.Name(s))
		}
		at = time.UnixMilli(int64(math.Round(seconds * 1000)))
	}
	if ms := at.UnixMilli(); ms <= 0 || ms >= 1<<53 {
		return time.Time{}, exit.Usagef("run: --fire %s is no time of a job", text.Name(s))
	}
	return at, nil
}

// fireText returns the fire for programs.
func (f *fireFlags) fireText() string { return f.at.UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// options returns the options of the job.
func (j *job) options() []once.Option {
	opts := []once.Option{once.Label(j.label), once.Keep(j.keep)}
	if j.retries > 0 {
		opts = append(opts, once.OnFailure(once.Retry(j.retries)))
	}
	if j.noOverlap {
		opts = append(opts, once.NoOverlap())
	}
	if j.notLater > 0 {
		opts = append(opts, once.NotLaterThan(j.notLater))
	}
	return opts
}

// A failure is why a run of a job has failed: its text is for the record, and what it
// wraps is for the caller of run.
type failure struct {
	text string
	err  error
}

// Error returns the text.
func (f *failure) Error() string { return f.text }

// Unwrap returns the error with the exit code.
func (f *failure) Unwrap() error { return f.err }

// failed returns what the record of a run says of a CMD that has ended with err, or nil.
func failed(end runner.End, err error) error {
	if err == nil {
		return nil
	}
	what := err.Error()
	switch {
	case what != "":
	case end.Signal != 0:
		what = "signal: " + end.Signal.String()
	default:
		what = fmt.Sprintf("exit status %d", end.Code)
	}
	return &failure{what, err}
}

// forFire runs CMD as the job NAME, if it has not been run for the fire.
func (j *job) forFire(ctx context.Context, p *place) error {
	if j.retries > 0 || j.noOverlap { // else it does not wait
		if err := j.selfMade(ctx, p.client, object.JobLock(j.name, j.at, j.noOverlap)); err != nil {
			return err
		}
	}
	var last error     // how CMD has ended the last time
	var forwarded bool // the signal that has ended ctx was for CMD
	done := p.untilCalled()
	ran, err := once.New(p.client, j.name, j.options()...).Do(ctx, j.at, func(held context.Context) error {
		done()
		defer func() { done = p.untilCalled() }()
		p.waiting.clear()
		if cause := context.Cause(ctx); cause != nil { // it came at the same moment: CMD is not started
			last = &failure{"interrupted before it was started", cause}
			return last
		}
		h, _ := latchkey.HoldFrom(held)
		end, err := j.hold(heldLock{h, false}, p.signals)
		if last = failed(end, err); end.Asked != nil {
			forwarded = true // and CMD is not run again here
			p.stop(runner.EndedBy(end.Asked))
		}
		return last
	})
	done()
	p.waiting.clear()
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, latchkey.ErrLeaseLost):
		return j.lost(last)
	case err == nil:
		return nil // it was run, here or elsewhere
	case !forwarded && cause != nil:
		return cause
	case errors.Is(err, once.ErrLate):
		if ran { // once, and it is too late to run it again
			return last
		}
		return j.late()
	case !ran:
		return connect.Unavailable(p.addr, err)
	case !errors.Is(last, err) && !forwarded:
		// CMD has done its work: its exit code stands.
		warn("what became of %q could not be noted, and it counts as lost when its lease has ended: %v", j.name, connect.Unavailable(p.addr, err))
	}
	return last
}

// late is the error of a job that is not to be begun any more.
func (j *job) late() error {
	if j.conflict == 0 {
		return &exit.Error{Code: 0}
	}
	return exit.Errorf(j.conflict, "it is too late to run %s for %s", j.what(), j.fireText())
}
