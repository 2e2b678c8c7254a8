package run

import (
	"sync/atomic"
	"time"
)

// A Clock estimates the time of the Redis server. Every script tells the
// server's time with its answer; until the first one has, this machine's wall
// clock stands in.
//
// The estimate is used only to say until when a request may be carried out. A
// wrong one costs a round trip: the script refuses, tells its time, and is asked
// again.
type Clock struct {
	Start  time.Time    // carries a monotonic reading
	offset atomic.Int64 // server ms minus the ms of local; 0 at first
}

func newClock() *Clock { return &Clock{Start: time.Now()} }

// local returns the ms since the epoch by the wall clock at the start and the
// monotonic clock since, so that setting the wall clock does not move it.
func (c *Clock) local(t time.Time) int64 {
	return c.Start.UnixMilli() + t.Sub(c.Start).Milliseconds()
}

// learn takes in the server time told by an answer that came at got. It was that
// late when the answer was on its way or earlier, so the estimate is behind, by
// the way back, and never ahead: a request is refused that would get no answer
// in time, and none is carried out after its time.
func (c *Clock) learn(got time.Time, serverMs int64) {
	c.offset.Store(serverMs - c.local(got))
}

// ClockSlack is by how much a request's deadline may seem to lie too far ahead:
// what the estimate may be off without harm.
const ClockSlack = time.Second

// A Deadline tells a script until when it may act, in server time. The zero
// Deadline is none.
type Deadline struct {
	NotAfter int64 // ms since the epoch
	Ahead    int64 // the most by which NotAfter may lie ahead, ms; else the estimate is wrong
}

// Deadline returns the one that is d from now.
func (c *Clock) Deadline(now time.Time, d time.Duration) Deadline {
	return Deadline{
		NotAfter: c.local(now) + c.offset.Load() + max(d, 0).Milliseconds(),
		Ahead:    (max(d, 0) + ClockSlack).Milliseconds(),
	}
}

// At returns the server's time at a moment of ours, as far as it is known.
func (c *Clock) At(t time.Time) time.Time {
	return time.UnixMilli(c.local(t) + c.offset.Load())
}
