package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// An Outcome is how a run has ended.
type Outcome string

// The outcomes of a run.
const (
	Running Outcome = "running" // it has not ended
	Done    Outcome = "done"
	Failed  Outcome = "failed" // its function returned an error or panicked
	Lost    Outcome = "lost"   // its process has died, or lost the lock, before it ended
)

// A Run is the last attempt at a fire.
type Run struct {
	Fire    time.Time // to the millisecond
	Attempt int       // from 1
	Started time.Time // by the server's clock
	Ended   time.Time // by the server's clock; zero if it is Running or Lost
	Label   string    // of the Job
	Host    string
	PID     int
	Outcome Outcome
	Err     string // the error of a Failed run, up to 1,000 bytes
}

// ErrNoRun is the error of Last if no run is known.
var ErrNoRun = errors.New("no run is known")

// Last returns the run that was begun, or has ended, last. If none is known, the
// error is ErrNoRun.
func (j *Job) Last(ctx context.Context) (Run, error) {
	runs, err := j.runs(ctx, "last", 1)
	switch {
	case err != nil:
		return Run{}, err
	case len(runs) == 0:
		return Run{}, j.engine.Wrap("last", j.spec, ErrNoRun)
	}
	return runs[0], nil
}

// mostRuns is the most that Runs returns.
const mostRuns = 1000

// Runs returns the last n runs, or as many as are known, those of the latest fires
// first. n is at most 1,000.
func (j *Job) Runs(ctx context.Context, n int) ([]Run, error) {
	if n < 0 || n > mostRuns {
		return nil, j.engine.Wrap("runs", j.spec, fmt.Errorf("%d runs: the most is %d", n, mostRuns))
	}
	if n == 0 {
		return nil, nil
	}
	return j.runs(ctx, "runs", n)
}

func (j *Job) runs(ctx context.Context, op string, n int) (runs []Run, err error) {
	fires, err := j.scripts.list(ctx, j.spec, op, n)
	if err != nil {
		return nil, err
	}
	for piece := range slices.Chunk(fires, mostAtOnce) {
		records, err := j.scripts.read(ctx, j.spec, op, piece)
		if err != nil {
			return nil, err
		}
		for i, r := range records {
			if ms, err := strconv.ParseInt(piece[i], 10, 64); err == nil && r.state != "" { // else it has expired
				runs = append(runs, r.run(time.UnixMilli(ms)))
			}
		}
	}
	if op == "runs" {
		slices.SortStableFunc(runs, func(a, b Run) int { return -cmp.Compare(a.Fire.UnixMilli(), b.Fire.UnixMilli()) })
	}
	return runs, nil
}

func (r *record) run(fire time.Time) Run {
	out := Run{
		Fire: fire, Attempt: r.attempt, Started: r.started, Ended: r.ended,
		Label: r.who.Label, Host: r.who.Host, PID: r.who.PID, Outcome: Outcome(r.state), Err: r.err,
	}
	if r.state == stateRunning && !r.has {
		out.Outcome = Lost
	}
	return out
}

// parse takes one run from the reply of once/read.
func (r *record) parse(reply any) bool {
	parts, ok := reply.([]any)
	if !ok || len(parts) != 7 {
		return false
	}
	var text [7]string
	for i, p := range parts {
		if text[i], ok = p.(string); !ok {
			return false
		}
	}
	attempt, err1 := strconv.Atoi(cmp.Or(text[1], "0"))
	started, err2 := instant(text[2])
	ended, err3 := instant(text[3])
	*r = record{
		state: text[0], attempt: attempt, started: started, ended: ended,
		who: engine.ParseWho(text[4]), err: text[5], has: text[6] == "1",
	}
	return errors.Join(err1, err2, err3) == nil
}

// instant returns the time of server ms, zero for none.
func instant(ms string) (time.Time, error) {
	if ms == "" {
		return time.Time{}, nil
	}
	n, err := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(n), err
}
