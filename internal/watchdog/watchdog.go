package watchdog

import (
	"context"
	"sync"
	"time"
)

const (
	// BatchSize is how many items go into one renewal, as many as Redisson's.
	BatchSize = 100
	// maxInFlight is how many renewals may be under way at once in one lane.
	maxInFlight = 8
	// tick is how often the clocks are compared while there is something to
	// watch, so that a machine that slept or whose clock was set is noticed.
	tick = time.Second
	// jump is by how much the clocks must disagree to be looked at.
	jump = 250 * time.Millisecond
	// callBound is the longest that one renewal may take; never more than a
	// sixth of the shortest lease in it.
	callBound = 3 * time.Second
	// scanLimit bounds the work of filling up a batch.
	scanLimit = 1000
	// ahead is how long before it is due a renewal may be sent when another one has
	// just come back, and aheadPart which part of the lease at most: to wake up for
	// each of many costs more than they do.
	ahead     = 100 * time.Millisecond
	aheadPart = 100
)

// A Renew asks Redis to extend every item of one batch and returns one Result
// each, in order. It returns when ctx is done, and does not keep the batch.
type Renew func(ctx context.Context, group string, batch []Renewal) []Result

// A Watchdog is the scheduler. Make one with New.
type Watchdog struct {
	clock Clock
	renew Renew
	lane  func(*Item) string

	// mu guards the fields below.
	mu      sync.Mutex
	items   dueHeap
	lanes   map[string]*lane
	landed  []*flight // to be used again
	walk    ordered   // of sendLocked
	armed   Instant   // when the loop will look next
	agreed  Instant   // when every item was last scheduled by both clocks
	looks   bool      // everything is to be looked at, see Recheck,
	lookAt  Instant   // but not before this
	added   bool      // something was, since the loop looked last
	started bool
	closed  bool

	wake   chan struct{} // capacity 1; sent to without blocking
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup // the loop and the renewals
}

// A lane is one server: renewals there do not wait for those of others.
type lane struct {
	name   string
	flying int     // renewals under way
	queue  []*Item // due, when as many were under way as may be
}

// New returns a Watchdog. It starts its goroutine with the first Add. laneOf
// names the server of an item, and must not block; nil where there is only one.
func New(clock Clock, renew Renew, laneOf func(*Item) string) *Watchdog {
	if laneOf == nil {
		laneOf = func(*Item) string { return "" }
	}
	w := &Watchdog{clock: clock, renew: renew, lane: laneOf, lanes: make(map[string]*lane), wake: make(chan struct{}, 1)}
	// The watchdog's own life bounds its renewals; no caller's context does.
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Close ends the loop and every renewal under way, and waits for them. Items
// are forgotten without being reported lost.
func (w *Watchdog) Close() {
	w.mu.Lock()
	w.closed = true
	for _, p := range w.items {
		p.item.index = 0
	}
	w.items = nil
	clear(w.lanes)
	w.mu.Unlock()
	w.cancel()
	w.done.Wait()
}

// Len returns the number of items.
func (w *Watchdog) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.items)
}

// A Plan says how an item is kept: renewed with Lease every third of it, or not
// at all when Lease is 0; with Max above 0, never so that it lasts longer than
// Max after the plan is made.
type Plan struct {
	Lease time.Duration
	Max   time.Duration
}

// Add puts it under watch. It returns false, and watches nothing, when the
// window is over already or the watchdog is closed.
func (w *Watchdog) Add(it *Item, window Window, plan Plan) bool {
	w.mu.Lock()
	now := w.clock()
	if w.closed || window.Remaining(now) <= 0 {
		w.mu.Unlock()
		return false
	}
	it.window = window
	w.added = true
	it.inFlight, it.queued, it.doubted = false, false, false
	w.planLocked(it, plan, now)
	w.items.push(it)
	if !w.started {
		w.started = true
		w.agreed, w.armed = now, it.due
		w.done.Go(w.loop)
	}
	w.nudgeLocked(it.due)
	return true
}

