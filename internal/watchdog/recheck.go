package watchdog

import (
	"math/rand/v2"
	"time"
)

const (
	// lookEvery is the least time between two looks at all items.
	lookEvery = time.Second
	// lookAgain is when an item is looked at again after a look that failed.
	lookAgain = time.Second
	// lookSpread is the time over which the looks are spread, for each item.
	// The whole takes at most lookEvery.
	lookSpread = 100 * time.Microsecond
)

// Recheck makes the watchdog ask Redis about every item soon, including items
// with a fixed lease. It is for events after which Redis may have lost data,
// such as a failover. Items with a renewed lease are renewed early; items with
// a fixed lease are only looked at. The requests begin at once, or a second
// after the last Recheck began, and are spread over at most a second. The
// watchdog asks about each item until it gets an answer.
func (w *Watchdog) Recheck() {
	w.mu.Lock()
	if w.closed || len(w.items) == 0 || w.looks {
		w.mu.Unlock()
		return // nothing to look at, or a look at all items is pending
	}
	now := w.clock()
	w.looks = true
	if now.before(w.lookAt) {
		w.nudgeLocked(w.lookAt)
		return
	}
	w.lookLocked(now)
	w.nudgeLocked(w.items[0].item.due)
}

// lookLocked makes every item suspect.
func (w *Watchdog) lookLocked(now Instant) {
	w.looks, w.lookAt = false, now.Add(lookEvery)
	spread := min(time.Duration(len(w.items))*lookSpread, lookEvery)
	for _, p := range w.items {
		it := p.item
		if !it.suspect {
			it.suspect, it.lookAt = true, now.Add(rand.N(spread))
		}
		it.scheduleLocked(now)
	}
	w.items.sort()
}
