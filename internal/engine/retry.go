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
	patience time.Duration
	until    time.Time // set by the first failure
	pause    time.Duration
}

func newRetrier(patience time.Duration) retrier {
	return retrier{patience: patience, pause: retryFirst}
}

// after sleeps before the next try, or returns why there is none.
func (r *retrier) after(ctx context.Context, err error) error {
	if r.until.IsZero() {
		r.until = time.Now().Add(r.patience)
	}
	d := r.pause - time.Duration(rand.Int64N(int64(r.pause/2)))
	next := time.Now().Add(d)
	if at, ok := ctx.Deadline(); next.After(r.until) || ok && next.After(at) || !sleep(ctx, d) {
		if err == nil {
			err = errLate
		}
		return err
	}
	r.pause = min(2*r.pause, retryMost)
	return nil
}
