package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A guard sees who comes and goes, in all processes.
type guard struct {
	page     *page
	limit    int64
	overlaps atomic.Int64
}

// enter reports whether somebody else was there before.
func (g *guard) enter(me int64) (changed bool) {
	if g.limit == 0 {
		return true
	}
	if atomic.AddInt64(&g.page.inside, 1) > g.limit {
		g.overlaps.Add(1)
	}
	return atomic.SwapInt64(&g.page.last, me) != me
}

func (g *guard) leave() {
	if g.limit != 0 {
		atomic.AddInt64(&g.page.inside, -1)
	}
}

// A tally is what one goroutine has counted.
type tally struct {
	ops, changed, stuck int64
	times               histogram
	max                 time.Duration
	err                 error
}

// loop takes and gives back all the time, in every goroutine, for as long as the
// task says. Where all want the same, the time is that of taking; where nobody
// waits for anybody, that of taking and giving back.
func loop(ctx context.Context, t *task, ready func() error) (*outcome, error) {
	p, err := sharedPage(t.Page)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, t)
	if err != nil {
		return nil, err
	}
	g := &guard{page: p, limit: int64(t.Limit)}
	slots := make([]slot, t.Goroutines)
	for i := range slots {
		slots[i] = s.slot(t.name(i))
	}
	// Scripts, connections and the collector find their feet.
	warm := t.spin(ctx, slots, g, t.For/5, nil)
	if err := warm.err; err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	o := &outcome{}
	m := t.meter()
	sum := t.spin(ctx, slots, g, t.For, func(half bool) {
		if half {
			t.look(o)
		} else {
			m.stop(o)
		}
	})
	if sum.err != nil {
		return nil, sum.err
	}
	o.Elapsed = t.For
	o.Ops, o.Changed, o.Stuck, o.Times, o.Max = sum.ops, sum.changed, sum.stuck, sum.times, sum.max
	o.Overlaps = g.overlaps.Load()
	return o, nil
}

// spin lets the slots work for d, and calls at, if there is one, after half of
// it and at its end.
func (t *task) spin(ctx context.Context, slots []slot, g *guard, d time.Duration, at func(half bool)) tally {
	ctx, cancel := context.WithTimeout(ctx, d+t.Patience)
	defer cancel()
	all := make([]tally, len(slots))
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for i, s := range slots {
		wg.Go(func() { all[i] = t.work(ctx, s, g, int64(t.Process)<<32+int64(i)+1, end) })
	}
	if at != nil {
		time.Sleep(d / 2)
		at(true)
		time.Sleep(time.Until(end))
		at(false)
	}
	wg.Wait()
	sum := tally{times: histogram{}}
	var errs []error
	for _, one := range all {
		sum.ops, sum.changed, sum.stuck = sum.ops+one.ops, sum.changed+one.changed, sum.stuck+one.stuck
		sum.times.merge(one.times)
		sum.max = max(sum.max, one.max)
		errs = append(errs, one.err)
	}
	sum.err = errors.Join(errs...)
	return sum
}

// work is what one goroutine does until end. Where nobody waits for anybody, the
// context cannot be cancelled; but rueidislock's is, as it may not come back then
// either.
func (t *task) work(ctx context.Context, s slot, g *guard, me int64, end time.Time) (c tally) {
	c.times = histogram{}
	contended := t.Names == 0
	if !contended && t.Side != "rueidislock" {
		ctx = context.WithoutCancel(ctx)
	}
	for {
		start := time.Now()
		if !start.Before(end) {
			return c
		}
		if err := s.take(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				c.stuck++
			} else {
				c.err = err
			}
			return c
		}
		took := time.Since(start)
		changed := g.enter(me)
		g.leave()
		if c.err = s.give(context.WithoutCancel(ctx)); c.err != nil {
			return c
		}
		now := time.Now()
		if !contended {
			took = now.Sub(start)
		}
		if now.After(end) {
			return c
		}
		c.ops++
		if changed {
			c.changed++
		}
		c.times.add(took)
		c.max = max(c.max, took)
	}
}
