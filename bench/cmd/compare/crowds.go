package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/rlock"
)

// wakeUps measures the time from the release by one client to the return of the
// acquire in another.
func wakeUps(ctx context.Context, t *task, ready func() error) (*outcome, error) {
	one, err := open(ctx, t)
	if err != nil {
		return nil, err
	}
	second := *t
	second.Process = 1
	other, err := open(ctx, &second)
	if err != nil {
		return nil, err
	}
	mine, theirs := one.slot(t.name(0)), other.slot(t.name(0))
	o := &outcome{Times: histogram{}}
	round := func() error {
		if err := mine.take(ctx); err != nil {
			return err
		}
		var got time.Time
		var err error
		var wg sync.WaitGroup
		wg.Go(func() {
			err = theirs.take(ctx)
			got = time.Now()
		})
		time.Sleep(20*time.Millisecond + rand.N(10*time.Millisecond)) // the waiter waits, and nobody is in step
		start := time.Now()
		if err := mine.give(ctx); err != nil {
			return err
		}
		wg.Wait()
		if err != nil {
			return err
		}
		o.Times.add(got.Sub(start))
		o.Max = max(o.Max, got.Sub(start))
		o.Ops++
		return theirs.give(ctx)
	}
	if err := round(); err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	*o = outcome{Times: histogram{}}
	m := t.meter()
	for end := time.Now().Add(t.For); time.Now().Before(end); {
		if err := round(); err != nil {
			return nil, err
		}
	}
	m.stop(o)
	t.look(o)
	o.Changed = o.Ops
	return o, nil
}

// crowd lets many goroutines wait behind one holder for as long as the task says,
// and then each take and give back once: Elapsed is how long that takes.
func crowd(ctx context.Context, t *task, ready func() error) (*outcome, error) {
	s, err := open(ctx, t)
	if err != nil {
		return nil, err
	}
	holder := s.slot(t.name(0))
	if err := holder.take(ctx); err != nil {
		return nil, err
	}
	slots := make([]slot, t.Goroutines)
	for i := range slots {
		slots[i] = s.slot(t.name(i))
	}
	before := &outcome{}
	runtime.GC()
	t.look(before)
	drain, cancel := context.WithCancel(ctx)
	defer cancel()
	var started atomic.Int64
	o := &outcome{Times: histogram{}}
	back := returns{o: o}
	var wg sync.WaitGroup
	c := &crowded{ctx, drain, &started, &back, &wg}
	wg.Add(len(slots))
	for _, one := range slots {
		go c.wait(one)
	}
	if err := settle(t, s.waiting, &started); err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	m := t.meter()
	time.Sleep(t.For)
	m.stop(o)
	o.Extra = map[string]float64{
		"sent/s held":  float64(o.Sent) / t.For.Seconds(),
		"client % cpu": 100 * o.CPU.Seconds() / t.For.Seconds(),
	}
	runtime.GC()
	t.look(o)
	o.Heap -= before.Heap
	o.Extra["stack MB"] = float64(o.Stacks-before.Stacks) / 1e6
	m = t.meter()
	back.mu.Lock()
	back.released = time.Now()
	back.mu.Unlock()
	if err := holder.give(ctx); err != nil {
		return nil, err
	}
	patience := time.AfterFunc(t.Patience, cancel)
	wg.Wait()
	patience.Stop()
	m.stop(o)
	o.Changed = o.Ops
	return o, errors.Join(back.errs...)
}

// crowded is what the goroutines of a crowd share, so that one of them has little
// besides what it waits with.
type crowded struct {
	ctx, drain context.Context
	started    *atomic.Int64
	back       *returns
	wg         *sync.WaitGroup
}

// wait is a function of few words: what its frame takes would be counted.
func (c *crowded) wait(one slot) {
	c.started.Add(1)
	c.back.note(c.ctx, one, one.take(c.drain))
	c.wg.Done()
}

// returns are those who come back from a crowd.
type returns struct {
	mu       sync.Mutex
	released time.Time
	o        *outcome
	errs     []error
}