// Change gives a watched item another plan and, when window ends later than its
// present one, that window. It does nothing when the item is not watched.
func (w *Watchdog) Change(it *Item, window Window, plan Plan) {
	w.mu.Lock()
	if it.index == 0 {
		w.mu.Unlock()
		return
	}
	now := w.clock()
	it.window = it.window.Later(window, now)
	w.planLocked(it, plan, now)
	w.items.fix(it)
	w.nudgeLocked(it.due)
}

// planLocked sets how it is renewed. The next renewal is due a third of the
// lease after the window began, unless one was due already.
func (w *Watchdog) planLocked(it *Item, plan Plan, now Instant) {
	it.lease = plan.Lease
	it.limited = plan.Max > 0
	it.until = now.Add(plan.Max)
	third := plan.Lease / 3
	if it.window.length < plan.Lease/2 {
		third = it.window.length / 3 // somebody else has chosen a short one
	}
	it.nextTry = it.window.from.Add(third)
	it.scheduleLocked(now)
}

// Prolong moves the window of a watched item to window if that ends later.
func (w *Watchdog) Prolong(it *Item, window Window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if it.index == 0 {
		return
	}
	now := w.clock()
	it.window = it.window.Later(window, now)
	it.scheduleLocked(now)
	w.items.fix(it)
}

// Remove ends the watch over it. It returns false when it was not watched:
// never added, removed before, or lost. Whoever gets true decides what happens
// to the item; its Lost will not be called.
func (w *Watchdog) Remove(it *Item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removeLocked(it)
}

// Take is Remove that returns the window of it.
func (w *Watchdog) Take(it *Item) Window {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeLocked(it)
	return it.window
}

func (w *Watchdog) removeLocked(it *Item) bool {
	if it.index == 0 {
		return false
	}
	w.items.remove(it)
	return true
}

// Remaining returns how much of the window of it is left, 0 when it is not
// watched or its window is over.
func (w *Watchdog) Remaining(it *Item) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if it.index == 0 {
		return 0
	}
	return max(it.window.Remaining(w.clock()), 0)
}

// nudgeLocked unlocks mu and wakes the loop if something is due earlier than it
// means to look. In the steady state of a lock that is taken and freed all the
// time it need not, because the loop's timer is not put back by Remove.
func (w *Watchdog) nudgeLocked(due Instant) {
	early := due.before(w.armed)
	if early {
		w.armed = due
	}
	w.mu.Unlock()
	if early {
		select {
		case w.wake <- struct{}{}:
		default: // one wake-up is as good as two
		}
	}
}

