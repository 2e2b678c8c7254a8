package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// Attempt is how long a request may take to reach Redis: a script that
	// arrives later than that after it was sent changes nothing.
	Attempt = 5 * time.Second
	// RetryFirst is the first pause between requests that failed.
	RetryFirst = 10 * time.Millisecond
	// RetryMost is the longest one.
	RetryMost = 300 * time.Millisecond
)

// ErrLate is the error of a request that its script has refused to carry out.
var ErrLate = errors.New("the request reached Redis too late")

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A Retrier spaces out requests that fail in passing.
type Retrier struct {
	runner   *Runner
	patience time.Duration
	asked    time.Time // at which the present request was made
	since    time.Time // when the first one was made that failed; zero before
	pause    time.Duration
}

// NewRetrier returns a Retrier for one call with so much patience.
func (rn *Runner) NewRetrier(patience time.Duration) Retrier {
	return Retrier{runner: rn, patience: patience, asked: time.Now(), pause: RetryFirst}
}

// Options returns those of the next request, which ends when the patience does.
func (r *Retrier) Options() Options {
	r.asked = time.Now()
	return Options{Within: r.runner.Patiently(r.patience, r.since)}
}

// After sleeps before the next try, or returns why there is none.
func (r *Retrier) After(ctx context.Context, err error) error {
	if r.runner.TurnedAway(err) {
		return err
	}
	now := time.Now()
	if r.since.IsZero() {
		r.since = Unanswered(r.asked, now, r.patience, err)
	}
	d := r.pause - time.Duration(rand.Int64N(int64(r.pause/2)))
	next := now.Add(d)
	if at, ok := ctx.Deadline(); next.After(r.since.Add(r.patience)) || ok && next.After(at) || !sleep(ctx, d) {
		if err == nil {
			err = ErrLate
		}
		return err
	}
	r.pause = min(2*r.pause, RetryMost)
	return nil
}
