package watchdog

import "time"

// A Result is what a renewal found.
type Result int8

// What a renewal can find.
const (
	Failed   Result = iota // nothing is known; try again
	Extended               // ours, with the lease asked for or a longer one
	NotOurs                // gone, or somebody else's
)

// A Reason says why an item was lost.
type Reason int

// Why an item is lost.
const (
	WindowOver Reason = iota // no renewal succeeded in time
	Taken                    // Redis says that it is not ours
)

// A Subject is what an item stands for.
type Subject interface {
	// Lost is called at most once for an item, from a goroutine of the watchdog
	// and without its lock, when the item is lost. It must not block.
	Lost(*Item, Reason)
}

// An Item is one leased thing under the watchdog's care. Its zero value with
// the exported fields set is ready to be given to Add.
type Item struct {
	// Group names the items that may be renewed together.
	Group string
	// Subject is what the item stands for; the renew function finds it here.
	Subject Subject

	// guarded by the watchdog's mu
	window   Window
	lease    time.Duration // of a renewal; 0 when the item is not renewed
	until    Instant       // no renewal reaches beyond it, when limited
	limited  bool
	nextTry  Instant // when the next renewal is due
	inFlight bool    // a renewal is under way
	queued   bool    // a renewal is due and waits for one that is under way
	doubted  bool    // it is to be looked at, see Recheck
	lookAt   Instant // when, if it is doubted
	looking  bool    // the renewal under way is a look
	due      Instant // when the loop must look at the item next
	index    int     // place in the heap, counted from 1; 0 when not in it
}

// A Renewal is one item of a batch, with the lease to ask for.
type Renewal struct {
	Item  *Item
	Lease time.Duration
	// Late is how long after it was due the renewal is sent.
	Late time.Duration
	// Look is set when it is sent only to learn whether the item is ours yet; then
	// Lease may be as short as can be.
	Look bool
}

// renewal returns the lease to ask for at a moment; 0 or less when there is
// nothing left to ask for.
func (it *Item) renewal(at Instant) time.Duration {
	lease := it.lease
	if it.limited {
		lease = min(lease, -at.Since(it.until))
	}
	return lease.Truncate(time.Millisecond)
}

// worth says whether a renewal at that moment would gain anything: just after
// one, and near the end of a limited item, only the margins would be won back.
// When the window is over it would only keep others out. Where the window is longer
// than the lease, as after Extend, it would win nothing, but tell whether the item
// is ours yet: then it counts as if the window were of the lease.
func (it *Item) worth(at Instant) bool {
	left := it.window.Remaining(at)
	spent := at.Since(it.nextTry) + it.lease/3
	return it.lease > 0 && left > 0 && it.renewal(at)-min(left, it.lease-spent) > it.lease/20
}

// renewIn returns how long it is until the next renewal is due; less than 0 when
// it is late.
func (it *Item) renewIn(now Instant) time.Duration { return -now.Since(it.nextTry) }

// scheduleLocked sets due: the next renewal, or the end of the window.
func (it *Item) scheduleLocked(now Instant) {
	wait := it.window.Remaining(now)
	if !it.inFlight && !it.queued {
		next := now.Add(max(it.renewIn(now), 0))
		if it.worth(next) {
			wait = min(wait, -now.Since(next))
		}
		if it.doubted {
			wait = min(wait, -now.Since(it.lookAt))
		}
	}
	it.due = now.Add(max(wait, 0))
}

// Add returns the Instant that is d later on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{mono: i.mono + d, wall: i.wall + d}
}

// before orders Instants by the monotonic clock, which the timer runs on.
func (i Instant) before(other Instant) bool { return i.mono < other.mono }
