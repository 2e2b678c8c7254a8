package sim

import (
	"fmt"
	"sync"
	"time"
)

// A ledger records which worker believes to hold what, and detects
// contradictions.
type ledger struct {
	mu         sync.Mutex
	objects    map[string]*object
	violations []string

	grants, refused, lost, errors int
}

// An object is one of the objects that workers share.
type object struct {
	name    string
	room    int // how many may have it: permits
	inUse   int // a writer takes all the room
	holders map[int]holding
	token   int64 // the last one
	waiters int
	leaky   bool // what was given back may not have arrived

	// looks of the watch
	freeSince, deadSince time.Time
}

type holding struct {
	who    string
	weight int
	void   bool // the server has forgotten everything meanwhile
}

func newLedger() *ledger { return &ledger{objects: map[string]*object{}} }

// object returns the object with that name, which has room for that many
// holders.
func (l *ledger) object(name string, room int) *object {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.objects[name]
	if o == nil {
		o = &object{name: name, room: room, holders: map[int]holding{}}
		l.objects[name] = o
	}
	return o
}

func (l *ledger) violate(format string, args ...any) {
	if len(l.violations) < 10 {
		l.violations = append(l.violations, fmt.Sprintf("%s: ", time.Now().Format("15:04:05.000"))+fmt.Sprintf(format, args...))
	}
}

// fail notes a violation.
func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violate(format, args...)
}

// waits records a waiter of o until over is called.
func (l *ledger) waits(o *object) (over func()) {
	add := func(n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if o.waiters += n; o.waiters == 0 || o.waiters == 1 && n == 1 {
			o.freeSince = time.Time{} // who waits has just come
		}
	}
	add(1)
	return func() { add(-1) }
}

// granted records that a worker now believes to hold o, in part or, with all of
// the room as weight, alone.
func (l *ledger) granted(o *object, id int, who string, weight int, token int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants++
	if o.inUse+weight > o.room {
		l.violate("%s was granted %d of %s, of which %d of %d are in use by %v", who, weight, o.name, o.inUse, o.room, o.holders)
	}
	l.raised(o, who, token)
	if _, twice := o.holders[id]; twice {
		l.violate("%s has %s already", who, o.name)
	}
	o.holders[id] = holding{who: who, weight: weight}
	o.inUse += weight
}

// raise records the token of another hold by a worker that holds o.
func (l *ledger) raise(o *object, who string, token int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raised(o, who, token)
}

// raised checks a token, unless it is 0. The caller holds mu.
func (l *ledger) raised(o *object, who string, token int64) {
	if token != 0 && token <= o.token {
		l.violate("%s was granted %s with token %d after %d", who, o.name, token, o.token)
	}
	o.token = max(o.token, token)
}

// ended records that the worker no longer believes to hold it.
func (l *ledger) ended(o *object, id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := o.holders[id]
	delete(o.holders, id)
	if !h.void {
		o.inUse -= h.weight
	}
	o.freeSince, o.deadSince = time.Time{}, time.Time{}
}

// forget invalidates all holds: the server has lost its data.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.objects {
		for id, h := range o.holders {
			h.void = true
			o.holders[id] = h
		}
		o.inUse = 0
	}
}

func (l *ledger) count(n *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
}

// leaks records that something may not have been given back.
func (l *ledger) leaks(o *object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.leaky = true
}

// look compares what Redis shows of an object, whose holder has a key, with
// what the workers believe. calm means that there was no fault for a while.
func (l *ledger) look(o *object, exists, calm bool, patience, lease time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if exists || !calm || o.waiters == 0 {
		o.freeSince = time.Time{}
	} else if o.freeSince.IsZero() {
		o.freeSince = now
	} else if now.Sub(o.freeSince) > patience {
		l.violate("%s has been free for %v while %d wait for it", o.name, now.Sub(o.freeSince), o.waiters)
		o.freeSince = now
	}
	if !exists || !calm || len(o.holders) > 0 {
		o.deadSince = time.Time{}
	} else if o.deadSince.IsZero() {
		o.deadSince = now
	} else if now.Sub(o.deadSince) > lease+patience {
		l.violate("%s has been held for %v by nobody who knows of it", o.name, now.Sub(o.deadSince))
		o.deadSince = now
	}
}
