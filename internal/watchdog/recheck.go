package watchdog

import (
	"math/rand/v2"
	"time"
)

const (
	// lookEvery is how often everything is looked at, at most.
	lookEvery = time.Second
	// lookAgain is when an item is looked at once more that could not be.
	lookAgain = time.Second
	// lookSpread is for how long the looks at one item each are spread out; a
	// second is the most.
	lookSpread = 100 * time.Microsecond
)

// Recheck has Redis asked soon about every item, one with a fixed lease too:
// something has happened that may have cost what Redis knew, such as a failover.
// Who is renewed is renewed; who is not is only looked at. It begins at once, or a
// second after the last Recheck began, and is spread out over at most a second;
// an item is asked for until there is an answer.
func (w *Watchdog) Recheck() {
	w.mu.Lock()
	if w.closed || len(w.items) == 0 || w.looks {
		w.mu.Unlock()
		return // nothing to look at, or it is to be looked at anyhow
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

// lookLocked marks every item as one to be looked at.
func (w *Watchdog) lookLocked(now Instant) {
	w.looks, w.lookAt = false, now.Add(lookEvery)
	spread := min(time.Duration(len(w.items))*lookSpread, lookEvery)
	for _, p := range w.items {
		it := p.item
		if !it.doubted {
			it.doubted, it.lookAt = true, now.Add(rand.N(spread))
		}
		it.scheduleLocked(now)
	}
	w.items.sort()
}
