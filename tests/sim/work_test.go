package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// A kind is the work of some of the workers.
type kind struct {
	name  string
	keeps bool // what it uses ends with a loss of data, in a way that is not promised
	work  func(*world, *worker)
}

// names is the number of objects of each kind.
const names = 8

// some returns the name of an object; a few names are used more often.
func (k *worker) some(kind string) string {
	x := k.rand.Float64()
	return fmt.Sprintf("%s:%d", kind, int(x*x*names))
}

func (w *world) kinds() (chosen []kind) {
	locks := func(name string, weight func(k *worker) int, lock func(k *worker, name string) latchkey.Locker) kind {
		return kind{name: name, work: func(w *world, k *worker) {
			for w.thinks(k) {
				w.locks(k, k.some("lock:"+name), weight(k), lock)
			}
		}}
	}
	alone := func(*worker) int { return 1000 }
	for _, k := range []kind{
		locks("rlock", alone, func(k *worker, name string) latchkey.Locker { return rlock.New(k.client, name) }),
		locks("fenced", alone, func(k *worker, name string) latchkey.Locker { return rlock.New(k.client, name, rlock.Fenced()) }),
		locks("spin", alone, func(k *worker, name string) latchkey.Locker {
			return rlock.New(k.client, name, rlock.Spin(rlock.Backoff{Initial: time.Second, Max: 5 * time.Second}))
		}),
		locks("fair", alone, func(k *worker, name string) latchkey.Locker { return fairlock.New(k.client, name) }),
		{name: "rw", work: func(w *world, k *worker) {
			for w.thinks(k) {
				name := k.some("lock:rw")
				if k.rand.IntN(3) > 0 {
					w.locks(k, name, 1, func(k *worker, name string) latchkey.Locker { return rwlock.New(k.client, name).ReadLock() })
				} else {
					w.locks(k, name, 1000, func(k *worker, name string) latchkey.Locker { return rwlock.New(k.client, name).WriteLock() })
				}
			}
		}},
		locks("group", alone, func(k *worker, name string) latchkey.Locker { return multilock.NewGroup(k.client, name, "x", "y") }),
		{name: "multi", work: multi},
		{name: "sem", keeps: true, work: permits},
		{name: "permit", keeps: true, work: leasedPermits},
		{name: "latch", keeps: true, work: latches},
	} {
		if *kindsFlag != "" && !slices.Contains(strings.Split(*kindsFlag, ","), k.name) || k.keeps && w.faults.loss {
			continue
		}
		chosen = append(chosen, k)
	}
	if len(chosen) == 0 {
		w.t.Fatalf("-sim.kinds=%s: there are none of these (in this seed)", *kindsFlag)
	}
	return chosen
}

// failed records an error of an attempt to acquire.
func (w *world) failed(k *worker, o *object, err error) {
	switch {
	case errors.Is(err, latchkey.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded):
		w.ledger.count(&w.ledger.refused)
	case w.faults.calm(calmFor) && !errors.Is(err, latchkey.ErrClosed):
		w.ledger.fail("%v on %s: %v, with nothing wrong for %v", k, o.name, err, calmFor)
	default:
		w.ledger.count(&w.ledger.errors)
	}
}

// attempt calls lock with varying contexts and options.
func (w *world) attempt(k *worker, o *object, lock func(context.Context, ...latchkey.LockOption) error,
	try func(context.Context, ...latchkey.LockOption) error,
) error {
	patience := time.Second + k.upTo(10*time.Minute)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	if k.rand.IntN(8) == 0 {
		ctx = latchkey.WithHolder(ctx)
	}
	// The context of a hold would end with it: it lasts as long as anybody may hold.
	time.AfterFunc(patience+time.Hour, cancel)
	var opts []latchkey.LockOption
	leased := !strings.HasPrefix(o.name, "sem:")
	if leased && k.rand.IntN(10) == 0 {
		opts = append(opts, latchkey.Label("someone"))
	}
	if leased && k.rand.IntN(10) == 0 {
		opts = append(opts, latchkey.Lease(time.Second+k.upTo(time.Minute)))
	}
	switch k.rand.IntN(5) {
	case 0:
		return try(ctx, opts...)
	case 1:
		defer w.ledger.waits(o)()
		return try(ctx, append(opts, latchkey.Wait(k.upTo(time.Minute)))...)
	}
	defer w.ledger.waits(o)()
	start := time.Now()
	err := lock(ctx, opts...)
	if err != nil && time.Since(start) > patience+100*time.Millisecond {
		w.ledger.fail("%v on %s returned %v after its context", k, o.name, time.Since(start)-patience)
	}
	return err
}

// locks takes a lock, holds it for a while, and releases it.
func (w *world) locks(k *worker, name string, weight int, lock func(*worker, string) latchkey.Locker) {
	o, l := w.ledger.object(name, 1000), lock(k, name)
	var h *latchkey.Hold
	err := w.attempt(k, o, func(ctx context.Context, opts ...latchkey.LockOption) (err error) {
		h, err = l.Lock(ctx, opts...)
		return err
	}, func(ctx context.Context, opts ...latchkey.LockOption) (err error) {
		h, err = l.TryLock(ctx, opts...)
		return err
	})
	if err != nil {
		w.failed(k, o, err)
		return
	}
	w.ledger.granted(o, k.id, k.String(), weight, h.Token())
	var nested *latchkey.Hold
	if k.rand.IntN(8) == 0 {
		if nested, err = l.TryLock(h.Context()); err == nil {
			w.ledger.raise(o, k.String(), nested.Token())
		}
	}
	w.keeps(k, o, h.Lost())
	if nested != nil {
		_ = nested.Unlock(context.Background())
	}
	w.ledger.ended(o, k.id)
	_ = h.Unlock(context.Background())
}

