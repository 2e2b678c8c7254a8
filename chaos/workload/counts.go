package workload

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/semaphore"
)

// semaphore is a step with permits that nobody owns.
func (w *worker) semaphore(ctx context.Context, i int) error {
	name := w.cfg.Name(w.kind, i)
	s := semaphore.New(w.client, name)
	in, cancel := w.within(ctx)
	defer cancel()
	n := 1 + w.r.IntN(2)
	id := []int64{w.begin(history.Entry{Key: name, Op: history.Acquire, Owner: w.owner(), N: n})}
	err := w.prompt(in, func() error {
		switch r := w.r.IntN(100); {
		case r < 25:
			return s.TryAcquire(in, n)
		case r < 40:
			return s.TryAcquire(in, n, latchkey.Wait(time.Duration(w.r.IntN(200))*time.Millisecond))
		}
		return s.Acquire(in, n)
	})
	w.end(id, err, func(e *history.Entry) { e.Given = true })
	if err != nil {
		return err
	}
	w.rest(ctx, w.stay())
	for tries := 0; tries < 10; tries++ { // until it is known to be back, or not known
		back := []int64{w.begin(history.Entry{Key: name, Op: history.Release, N: n})}
		err = s.Release(context.Background(), n)
		w.end(back, err, nil)
		var lk *latchkey.Error
		if err == nil || errors.As(err, &lk) && lk.MaybeApplied() {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// permits is a step with a permit that has an id and a lease.
func (w *worker) permits(ctx context.Context, i int) error {
	name := w.cfg.Name(w.kind, i)
	s := permitsemaphore.New(w.client, name)
	in, cancel := w.within(ctx)
	defer cancel()
	who := w.owner()
	id := []int64{w.begin(history.Entry{Key: name, Op: history.Acquire, Owner: who, N: 1})}
	lease := w.lease(i)
	opts := leased(lease)
	var p *permitsemaphore.Permit
	err := w.prompt(in, func() (err error) {
		switch r := w.r.IntN(100); {
		case r < 25:
			p, err = s.TryAcquire(in, opts...)
		case r < 40:
			p, err = s.TryAcquire(in, append(opts, latchkey.Wait(time.Duration(w.r.IntN(200))*time.Millisecond))...)
		default:
			p, err = s.Acquire(in, opts...)
		}
		return err
	})
	w.end(id, err, func(e *history.Entry) { e.Until = e.Return })
	if err != nil {
		return err
	}
	t := &taken{ids: id, keys: []string{name}, who: who, left: p.Remaining, lost: p.Lost(), back: p.Release, op: history.Release}
	w.began(t, lease)
	w.hold(ctx, t, w.stay())
	if lease > 0 && w.chance(3) {
		w.abandon(t)
		return nil
	}
	_ = w.give(t, 1)
	return nil
}

// latch is a step with a latch that is set again and again.
func (w *worker) latch(ctx context.Context, i int) error {
	name := w.cfg.Name(w.kind, i)
	l := countdownlatch.New(w.client, name)
	in, cancel := w.within(ctx)
	defer cancel()
	// What nobody knows the outcome of is dear to check: it has time to be answered.
	long, cancelLong := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancelLong()
	switch n := w.r.IntN(100); {
	case n < 25:
		count := 1 + w.r.IntN(5)
		id := []int64{w.begin(history.Entry{Key: name, Op: history.Set, N: count})}
		set, err := l.TrySetCount(long, int64(count))
		w.end(id, err, func(e *history.Entry) {
			if !set {
				e.Out = history.Refused
			}
		})
		return err
	case n < 75:
		id := []int64{w.begin(history.Entry{Key: name, Op: history.CountDown, N: 1})}
		err := l.CountDown(long)
		w.end(id, err, nil)
		return err
	case n < 85:
		id := []int64{w.begin(history.Entry{Key: name, Op: history.Read})}
		left, err := l.Count(long)
		w.end(id, err, func(e *history.Entry) { e.N = int(left) })
		return err
	}
	id := []int64{w.begin(history.Entry{Key: name, Op: history.Await})}
	err := w.prompt(in, func() error { return l.Await(in) })
	w.end(id, err, nil)
	if errors.Is(err, in.Err()) {
		return nil
	}
	return err
}
