package watchdog

import "time"

// An Instant is one moment on both clocks of this machine. The monotonic clock
// stands still while the machine sleeps; the wall clock can be set. A lease is
// over when either clock says so.
type Instant struct {
	mono time.Duration
	wall time.Duration // since 1970; smaller than a time.Time, because there are many items
}

// A Clock returns the present Instant.
type Clock func() Instant

// NewInstant makes an Instant of a monotonic reading and a wall time.
func NewInstant(mono time.Duration, wall time.Time) Instant {
	return Instant{mono: mono, wall: time.Duration(wall.UnixNano())}
}

// SystemClock returns the Clock of this machine.
func SystemClock() Clock {
	start := time.Now()
	return func() Instant {
		now := time.Now()
		return NewInstant(now.Sub(start), now)
	}
}

// Since returns the time from earlier to i: the larger of what the two clocks
// show.
func (i Instant) Since(earlier Instant) time.Duration {
	return max(i.mono-earlier.mono, i.wall-earlier.wall)
}

// driftMargin and fixedMargin are subtracted from every lease before it is
// trusted: one hundredth for clocks that run at different rates, and 2 ms for
// the granularity of Redis's clock and the time it takes to act.
const (
	driftMargin = 100
	fixedMargin = 2 * time.Millisecond
)

// MinLease is the shortest lease, in whole milliseconds, of which the margins
// leave anything.
const MinLease = (fixedMargin*driftMargin/(driftMargin-1)/time.Millisecond + 1) * time.Millisecond

// A Window is the time for which a hold may be trusted. It starts when the
// request that set the lease was sent, never when its reply came.
type Window struct {
	from   Instant
	length time.Duration
}

// NewWindow returns the window of a lease whose request was sent at sent.
func NewWindow(sent Instant, lease time.Duration) Window {
	return Window{from: sent, length: lease - lease/driftMargin - fixedMargin}
}

// Remaining returns how much of the window is left; 0 or less if it is over.
func (w Window) Remaining(now Instant) time.Duration {
	return w.length - now.Since(w.from)
}

// Later returns whichever of w and other ends later, as seen at now.
func (w Window) Later(other Window, now Instant) Window {
	if other.Remaining(now) > w.Remaining(now) {
		return other
	}
	return w
}
