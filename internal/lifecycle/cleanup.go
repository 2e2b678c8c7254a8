package lifecycle

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// hands is how many tasks are carried out at a time.
	hands = 16
	// most is how many there may be. What is beyond that ends with its lease.
	most = 100_000
	// mostUndone is how many that were not done are remembered.
	mostUndone = 100
)

// steps are the pauses between the tries of a task; the last one repeats.
var steps = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second}

// closePause is the longest pause once the client is being closed.
const closePause = 200 * time.Millisecond

// A task is clean-up in the background that may need several tries: what a call
// has left behind that has returned.
type task struct {
	try   func(ctx context.Context) (done bool)
	ended func()
	about any // what it is about, of one that no lease ends
	step  int
	timer *time.Timer // until the next try; nil when it is in the queue or tried
}

// A Cleanup has the tasks of a client: a bounded number, by a bounded number of
// goroutines, however many calls fail while a server does not answer.
type Cleanup struct {
	gate *Gate

	// mu guards the fields below.
	mu     sync.Mutex
	all    map[*task]struct{}
	queue  []*task // whose time has come
	busy   int     // goroutines
	over   bool    // the client's clean-up has ended
	undone []any   // what those were about that were given up though no lease ends them
}

// Later has try called in the background until it returns true, and then ended;
// when the client ends, ended is called without more tries. It reports whether
// there was room.
func (cl *Cleanup) Later(try func(ctx context.Context) (done bool), ended func()) bool {
	cl.gate.Stay()
	return cl.put(&task{try: try, ended: func() { ended(); cl.gate.Leave() }})
}

// LaterSurely is Later for what no lease ends: Close waits longer
// for it, and says when it could not be done.
func (cl *Cleanup) LaterSurely(about any, try func(ctx context.Context) (done bool)) bool {
	cl.gate.Stay()
	cl.gate.last()
	return cl.put(&task{try: try, about: about, ended: func() { cl.gate.yield(); cl.gate.Leave() }})
}

// NewCleanup returns a Cleanup of the calls that g counts.
func NewCleanup(g *Gate) *Cleanup { return &Cleanup{gate: g} }

// put adds a task.
func (cl *Cleanup) put(c *task) bool {
	cl.mu.Lock()
	if cl.over || len(cl.all) >= most {
		cl.giveUpLocked(c)
		cl.mu.Unlock()
		c.ended()
		return false
	}
	if cl.all == nil {
		cl.all = make(map[*task]struct{})
		context.AfterFunc(cl.gate.late, cl.end)
	}
	cl.all[c] = struct{}{}
	cl.readyLocked(c)
	cl.mu.Unlock()
	return true
}

// giveUpLocked notes a task that will not be done.
func (cl *Cleanup) giveUpLocked(c *task) {
	if c.about != nil && len(cl.undone) < mostUndone {
		cl.undone = append(cl.undone, c.about)
	}
}

// Undone returns what those tasks were about that were given up though no lease ends
// what they were to take back, each once.
func (cl *Cleanup) Undone() (about []any) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, a := range cl.undone {
		if !slices.Contains(about, a) {
			about = append(about, a)
		}
	}
	return about
}

// readyLocked puts c in the queue.
func (cl *Cleanup) readyLocked(c *task) {
	c.timer = nil
	cl.queue = append(cl.queue, c)
	if cl.busy < hands {
		cl.busy++
		go cl.work()
	}
}

// work tries what is in the queue.
func (cl *Cleanup) work() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for len(cl.queue) > 0 {
		c := cl.queue[0]
		cl.queue[0], cl.queue = nil, cl.queue[1:]
		cl.mu.Unlock()
		done := c.try(cl.gate.late)
		cl.mu.Lock()
		if done || cl.over {
			delete(cl.all, c)
			if !done {
				cl.giveUpLocked(c)
			}
			cl.mu.Unlock()
			c.ended()
			cl.mu.Lock()
			continue
		}
		pause := steps[min(c.step, len(steps)-1)]
		select {
		case <-cl.gate.closed:
			pause = min(pause, closePause)
		default:
		}
		c.step++
		c.timer = time.AfterFunc(pause, func() {
			cl.mu.Lock()
			defer cl.mu.Unlock()
			if !cl.over {
				cl.readyLocked(c)
			}
		})
	}
	cl.busy--
}

// Hurry has all tasks tried that wait for their next try.
func (cl *Cleanup) Hurry() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for c := range cl.all {
		if c.timer != nil && c.timer.Stop() {
			cl.readyLocked(c)
		}
	}
}

// end gives up all tasks that nobody is at.
func (cl *Cleanup) end() {
	cl.mu.Lock()
	cl.over = true
	var idle []*task
	for c := range cl.all {
		if c.timer != nil {
			c.timer.Stop()
			idle = append(idle, c)
			delete(cl.all, c)
		}
	}
	for _, c := range cl.queue {
		idle = append(idle, c)
		delete(cl.all, c)
	}
	for _, c := range idle {
		cl.giveUpLocked(c)
	}
	cl.queue = nil
	cl.mu.Unlock()
	for _, c := range idle {
		c.ended()
	}
}
