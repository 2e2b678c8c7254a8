package latchkey

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/inspect"
)

// A Kind is what a name stands for in Redis, as far as its keys tell.
type Kind string

// The kinds that Info tells apart.
const (
	KindFree            Kind = inspect.KindFree      // there is nothing
	KindLock            Kind = inspect.KindLock      // reentrant, fenced or spin; a fair lock for which nobody waits
	KindFair            Kind = inspect.KindFair      // fair lock with a queue
	KindReadWrite       Kind = inspect.KindReadWrite // read-write lock
	KindMultiLock       Kind = inspect.KindMulti     // multi-lock on a group of values
	KindSemaphore       Kind = inspect.KindSemaphore // semaphore; one of permits, when none is out
	KindPermitSemaphore Kind = inspect.KindPermits   // semaphore of permits, some of which are out
	KindLatch           Kind = inspect.KindLatch     // count-down latch
	KindCounter         Kind = inspect.KindCounter   // semaphore or latch: there is an integer, and nothing says of what
)

// Info is what can be seen of a name at one moment. It may be history by the
// time it is read: decide nothing by it but what to tell people.
type Info struct {
	Name string
	Kind Kind
	// At is the moment, by the server's clock. Since and Deadline below are by
	// the same clock.
	At time.Time
	// Holders are those who hold it, or the permits that are out.
	Holders []HolderInfo
	// Waiters are those who wait, the next one first. For a fair lock that is
	// everybody, Java too. For anything else it is only the callers of this
	// Client, because Redis knows of no others; see Listeners.
	Waiters []WaiterInfo
	// Listeners is how many connections listen for its wake-ups, at least: each
	// is a process, Go or Java, with one waiter or many. -1 where Redis does not
	// tell. In a Redis Cluster it is those of one node.
	Listeners int
	// Lease is how long a lock stays held if nobody renews it; 0 when there is
	// nothing, -1 when the key has no expiry, as those of semaphores and latches.
	Lease time.Duration
	// Token is the last fencing token given, 0 for none.
	Token int64
	// Count is how many permits of a semaphore are available, or what is left of
	// a latch's count.
	Count int64
}

// HolderInfo is one holder.
type HolderInfo struct {
	// ID is the holder as Redis shows it: "<client id>:<number>", with ":write"
	// behind it for a writer; or the id of a permit.
	ID string
	// Label is what the option Label said. Host and PID are the process that said
	// it. They are empty for a holder without a label, as all of Java are; but
	// this Client knows of its own.
	Label string
	Host  string
	PID   int
	// Since is when it came to hold it; zero where Host is empty.
	Since time.Time
	// Count is the hold count.
	Count int
	// Lease is how long it lasts if nobody renews it; 0 for a reader whose lease
	// is over and whom nobody has swept out, -1 for a permanent permit.
	Lease time.Duration
	// Mode is "read" or "write" in a read-write lock.
	Mode string
	// Value is, in a multi-lock on a group, the hash of the value that is held.
	Value string
}

// WaiterInfo is one who waits.
type WaiterInfo struct {
	// ID is the holder that it will be; empty where it will have none.
	ID string
	// Label, Host, PID and Since, when it began to wait, are as in HolderInfo, for
	// the callers of this Client, and for the first 100 in the queue of a fair
	// lock.
	Label string
	Host  string
	PID   int
	Since time.Time
	// Deadline is when one in the queue of a fair lock is taken for dead unless
	// it says that it is alive, as latchkey does every few seconds.
	Deadline time.Time
}

// Info tells what that name stands for, who holds it, and who waits. It is no
// error that there is nothing. A key that is neither Redisson's nor latchkey's
// is ErrKeyConflict.
//
// It changes nothing and costs one round trip, and one more for each 500 labels
// and read holds that there may be. What it shows is what Redis has at that moment: of
// a lock that passes between waiters of one process, it may be a holder of just before.
//
// More than 500 holders, waiters or permits are read in pieces of about 500, each
// by a round trip of its own, so that Redis is never busy with it for more than a few
// milliseconds. Such a reading is not of one moment. At, Lease, Token, Count and
// Listeners are of its beginning, and so may be a holder that has gone since; one that
// has come since may be missing. Nobody is shown twice. Whoever was there from the
// beginning to the end is shown, but for a waiter of whom, or a permit of whose very
// millisecond, more than 50 before it have gone between two pieces.
func (c *Client) Info(ctx context.Context, name string) (Info, error) {
	got, err := inspect.Read(ctx, engine.Of(c), name)
	info := Info{
		Name: name, Kind: Kind(got.Kind), At: got.At, Listeners: got.Listeners,
		Lease: got.Left, Token: got.Token, Count: got.Count,
	}
	for _, h := range got.Holders {
		info.Holders = append(info.Holders, HolderInfo{
			ID: h.ID, Label: h.Who.Label, Host: h.Who.Host, PID: h.Who.PID, Since: h.Who.Since,
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
