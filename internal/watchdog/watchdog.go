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