// keeps waits for the time for which something is held, or until it is lost.
func (w *world) keeps(k *worker, o *object, lost <-chan struct{}) {
	select {
	case <-time.After(k.upTo(time.Minute)):
	case <-lost:
		w.ledger.count(&w.ledger.lost)
	}
}

// multi takes two locks that other workers take one by one.
func multi(w *world, k *worker) {
	for w.thinks(k) {
		a, b := k.some("lock:rlock"), k.some("lock:fenced")
		oa, ob := w.ledger.object(a, 1000), w.ledger.object(b, 1000)
		l := multilock.New(rlock.New(k.client, a), rlock.New(k.client, b, rlock.Fenced()))
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		time.AfterFunc(2*time.Hour, cancel)
		h, err := l.TryLock(ctx, latchkey.Wait(k.upTo(5*time.Minute)))
		if err != nil {
			w.failed(k, oa, err)
			continue
		}
		w.ledger.granted(oa, k.id, k.String(), 1000, 0)
		w.ledger.granted(ob, k.id, k.String(), 1000, 0)
		w.keeps(k, oa, h.Lost())
		w.ledger.ended(oa, k.id)
		w.ledger.ended(ob, k.id)
		_ = h.Unlock(context.Background())
	}
}

// permits takes permits of a semaphore.
func permits(w *world, k *worker) {
	for w.thinks(k) {
		name := k.some("sem")
		o, s, n := w.ledger.object(name, 3), semaphore.New(k.client, name), 1+k.rand.IntN(2)
		_, _ = s.TrySetPermits(w.ctx, o.room)
		err := w.attempt(k, o,
			func(ctx context.Context, _ ...latchkey.LockOption) error { return s.Acquire(ctx, n) },
			func(ctx context.Context, opts ...latchkey.LockOption) error { return s.TryAcquire(ctx, n, opts...) })
		if err != nil {
			w.failed(k, o, err)
			continue
		}
		w.ledger.granted(o, k.id, k.String(), n, 0)
		w.keeps(k, o, nil)
		w.ledger.ended(o, k.id)
		if s.Release(context.Background(), n) != nil {
			w.ledger.leaks(o)
		}
	}
}

// leasedPermits takes permits with leases.
func leasedPermits(w *world, k *worker) {
	for w.thinks(k) {
		name := k.some("permit")
		o, s := w.ledger.object(name, 3), permitsemaphore.New(k.client, name)
		_, _ = s.TrySetPermits(w.ctx, o.room)
		var p *permitsemaphore.Permit
		err := w.attempt(k, o, func(ctx context.Context, opts ...latchkey.LockOption) (err error) {
			p, err = s.Acquire(ctx, opts...)
			return err
		}, func(ctx context.Context, opts ...latchkey.LockOption) (err error) {
			p, err = s.TryAcquire(ctx, opts...)
			return err
		})
		if err != nil {
			w.failed(k, o, err)
			continue
		}
		w.ledger.granted(o, k.id, k.String(), 1, 0)
		w.keeps(k, o, p.Lost())
		w.ledger.ended(o, k.id)
		_ = p.Release(context.Background())
	}
}

// latches begins a count that other workers count down and wait for.
func latches(w *world, k *worker) {
	for round := 0; w.thinks(k); round++ {
		name := fmt.Sprintf("latch:%d:%d", k.id, round)
		n := 1 + k.rand.IntN(8)
		set, err := countdownlatch.New(k.client, name).TrySetCount(w.ctx, int64(n))
		if err != nil || !set {
			w.ledger.count(&w.ledger.errors)
			continue
		}
		var begun, failed atomic.Int64
		var down, waits sync.WaitGroup
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
		for range n {
			at, c := k.upTo(2*time.Minute), w.clients[k.rand.IntN(len(w.clients))]
			down.Go(func() {
				time.Sleep(at)
				begun.Add(1)
				if countdownlatch.New(c, name).CountDown(ctx) != nil {
					failed.Add(1)
				}
			})
			waits.Go(func() {
				err := countdownlatch.New(c, name).Await(ctx)
				switch done := begun.Load(); {
				case err == nil && done < int64(n) && failed.Load() >= 0 && ctx.Err() == nil:
					w.ledger.fail("%s has ended after %d of %d", name, done, n)
				case err == nil:
					w.ledger.count(&w.ledger.grants)
				default:
					w.ledger.count(&w.ledger.errors)
				}
			})
		}
		down.Wait()
		if failed.Load() > 0 { // it may never end
			time.AfterFunc(2*time.Minute, cancel)
		}
		waits.Wait()
		cancel()
		for range 20 {
			if _, err := countdownlatch.New(k.client, name).Delete(context.Background()); err == nil {
				break
			}
			time.Sleep(5 * time.Second)
		}
	}
}
