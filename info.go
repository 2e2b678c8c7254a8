package latchkey

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/inspect"
)

// A Kind is the kind of object that a name stands for in Redis, as far as its
// keys show.
type Kind string

// The kinds that Info distinguishes.
const (
	KindFree            Kind = inspect.KindFree      // no object
	KindLock            Kind = inspect.KindLock      // reentrant, fenced or spin lock; a fair lock without waiters
	KindFair            Kind = inspect.KindFair      // fair lock with a queue
	KindReadWrite       Kind = inspect.KindReadWrite // read-write lock
	KindMultiLock       Kind = inspect.KindMulti     // multi-lock on a group of values
	KindSemaphore       Kind = inspect.KindSemaphore // semaphore; or a permit semaphore with no permit out
	KindPermitSemaphore Kind = inspect.KindPermits   // permit semaphore with permits out
	KindLatch           Kind = inspect.KindLatch     // count-down latch
	KindCounter         Kind = inspect.KindCounter   // semaphore or latch: an integer that nothing identifies
)

// Info is what Redis shows of a name at one moment. It may be out of date by
// the time it is read: use it to inform people, not to decide.
type Info struct {
	Name string
	Kind Kind
	// At is the moment, by the server's clock. Since and Deadline below use the
	// same clock.
	At time.Time
	// Holders are the holders of a lock, or the permits that are out.
	Holders []HolderInfo
	// Waiters are the waiting callers, the next one first. For a fair lock they
	// are all waiters, including those in Java. For other objects they are only
	// the callers of this Client, because Redis does not know the others; see
	// Listeners.
	Waiters []WaiterInfo
	// Listeners is at least how many connections listen for wake-ups of the
	// object. Each is a process, Go or Java, with one waiter or more. It is -1
	// if Redis does not tell. In a Redis Cluster it counts the connections of
	// one node.
	Listeners int
	// Lease is how long the lock stays held if nobody renews it. It is 0 if
	// there is no key, and -1 if the key has no expiry, as the keys of
	// semaphores and latches.
	Lease time.Duration
	// Token is the last fencing token given, or 0 if there was none.
	Token int64
	// Count is the number of available permits of a semaphore, or the remaining
	// count of a latch.
	Count int64
}

// HolderInfo describes one holder.
type HolderInfo struct {
	// ID is the holder as Redis shows it: "<client id>:<number>", with ":write"
	// appended for a writer; or the id of a permit.
	ID string
	// Label is the text of the option Label. Host and PID identify the process
	// that set it. They are empty for a holder without a label, which includes
	// every Java holder, except that this Client fills them in for its own
	// holders.
	Label string
	Host  string
	PID   int
	// Since is when the holder acquired the object; zero if Host is empty.
	Since time.Time
	// Ended is when the holder gave a lock back that stays closed for its
	// HoldAtLeast; zero if it has not, and without a label.
	Ended time.Time
	// Count is the hold count.
	Count int
	// Lease is how long the hold lasts if nobody renews it. It is 0 for a
	// reader whose lease is over but that nobody has removed yet, and -1 for a
	// permanent permit.
	Lease time.Duration
	// Mode is "read" or "write" in a read-write lock.
	Mode string
	// Value is the hash of the held value, in a multi-lock on a group.
	Value string
}

// WaiterInfo describes one waiter.
type WaiterInfo struct {
	// ID is the holder that the waiter will be; empty if it will have no
	// holder.
	ID string
	// Label, Host and PID are as in HolderInfo. Since is when the wait began.
	// They are set for the callers of this Client, and for the first 100 in the
	// queue of a fair lock.
	Label string
	Host  string
	PID   int
	Since time.Time
	// Deadline is when a waiter in the queue of a fair lock is taken for dead
	// unless it reports that it is alive, which latchkey does every few
	// seconds.
	Deadline time.Time
}

// Info returns what the name stands for, who holds it, and who waits. A name
// without an object is not an error. A key that belongs neither to Redisson nor
// to latchkey is ErrKeyConflict.
//
// Info changes nothing. It costs one round trip, and one more for each 500
// labels and read holds that there may be.
//
// More than 500 holders, waiters or permits are read in pieces of about 500,
// one round trip each, so that Redis is never busy for more than a few
// milliseconds. Such a reading is not of one moment. At, Lease, Token, Count
// and Listeners are of its beginning. A holder that has gone since the
// beginning may be shown, and one that has come since may be missing. Nobody is
// shown twice. Everybody who was there from beginning to end is shown, with two
// exceptions: a waiter may be missing if more than 50 waiters before it left
// between two pieces, and a permit if more than 50 permits of the same
// millisecond before it did.
func (c *Client) Info(ctx context.Context, name string) (Info, error) {
	got, err := inspect.Read(ctx, c, name)
	info := Info{
		Name: name, Kind: Kind(got.Kind), At: got.At, Listeners: got.Listeners,
		Lease: got.Left, Token: got.Token, Count: got.Count,
	}
	for _, h := range got.Holders {
		info.Holders = append(info.Holders, HolderInfo{
			ID: h.ID, Label: h.Who.Label, Host: h.Who.Host, PID: h.Who.PID, Since: h.Who.Since, Ended: h.Who.Ended,
			Count: h.Count, Lease: h.Lease, Mode: h.Mode, Value: h.Value,
		})
	}
	for _, w := range got.Waiters {
		info.Waiters = append(info.Waiters, WaiterInfo{
			ID: w.ID, Label: w.Who.Label, Host: w.Who.Host, PID: w.Who.PID, Since: w.Who.Since,
			Deadline: w.Deadline,
		})
	}
	return info, err
}
