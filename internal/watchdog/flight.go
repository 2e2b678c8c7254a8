package watchdog

import (
	"context"
	"time"
)

// A lane is one server. Renewals there do not wait for those of other servers.
type lane struct {
	name   string
	flying int     // renewals under way
	queue  []*Item // items that are due while maxInFlight renewals are under way
}

// laneLocked returns the lane of an item.
func (w *Watchdog) laneLocked(it *Item) *lane {
	name := w.lane(it)
	l := w.lanes[name]
	if l == nil {
		l = &lane{name: name}
		w.lanes[name] = l
	}
	return l
}

// A flight is a renewal under way.
type flight struct {
	lane  *lane
	group string
	batch []Renewal
	sent  Instant
	bound time.Duration
}

// flightLocked returns an empty flight.
func (w *Watchdog) flightLocked() *flight {
	if n := len(w.spare); n > 0 {
		f := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return f
	}
	return new(flight)
}

// recycleLocked keeps f for reuse.
func (w *Watchdog) recycleLocked(f *flight) {
	if len(w.spare) < maxInFlight {
		clear(f.batch)
		*f = flight{batch: f.batch[:0]}
		w.spare = append(w.spare, f)
	}
}

// sendLocked sends a renewal of first, filled up with other items of its group.
func (w *Watchdog) sendLocked(l *lane, first *Item, now Instant) {
	f := w.batchLocked(l, first, now)
	w.done.Go(func() { w.run(f) })
}

// batchLocked prepares such a renewal for the caller to send. It fills the
// batch with items that are not due yet, which keeps the number of scripts at
// one for each hundred holds and period, however the holds are spread over
// time. Items that are due first are taken first. So few items are renewed
// early, and items that were renewed together stay together.
func (w *Watchdog) batchLocked(l *lane, first *Item, now Instant) *flight {
	f := w.flightLocked()
	f.lane, f.group, f.sent, f.bound = l, first.Group, now, callBound
	first.inFlight = true
	f.batch = append(f.batch, Renewal{Item: first})
	for i := 0; i < min(len(l.queue), scanLimit) && len(f.batch) < BatchSize; i++ {
		f.take(l.queue[i])
	}
	w.walk.begin(w.items)
	for range scanLimit {
		it := w.walk.item()
		if it == nil || len(f.batch) == BatchSize {
			break
		}
		f.take(it)
	}
	w.walk.end()

	for i := range f.batch {
		r := &f.batch[i]
		it := r.Item
		r.Lease, r.Late, r.Left = it.renewal(now), max(-it.renewIn(now), 0), it.window.Remaining(now)
		if r.Lease <= 0 {
			r.Lease, r.Late, r.Look = time.Millisecond, 0, true // too short to extend a lease of ours
		}
		if it.lease > 0 {
			f.bound = min(f.bound, it.lease/6)
		}
		it.queued = false
		it.looking, it.suspect = it.suspect, false
		it.scheduleLocked(now)
		w.items.fix(it)
	}
	f.bound = max(f.bound, time.Millisecond)
	l.flying++
	return f
}

// take adds an item to the batch if that is worth it. The caller holds the
// watchdog's mu.
func (f *flight) take(it *Item) {
	if it.index > 0 && !it.inFlight && it.Group == f.group && (it.suspect || it.worth(f.sent)) {
		f.batch = append(f.batch, Renewal{Item: it})
		it.inFlight = true
	}
}

// nextLocked returns what to send after a renewal has returned: an item that
// waits for a slot in the lane, or one that is about to be due in any lane with
// a free slot. It returns nil if there is neither.
func (w *Watchdog) nextLocked(l *lane, now Instant) *flight {
	for len(l.queue) > 0 {
		it := l.queue[0]
		l.queue[0], l.queue = nil, l.queue[1:]
		// It may have been removed or lost meanwhile, or sent with others.
		if it.index > 0 && it.queued {
			return w.batchLocked(l, it, now)
		}
	}
	l.queue = nil
	if l.flying == 0 && w.lanes[l.name] == l {
		delete(w.lanes, l.name)
	}
	if len(w.items) == 0 {
		return nil
	}
	it := w.items[0].item
	if it.inFlight || it.queued || it.renewIn(now) > min(ahead, it.lease/aheadPart) || !it.worth(now) {
		return nil
	}
	if l = w.laneLocked(it); l.flying == maxInFlight {
		return nil
	}
	return w.batchLocked(l, it, now)
}

// run carries out a renewal and those that follow it at once.
func (w *Watchdog) run(f *flight) {
	for f != nil {
		f = w.runOne(f)
	}
}

// runOne carries out one renewal and applies its results. It returns the
// renewal that follows, if any.
func (w *Watchdog) runOne(f *flight) (next *flight) {
	ctx, cancel := context.WithTimeout(w.ctx, f.bound)
	results := w.renew(ctx, f.group, f.batch)
	cancel()

	var lost []loss
	w.mu.Lock()
	f.lane.flying--
	now := w.clock()
	for i := range f.batch {
		r := &f.batch[i]
		it := r.Item
		it.inFlight = false
		if it.index == 0 { // removed or lost meanwhile
			continue
		}
		switch results[i] {
		case Extended:
			it.window = it.window.Later(NewWindow(f.sent, r.Lease), now)
			it.nextTry = f.sent.Add(it.lease / 3)
		case NotOurs:
			w.removeLocked(it)
			lost = append(lost, loss{it, Taken})
			continue
		default:
			it.nextTry = now.Add(it.lease / 10)
			if it.looking && !it.suspect {
				it.suspect, it.lookAt = true, now.Add(lookAgain)
			}
		}
		it.scheduleLocked(now)
		w.items.fix(it)
	}
	l := f.lane
	w.recycleLocked(f)
	next = w.nextLocked(l, now)
	again := len(w.items) > 0 && w.items[0].due < w.armed.mono
	w.mu.Unlock()
	for _, l := range lost {
		l.item.Subject.Lost(l.item, l.reason)
	}
	if again {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return next
}
