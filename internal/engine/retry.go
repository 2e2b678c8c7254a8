package engine

import (
	"context"
	"math/rand/v2"
	"time"
)

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

// A retrier spaces out requests that fail in passing.
type retrier struct {
	engine   *Engine
	patience time.Duration
	asked    time.Time // at which the present request was made
	since    time.Time // when the first one was made that failed; zero before
	pause    time.Duration
}

func (e *Engine) newRetrier(patience time.Duration) retrier {
	return retrier{engine: e, patience: patience, asked: time.Now(), pause: retryFirst}
}

// options returns those of the next request, which ends when the patience does.
func (r *retrier) options() SendOptions {
	r.asked = time.Now()
	return SendOptions{Within: r.engine.patiently(r.patience, r.since)}
}

// after sleeps before the next try, or returns why there is none.
func (r *retrier) after(ctx context.Context, err error) error {
	if r.engine.TurnedAway(err) {
		return err
	}
	now := time.Now()
	if r.since.IsZero() {
		r.since = unanswered(r.asked, now, r.patience, err)
	}
	d := r.pause - time.Duration(rand.Int64N(int64(r.pause/2)))
	next := now.Add(d)
	if at, ok := ctx.Deadline(); next.After(r.since.Add(r.patience)) || ok && next.After(at) || !sleep(ctx, d) {
		if err == nil {
			err = errLate
		}
		return err
	}
	r.pause = min(2*r.pause, retryMost)
	return nil
}
