// Package history records what clients called and what they were answered, on a
// clock that all processes of one machine share.
package history

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Op is what was called.
type Op string

// The operations. Those with an R are of the read half of a read-write lock.
const (
	Acquire   Op = "acquire"
	Release   Op = "release" // N is the hold count to reach, or the permits given back
	RAcquire  Op = "racquire"
	RRelease  Op = "rrelease"
	Set       Op = "set" // N is the number of permits, or the count
	CountDown Op = "countdown"
	Await     Op = "await"
	Read      Op = "read" // N is what was read

	// Of a fire of a job. Each run is an Acquire, where N is how many attempts there may
	// be, and a Release, where N is 1 if it was noted as done.
	Do Op = "do" // OK if there was nothing to do, Refused if it was run here and failed, and ended so

	// Expire and RExpire are called by nobody: from then on, the hold may have
	// ended. See [Entry.End].
	Expire  Op = "expire"
	RExpire Op = "rexpire"
)

// Outcome is how a call ended, as far as its caller can know.
type Outcome uint8

// The outcomes.
const (
	Pending Outcome = iota // no answer, and now there will be none
	OK                     // it took effect
	Refused                // it did not: somebody else has it. That tells something of the object
	None                   // it did not, for a reason that tells nothing of the object
	Unknown                // it may take effect yet, or have done so, or not
)

// Kept is for how long Redis knows of the run of a job.
const Kept = time.Minute

// Forever is the time at which a call without an answer returns.
const Forever = math.MaxInt64

// An Entry is one call.
type Entry struct {
	ID     int64 // within its Recorder
	Worker int   // who called: one call at a time
	Party  int   // the client of that worker; its callers stand in one line
	Kind   string
	Key    string
	Op     Op
	Owner  string
	N      int
	Nested bool // an acquire by one who holds it already
	// Stopped says that the process of the caller stood still while the call was under
	// way: what it was granted first may have ended with its lease before it could see it,
	// and it has asked again.
	Stopped bool

	Call, Return int64 // [Now]
	Queued       int64 // when it began to wait in line; 0 if it did not
	Out          Outcome
	Token        int64
	Err          string // for people

	// Of an acquire that succeeded: the caller believes that it holds from Return
	// to Until, as the library told it. Given says that it has given it back for
	// certain; otherwise the hold ends at Until or any time later. Since is when its
	// first lease began, as far as the library knows: not after Redis has granted it,
	// and before Call where it was handed on in memory; 0 where that is unknown.
	Since int64
	Until int64
	Given bool
}

// End returns the operation of nobody by which a hold that was not given back ends
// to be one for certain. It is false where e leaves none.
func (e *Entry) End() (Entry, bool) {
	if e.Out != OK || e.Given || e.Op != Acquire && e.Op != RAcquire {
		return Entry{}, false
	}
	from := max(e.Until, e.Return)
	end := Entry{Worker: e.Worker, Kind: e.Kind, Key: e.Key, Op: Expire, Owner: e.Owner, N: e.N, Call: from, Return: from + 1, Out: OK}
	if e.Op == RAcquire {
		end.Op = RExpire
	}
	return end, true
}

// Worth says whether the call tells anything that a checker could use.
func (e *Entry) Worth() bool { return e.Out != None }

// A Recorder collects the entries of many workers. Tap, where set, hears every
// change of an entry, in order; it is set before the first call.
type Recorder struct {
	Tap func(Entry)

	mu      sync.Mutex
	entries []Entry
	served  map[string]int
}

// note counts what has succeeded since was.
func (r *Recorder) note(was Outcome, e Entry) {
	if was == OK || e.Out != OK || e.Op != Acquire && e.Op != RAcquire && e.Op != CountDown {
		return
	}
	if r.served == nil {
		r.served = map[string]int{}
	}
	r.served[e.Kind]++
}

// Served returns how many acquires, or count-downs, have succeeded, by kind.
func (r *Recorder) Served() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.served)
}

// Begin records a call that is about to be made, and returns its id.
func (r *Recorder) Begin(e Entry) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.ID = int64(len(r.entries))
	if e.Call == 0 {
		e.Call = Now()
	}
	e.Return = Forever
	r.entries = append(r.entries, e)
	if r.Tap != nil {
		r.Tap(e)
	}
	return e.ID
}

// Change lets f change an entry: its outcome, or what is believed.
func (r *Recorder) Change(id int64, f func(*Entry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.entries[id].Out
	f(&r.entries[id])
	r.note(was, r.entries[id])
	if r.Tap != nil {
		r.Tap(r.entries[id])
	}
}

// Feed takes over what the Tap of another Recorder has heard; from identifies that
// one. ids is the caller's, and belongs to that Recorder.
func (r *Recorder) Feed(ids map[int64]int64, e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, known := ids[e.ID]
	if !known {
		id = int64(len(r.entries))
		ids[e.ID] = id
		r.entries = append(r.entries, Entry{})
	}
	e.ID = id
	r.note(r.entries[id].Out, e)
	r.entries[id] = e
}

// All returns copies of all entries.
func (r *Recorder) All() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}
