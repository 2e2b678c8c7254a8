package memo

import (
	"context"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
)

const (
	// slack is added to the rest of a lease before asking again.
	slack = 2 * time.Millisecond
	// patience is how long Wait goes on while Redis does not answer. It outlives a
	// failover.
	patience = 30 * time.Second
	// afterFailure is how long Wait sleeps after Redis has not answered.
	afterFailure = time.Second
)

// Wait waits until there is a result that is fresh, or nothing runs any more. seen is what
// the caller has been told: the error of the call that ran then is its result too, also if
// it is not kept. If State is then neither Done with a fresh value nor Failed, nothing came
// of the call: it was dropped, or forgotten, or its process has died, and the caller may
// begin one.
//
// Wait asks Redis at once, at each release of the lock, at the end of its lease, and at the
// recheck. ErrReentry means that ctx is that of the call it would wait for.
func (m *Memo) Wait(ctx context.Context, op string, seen Record) (rec Record, err error) {
	if m.Inside(ctx) {
		return rec, m.Wrap(op, engine.ErrReentry)
	}
	var calls []string // that ran while it waited
	running := ""
	see := func(call string) {
		if running = call; call != "" && !slices.Contains(calls, call) {
			calls = append(calls, call)
		}
	}
	if seen.State == Running {
		see(seen.Call)
	}
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	var failing time.Time
	over := false
	m.engine.Watch(wctx, m.channel, nil, nil, func(wctx context.Context) time.Duration {
		if over {
			return 0
		}
		var v view
		if v, err = m.read(wctx, op, running); err != nil {
			if failing.IsZero() {
				failing = time.Now()
			}
			over = run.Classify(err) == run.Permanent || time.Since(failing) > patience
		} else {
			rec, failing = v.rec, time.Time{}
			switch {
			case rec.State == Done && rec.Fresh, rec.State == Failed:
				over = true
			case slices.Contains(calls, v.failed.Call):
				rec, over = v.failed, true
			case !rec.Busy:
				over = true
			default:
				see(v.runs)
			}
		}
		switch {
		case over:
			stop()
			return 0
		case err != nil:
			return afterFailure
		}
		return rec.Left + slack
	})
	switch {
	case over:
		return rec, err
	case ctx.Err() != nil:
		return Record{}, m.Wrap(op, ctx.Err())
	}
	return Record{}, m.Wrap(op, run.ErrClosed)
}
