package run

import (
	"sync/atomic"
	"time"
)

// A Clock estimates the time of the Redis server. Every script replies with the
// server's time. Until the first reply, the wall clock of this machine is used.
//
// The estimate only determines until when a request may be executed. A wrong
// estimate costs one round trip: the script refuses, replies with its time, and
// is sent again.
type Clock struct {
	Start  time.Time    // carries a monotonic reading
	offset atomic.Int64 // server ms minus the ms of local; 0 at first
	known  atomic.Bool  // the server has told its time
}

func newClock() *Clock { return &Clock{Start: time.Now()} }

// local returns t in ms since the epoch: the wall clock at the start plus the
// monotonic time since. Setting the wall clock does not change it.
func (c *Clock) local(t time.Time) int64 {
	return c.Start.UnixMilli() + t.Sub(c.Start).Milliseconds()
}

// learn sets the estimate from a reply that arrived at got. The server's time
// is from before the reply's way back, so the estimate may be behind by that
// way but is never ahead. A request whose reply would come too late may be
// refused, and no request is executed after its time.
func (c *Clock) learn(got time.Time, serverMs int64) {
	c.offset.Store(serverMs - c.local(got))
	if !c.known.Load() {
		c.known.Store(true)
	}
}

// Known reports whether the server has told its time.
func (c *Clock) Known() bool { return c.known.Load() }

// ClockSlack is how much further ahead than expected a deadline may be: the
// error of the estimate that does no harm.
const ClockSlack = time.Second

// A Deadline tells a script until when it may act, in server time. The zero
// Deadline means no limit.
type Deadline struct {
	NotAfter int64 // ms since the epoch
	Ahead    int64 // the most by which NotAfter may be ahead, ms; if it is further ahead, the estimate is wrong
}

// Deadline returns the Deadline that is d after now.
func (c *Clock) Deadline(now time.Time, d time.Duration) Deadline {
	return Deadline{
		NotAfter: c.local(now) + c.offset.Load() + max(d, 0).Milliseconds(),
		Ahead:    (max(d, 0) + ClockSlack).Milliseconds(),
	}
}

// At returns the estimated server time at the local time t.
func (c *Clock) At(t time.Time) time.Time {
	return time.UnixMilli(c.local(t) + c.offset.Load())
}
