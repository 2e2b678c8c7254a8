package watchdog

import "time"

// A Result is the result of a renewal.
type Result int8

// The results of a renewal.
const (
	Failed   Result = iota // unknown; try again
	Extended               // ours, with the requested lease or a longer one
	NotOurs                // gone, or somebody else's
)

// A Reason is why an item was lost.
type Reason int

// The reasons for a loss.
const (
	WindowOver Reason = iota // no renewal succeeded in time
	Taken                    // Redis says that it is not ours
)

// A Subject is what an item stands for.
type Subject interface {
	// Lost is called when the item is lost, at most once for each item. It is
	// called on a goroutine of the watchdog, without the watchdog's lock. It
	// must not block.
	Lost(*Item, Reason)
}

// An Item is one leased thing that the watchdog watches. Set the exported
// fields and pass it to Add.
type Item struct {
	// Group names the items that may be renewed together.
	Group string
	// Subject is what the item stands for; the renew function finds it here.
	Subject Subject

	// guarded by the watchdog's mu
	window   Window
	lease    time.Duration // the lease to renew with; 0 if the item is not renewed
	until    Instant       // the longest that renewals may reach, if limited
	limited  bool
	nextTry  Instant // when the next renewal is due
	inFlight bool    // a renewal is under way
	queued   bool    // a renewal is due and waits for a free slot in its lane
	suspect  bool    // the item is to be looked at; see Recheck
	lookAt   Instant // when to look at it, if suspect
	looking  bool    // the renewal under way is a look
	due      Instant // when the loop must look at the item next
	index    int     // index in the heap plus 1; 0 when not in it
}

// A Renewal is one item of a batch, with the lease to request.
type Renewal struct {
	Item  *Item
	Lease time.Duration
	// Late is how late the renewal is sent.
	Late time.Duration
	// Left is what is left of the item's window when it is sent.
	Left time.Duration
	// Look is set if the renewal only has to show whether the item is still
	// ours. Lease may then be as short as possible.
	Look bool
}

// renewal returns the lease to request at a moment; it is 0 or less if nothing
// is left to request.
func (it *Item) renewal(at Instant) time.Duration {
	lease := it.lease
	if it.limited {
		lease = min(lease, -at.Since(it.until))
	}
	return lease.Truncate(time.Millisecond)
}

// worth reports whether a renewal at that moment gains anything. Just after a
// renewal, and near the end of a limited item, it would win back only the
// margins. After the end of the window it would only keep others out. If the
// window is longer than the lease, as after Extend, a renewal extends nothing
// but shows whether the item is still ours; worth then treats the window as if
// it had the length of the lease.
func (it *Item) worth(at Instant) bool {
	left := it.window.Remaining(at)
	spent := at.Since(it.nextTry) + it.lease/3
	return it.lease > 0 && left > 0 && it.renewal(at)-min(left, it.lease-spent) > it.lease/20
}

// renewIn returns how long it is until the next renewal is due; it is negative
// if the renewal is late.
func (it *Item) renewIn(now Instant) time.Duration { return -now.Since(it.nextTry) }

// scheduleLocked sets due: the time of the next renewal, or the end of the
// window.
func (it *Item) scheduleLocked(now Instant) {
	wait := it.window.Remaining(now)
	if !it.inFlight && !it.queued {
		next := now.Add(max(it.renewIn(now), 0))
		if it.worth(next) {
			wait = min(wait, -now.Since(next))
		}
		if it.suspect {
			wait = min(wait, -now.Since(it.lookAt))
		}
	}
	it.due = now.Add(max(wait, 0))
}

// Add returns the Instant that is d later on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{mono: i.mono + d, wall: i.wall + d}
}

// before compares Instants by the monotonic clock, on which the timer runs.
func (i Instant) before(other Instant) bool { return i.mono < other.mono }