// note gives back what one has taken, unless there was an error.
func (r *returns) note(ctx context.Context, one slot, err error) {
	now := time.Now()
	if err == nil {
		err = one.give(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled):
		r.o.Stuck++
	case err != nil:
		r.errs = append(r.errs, err)
	default:
		r.o.Ops++
		r.o.Times.add(now.Sub(r.released))
		r.o.Max = max(r.o.Max, now.Sub(r.released))
	}
}

// settle waits until all wait: by what the side says, or for a while.
func settle(t *task, waiting func() int, started *atomic.Int64) error {
	limit := time.Now().Add(2 * time.Minute)
	for int(started.Load()) < t.Goroutines || waiting != nil && waiting() < t.Goroutines {
		if time.Now().After(limit) {
			return errors.New("the waiters do not come to rest")
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(min(max(t.For/4, 50*time.Millisecond), time.Second)) // until their commands are under way, or answered
	return nil
}

// holds takes many locks, which nobody gives back, and looks on while they are
// renewed.
func holds(ctx context.Context, t *task, ready func() error) (*outcome, error) {
	c, _ := t.latchkey()
	runtime.GC()
	before := &outcome{}
	t.look(before)
	all := make([]*latchkey.Hold, t.Goroutines)
	const takers = 64
	var errs [takers]error
	var wg sync.WaitGroup
	for j := range takers {
		wg.Go(func() {
			for i := j; i < len(all) && errs[j] == nil; i += takers {
				all[i], errs[j] = rlock.New(c, t.name(i)).Lock(ctx)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	o := &outcome{Times: histogram{}}
	renewed := c.Stats().Renewals
	runtime.GC() // what the taking has left is not the renewals'
	m := t.meter()
	least := t.Lease
	for end := time.Now().Add(t.For); time.Now().Before(end); time.Sleep(t.Lease / 100) {
		for range min(len(all), 200) {
			least = min(least, all[rand.N(len(all))].Remaining())
		}
	}
	m.stop(o)
	periods := t.For.Seconds() / (t.Lease / 3).Seconds()
	o.Ops = int64(c.Stats().Renewals - renewed)
	o.Changed = o.Ops
	o.Extra = map[string]float64{
		"sent/period":    float64(o.Sent) / periods,
		"client % cpu":   100 * o.CPU.Seconds() / o.Elapsed.Seconds(),
		"least/lease":    float64(least) / float64(t.Lease),
		"renewed/period": float64(o.Ops) / periods,
		"lost":           float64(c.Stats().Losses),
	}
	runtime.GC()
	t.look(o)
	o.Heap -= before.Heap
	return o, nil
}

// latch lets many goroutines wait for a latch that process 0 opens.
func latch(ctx context.Context, t *task, ready func() error) (*outcome, error) {
	p, err := sharedPage(t.Page)
	if err != nil {
		return nil, err
	}
	c, _ := t.latchkey()
	l := countdownlatch.New(c, t.name(0))
	// Whoever is first makes it.
	if _, err := l.TrySetCount(ctx, 1); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := &outcome{}
	runtime.GC()
	t.look(before)
	o := &outcome{Times: histogram{}}
	var mu sync.Mutex
	var errs []error
	var started atomic.Int64
	var wg sync.WaitGroup
	for range t.Goroutines {
		wg.Go(func() {
			started.Add(1)
			err := l.Await(ctx)
			took := time.Duration(time.Now().UnixNano() - atomic.LoadInt64(&p.start))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, context.Canceled):
				o.Stuck++
			case err != nil:
				errs = append(errs, err)
			default:
				o.Ops++
				o.Times.add(took)
				o.Max = max(o.Max, took)
			}
		})
	}
	if err := settle(t, func() int { return c.Stats().Waiting }, &started); err != nil {
		return nil, err
	}
	runtime.GC()
	t.look(o)
	o.Heap -= before.Heap
	if err := ready(); err != nil {
		return nil, err
	}
	m := t.meter()
	if t.Process == 0 {
		time.Sleep(20 * time.Millisecond) // until the others have heard that it begins
		atomic.StoreInt64(&p.start, time.Now().UnixNano())
		if err := l.CountDown(ctx); err != nil {
			return nil, err
		}
	}
	patience := time.AfterFunc(t.Patience, cancel)
	wg.Wait()
	patience.Stop()
	m.stop(o)
	o.Elapsed, o.Changed = o.Max, o.Ops
	return o, errors.Join(errs...)
}