func (w *Watchdog) loop() {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		wait := w.step()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

// loss is an item found lost, to be told when mu is free.
type loss struct {
	item   *Item
	reason Reason
}

// step does what is due and returns how long to sleep.
func (w *Watchdog) step() time.Duration {
	w.mu.Lock()
	now := w.clock()
	w.noticeJumpLocked(now)
	if w.looks && !now.before(w.lookAt) {
		w.lookLocked(now)
	}
	var lost []loss
	for len(w.items) > 0 && now.Since(w.items[0].item.due) >= 0 {
		it := w.items[0].item
		it.scheduleLocked(now) // the clocks may have moved apart a little
		switch {
		case now.before(it.due):
			w.items.fix(it)
		case it.window.Remaining(now) <= 0:
			w.items.remove(it)
			lost = append(lost, loss{it, WindowOver})
		default:
			l := w.laneLocked(it)
			if l.flying < maxInFlight {
				w.sendLocked(l, it, now)
				break
			}
			// run sends it; until then only the end of its window is due.
			it.queued = true
			l.queue = append(l.queue, it)
			it.scheduleLocked(now)
			w.items.fix(it)
		}
	}
	wait := tick
	if len(w.items) == 0 {
		// Nothing to watch: sleep until Add says otherwise, but not between the
		// holds of a lock that is taken and freed all the time.
		if !w.added {
			wait = time.Hour
		}
	} else if until := -now.Since(w.items[0].item.due); until < wait {
		wait = max(until, 0)
	}
	if until := w.lookAt.mono - now.mono; w.looks && until < wait {
		wait = until
	}
	w.added = false
	w.armed = now.Add(wait)
	w.mu.Unlock()
	for _, l := range lost {
		l.item.Subject.Lost(l.item, l.reason)
	}
	return wait
}

// noticeJumpLocked looks at every item again when one clock has moved and the
// other has not: the machine slept, or somebody set the time.
func (w *Watchdog) noticeJumpLocked(now Instant) {
	apart := now.wall - w.agreed.wall - (now.mono - w.agreed.mono)
	if apart.Abs() < jump {
		return
	}
	w.agreed = now
	for _, p := range w.items {
		p.item.scheduleLocked(now)
	}
	w.items.sort()
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
	if n := len(w.landed); n > 0 {
		f := w.landed[n-1]
		w.landed = w.landed[:n-1]
		return f
	}
	return new(flight)
}

// landLocked keeps f for another flight.
func (w *Watchdog) landLocked(f *flight) {
	if len(w.landed) < maxInFlight {
		clear(f.batch)
		*f = flight{batch: f.batch[:0]}
		w.landed = append(w.landed, f)
	}
}

// sendLocked sends off a renewal of first, filled up with items of its group.
func (w *Watchdog) sendLocked(l *lane, first *Item, now Instant) {
	f := w.boardLocked(l, first, now)
	w.done.Go(func() { w.run(f) })
}

// boardLocked makes such a renewal ready, and the caller sends it off. Filling up
// with items that are not due yet keeps the number of scripts at one for each
// hundred holds and period, however the holds are spread over time. Who is due first
// goes first, so that few are renewed before their time, and those who once went
// together are due together.
func (w *Watchdog) boardLocked(l *lane, first *Item, now Instant) *flight {
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
		r.Lease, r.Late = it.renewal(now), max(-it.renewIn(now), 0)
		if r.Lease <= 0 {
			r.Lease, r.Late, r.Look = time.Millisecond, 0, true // it extends nothing that is ours
		}
		if it.lease > 0 {
			f.bound = min(f.bound, it.lease/6)
		}
		it.queued = false
		it.looking, it.doubted = it.doubted, false
		it.scheduleLocked(now)
		w.items.fix(it)
	}
	f.bound = max(f.bound, time.Millisecond)
	l.flying++
	return f
}

// take adds an item to the batch if it is worth it. The caller has the
// watchdog's mu.
func (f *flight) take(it *Item) {
	if it.index > 0 && !it.inFlight && it.Group == f.group && (it.doubted || it.worth(f.sent)) {
		f.batch = append(f.batch, Renewal{Item: it})
		it.inFlight = true
	}
}

// nextLocked returns what else to send when a renewal has come back: what waits for
// its slot in the lane, or what is about to be due, in any lane that has a slot; nil
// for nothing.
func (w *Watchdog) nextLocked(l *lane, now Instant) *flight {
	for len(l.queue) > 0 {
		it := l.queue[0]
		l.queue[0], l.queue = nil, l.queue[1:]
		// It may have been given back or lost meanwhile, or sent with others.
		if it.index > 0 && it.queued {
			return w.boardLocked(l, it, now)
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
	return w.boardLocked(l, it, now)
}

// run carries a renewal out, and those that may follow it at once.
func (w *Watchdog) run(f *flight) {
	for f != nil {
		f = w.fly(f)
	}
}

// fly carries one renewal out and files its results. It returns the one to follow.
func (w *Watchdog) fly(f *flight) (next *flight) {
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
		if it.index == 0 { // given back, or lost, meanwhile
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
			if it.looking && !it.doubted {
				it.doubted, it.lookAt = true, now.Add(lookAgain)
			}
		}
		it.scheduleLocked(now)
		w.items.fix(it)
	}
	l := f.lane
	w.landLocked(f)
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
