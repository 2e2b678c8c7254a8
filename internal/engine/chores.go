package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// choreHands is how many chores are carried out at a time.
	choreHands = 16
	// choresMost is how many there may be. What is beyond that ends with its lease.
	choresMost = 100_000
	// undoneMost is how many that were not done are remembered.
	undoneMost = 100
)

// undoSteps are the pauses between the tries of a chore; the last one repeats.
var undoSteps = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second}

// closePause is the longest pause once the client is being closed.
const closePause = 200 * time.Millisecond

// A chore is clean-up in the background that may need several tries: what a call
// has left behind that has returned.
type chore struct {
	try   func(ctx context.Context) (done bool)
	ended func()
	spec  *Spec // of one that no lease ends
	step  int
	timer *time.Timer // until the next try; nil when it is in the queue or tried
}

// chores are those of a client: a bounded number, by a bounded number of
// goroutines, however many calls fail while a server does not answer.
type chores struct {
	// mu guards the fields below.
	mu     sync.Mutex
	all    map[*chore]struct{}
	queue  []*chore // whose time has come
	hands  int      // goroutines
	over   bool     // the client's clean-up has ended
	undone []*Spec  // of those that were given up though no lease ends them
}

// later has try called in the background until it returns true, and then ended;
// when the client ends, ended is called without more tries. It reports whether
// there was room.
func (e *Engine) later(try func(ctx context.Context) (done bool), ended func()) bool {
	e.gate.stay()
	return e.put(&chore{try: try, ended: func() { ended(); e.gate.leave() }})
}

// laterSurely is later for what no lease ends, of an object of s: Close waits longer
// for it, and says when it could not be done.
func (e *Engine) laterSurely(s *Spec, try func(ctx context.Context) (done bool)) bool {
	e.gate.stay()
	e.gate.last()
	return e.put(&chore{try: try, spec: s, ended: func() { e.gate.yield(); e.gate.leave() }})
}

// put adds a chore.
func (e *Engine) put(c *chore) bool {
	cs := &e.chores
	cs.mu.Lock()
	if cs.over || len(cs.all) >= choresMost {
		cs.giveUpLocked(c)
		cs.mu.Unlock()
		c.ended()
		return false
	}
	if cs.all == nil {
		cs.all = make(map[*chore]struct{})
		context.AfterFunc(e.gate.late, cs.end)
	}
	cs.all[c] = struct{}{}
	cs.readyLocked(e, c)
	cs.mu.Unlock()
	return true
}

// giveUpLocked notes a chore that will not be done.
func (cs *chores) giveUpLocked(c *chore) {
	if c.spec != nil && len(cs.undone) < undoneMost {
		cs.undone = append(cs.undone, c.spec)
	}
}

// failed returns an error for each object that may miss something for good.
func (cs *chores) failed(e *Engine) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var errs []error
	for i, s := range cs.undone {
		if !slices.Contains(cs.undone[:i], s) {
			errs = append(errs, e.Wrap("close", s, errNotUndone))
		}
	}
	return errors.Join(errs...)
}

var errNotUndone = errors.New("an acquire without an answer could not be undone, and may keep what it took")

// readyLocked puts c in the queue.
func (cs *chores) readyLocked(e *Engine, c *chore) {
	c.timer = nil
	cs.queue = append(cs.queue, c)
	if cs.hands < choreHands {
		cs.hands++
		go cs.work(e)
	}
}

// work tries what is in the queue.
func (cs *chores) work(e *Engine) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for len(cs.queue) > 0 {
		c := cs.queue[0]
		cs.queue[0], cs.queue = nil, cs.queue[1:]
		cs.mu.Unlock()
		done := c.try(e.gate.late)
		cs.mu.Lock()
		if done || cs.over {
			delete(cs.all, c)
			if !done {
				cs.giveUpLocked(c)
			}
			cs.mu.Unlock()
			c.ended()
			cs.mu.Lock()
			continue
		}
		pause := undoSteps[min(c.step, len(undoSteps)-1)]
		select {
		case <-e.gate.closed:
			pause = min(pause, closePause)
		default:
		}
		c.step++
		c.timer = time.AfterFunc(pause, func() {
			cs.mu.Lock()
			defer cs.mu.Unlock()
			if !cs.over {
				cs.readyLocked(e, c)
			}
		})
	}
	cs.hands--
}

// hurry has all chores tried that wait for their next try.
func (cs *chores) hurry(e *Engine) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.all {
		if c.timer != nil && c.timer.Stop() {
			cs.readyLocked(e, c)
		}
	}
}

// end gives up all chores that nobody is at.
func (cs *chores) end() {
	cs.mu.Lock()
	cs.over = true
	var idle []*chore
	for c := range cs.all {
		if c.timer != nil {
			c.timer.Stop()
			idle = append(idle, c)
			delete(cs.all, c)
		}
	}
	for _, c := range cs.queue {
		idle = append(idle, c)
		delete(cs.all, c)
	}
	for _, c := range idle {
		cs.giveUpLocked(c)
	}
	cs.queue = nil
	cs.mu.Unlock()
	for _, c := range idle {
		c.ended()
	}
}

// choreOps is lockOps for a chore, which must not keep others waiting.
func (ent *entry) choreOps(ctx context.Context) error {
	once, cancel := context.WithTimeout(ctx, returnBound)
	defer cancel()
	return ent.lockOps(once)
}
