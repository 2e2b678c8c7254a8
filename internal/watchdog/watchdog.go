package watchdog

import (
	"context"
	"sync"
	"time"
)

const (
	// BatchSize is the number of items in one renewal, the same as Redisson's.
	BatchSize = 100
	// maxInFlight is the most renewals under way at once in one lane.
	maxInFlight = 8
	// tick is how often the clocks are compared while there are items, to
	// notice that the machine slept or that its clock was set.
	tick = time.Second
	// jump is the difference between the clocks from which all items are
	// scheduled anew.
	jump = 250 * time.Millisecond
	// callBound is the longest that one renewal may take. The bound is never
	// more than a sixth of the shortest lease in the batch.
	callBound = 3 * time.Second
	// scanLimit bounds the work of filling a batch.
	scanLimit = 1000
	// ahead is how long before its due time a renewal may be sent when another
	// has just returned; it is at most the aheadPart-th part of the lease. One
	// wake-up for each of many renewals would cost more than the renewals.
	ahead     = 100 * time.Millisecond
	aheadPart = 100
)

// A Renew asks Redis to extend all items of one batch and returns one Result
// for each, in order. It returns when ctx is done and does not retain the
// batch.
type Renew func(ctx context.Context, group string, batch []Renewal) []Result

// A Watchdog renews and watches items. Make one with New.
type Watchdog struct {
	clock Clock
	renew Renew
	lane  func(*Item) string

	// mu guards the fields below.
	mu      sync.Mutex
	items   dueHeap
	lanes   map[string]*lane
	spare   []*flight // flights for reuse
	walk    ordered   // iterator of batchLocked
	armed   Instant   // when the loop will run next
	agreed  Instant   // when all items were last scheduled by both clocks
	looks   bool      // all items are to be looked at, see Recheck,
	lookAt  Instant   // but not before this
	added   bool      // an item was added since the last run of the loop
	started bool
	closed  bool

	wake   chan struct{} // capacity 1; sent to without blocking
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup // the loop and the renewals
}

// A lane is one server. Renewals there do not wait for those of other servers.
type lane struct {
	name   string
	flying int     // renewals under way
	queue  []*Item // items that are due while maxInFlight renewals are under way
}

// New returns a Watchdog. It starts its goroutine with the first Add. laneOf
// returns the server of an item and must not block; it is nil if there is only
// one server.
func New(clock Clock, renew Renew, laneOf func(*Item) string) *Watchdog {
	if laneOf == nil {
		laneOf = func(*Item) string { return "" }
	}
	w := &Watchdog{clock: clock, renew: renew, lane: laneOf, lanes: make(map[string]*lane), wake: make(chan struct{}, 1)}
	// Renewals end with the watchdog, not with the context of any caller.
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Close ends the loop and all renewals under way, and waits for them. It
// forgets all items without reporting them as lost.
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

// A Plan sets how an item is kept. The item is renewed with Lease every third
// of it, or not at all if Lease is 0. If Max is above 0, renewals do not extend
// the item beyond Max after the plan is made.
type Plan struct {
	Lease time.Duration
	Max   time.Duration
}

// Add starts to watch it. It returns false and does not watch it if the window
// is already over or the watchdog is closed.
func (w *Watchdog) Add(it *Item, window Window, plan Plan) bool {
	w.mu.Lock()
	now := w.clock()
	if w.closed || window.Remaining(now) <= 0 {
		w.mu.Unlock()
		return false
	}
	it.window = window
	w.added = true
	it.inFlight, it.queued, it.suspect = false, false, false
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

// Change gives a watched item another plan, and the given window if that ends
// later than its present one. It does nothing if the item is not watched.
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
// lease after the beginning of the window, unless one was due already.
func (w *Watchdog) planLocked(it *Item, plan Plan, now Instant) {
	it.lease = plan.Lease
	it.limited = plan.Max > 0
	it.until = now.Add(plan.Max)
	third := plan.Lease / 3
	if it.window.length < plan.Lease/2 {
		third = it.window.length / 3 // another client has set a shorter lease
	}
	it.nextTry = it.window.from.Add(third)
	it.scheduleLocked(now)
}

// Prolong replaces the window of a watched item by window if that ends later.
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

// Remove stops watching it. It returns false if it was not watched: never
// added, removed before, or lost. After true, Lost is not called for it, and
// the caller decides what happens to it.
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

// Remaining returns how much of the window of it is left; 0 if it is not
// watched or its window is over.
func (w *Watchdog) Remaining(it *Item) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if it.index == 0 {
		return 0
	}
	return max(it.window.Remaining(w.clock()), 0)
}

// nudgeLocked unlocks mu and wakes the loop if an item is due before the loop's
// timer. It rarely has to while one lock is taken and freed all the time,
// because Remove does not reset the timer.
func (w *Watchdog) nudgeLocked(due Instant) {
	early := due.before(w.armed)
	if early {
		w.armed = due
	}
	w.mu.Unlock()
	if early {
		select {
		case w.wake <- struct{}{}:
		default: // a wake-up is pending already
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

// loss is a lost item, to be reported after mu is unlocked.
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
		it.scheduleLocked(now) // the two clocks may have drifted apart a little
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
			// run sends it when a slot is free. Until then only the end of its
			// window is due.
			it.queued = true
			l.queue = append(l.queue, it)
			it.scheduleLocked(now)
			w.items.fix(it)
		}
	}
	wait := tick
	if len(w.items) == 0 {
		// Nothing to watch: sleep until Add wakes the loop. But stay awake
		// between the holds of a lock that is taken and freed all the time.
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

// noticeJumpLocked schedules all items anew if one clock has moved relative to
// the other: the machine slept, or the time was set.
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
		r.Lease, r.Late = it.renewal(now), max(-it.renewIn(now), 0)
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
