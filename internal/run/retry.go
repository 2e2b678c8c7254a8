package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// Attempt is how long a request may take to reach Redis. A script that
	// arrives later than that after it was sent changes nothing.
	Attempt = 5 * time.Second
	// RetryFirst is the first pause between failed requests.
	RetryFirst = 10 * time.Millisecond
	// RetryMost is the longest pause.
	RetryMost = 300 * time.Millisecond
)

// ErrLate is the error of a request that its script refused because it arrived
// too late.
var ErrLate = errors.New("the request reached Redis too late")

// sleep waits for d. It returns false if ctx is done first.
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

// A Retrier spaces out the requests of a call that fail temporarily.
type Retrier struct {
	runner   *Runner
	patience time.Duration
	asked    time.Time // when the present request was made
	since    time.Time // when the first failed request was made; zero before that
	pause    time.Duration
}

// NewRetrier returns a Retrier for one call with the given patience.
func (rn *Runner) NewRetrier(patience time.Duration) Retrier {
	return Retrier{runner: rn, patience: patience, asked: time.Now(), pause: RetryFirst}
}

// Options returns the options of the next request, which ends with the
// patience.
func (r *Retrier) Options() Options {
	r.asked = time.Now()
	return Options{Within: r.runner.Patiently(r.patience, r.since)}
}

// After sleeps before the next attempt, or returns the error if there is to be
// none.
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
