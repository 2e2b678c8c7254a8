package lifecycle

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// hands is how many tasks run at a time.
	hands = 16
	// most is the largest number of tasks. What further tasks would undo ends
	// with its lease.
	most = 100_000
	// mostUndone is how many abandoned tasks are remembered.
	mostUndone = 100
)

// steps are the pauses between the attempts of a task. The last one repeats.
var steps = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second}

// closePause is the longest pause while the client is being closed.
const closePause = 200 * time.Millisecond

// A task is background clean-up of what a call that has returned left behind.
// It may need several attempts.
type task struct {
	try   func(ctx context.Context) (done bool)
	ended func()
	about any // subject of a task whose leftovers no lease ends; otherwise nil
	step  int
	timer *time.Timer // until the next attempt; nil while the task is queued or running
}

// A Cleanup runs the tasks of a client. The number of tasks and of goroutines
// is bounded, however many calls fail while a server does not answer.
type Cleanup struct {
	gate *Gate

	// mu guards the fields below.
	mu     sync.Mutex
	all    map[*task]struct{}
	queue  []*task // tasks that are due
	busy   int     // number of goroutines
	over   bool    // clean-up has ended
	undone []any   // subjects of abandoned tasks whose leftovers no lease ends
}

// Later calls try in the background until it returns true, and then calls
// ended. If the client ends first, only ended is called. Later reports whether
// there was room for the task.
func (cl *Cleanup) Later(try func(ctx context.Context) (done bool), ended func()) bool {
	cl.gate.Stay()
	return cl.put(&task{try: try, ended: func() { ended(); cl.gate.Leave() }})
}

// LaterSurely is Later for leftovers that no lease ends. Close waits longer for
// such a task and reports it if it could not be done.
func (cl *Cleanup) LaterSurely(about any, try func(ctx context.Context) (done bool)) bool {
	cl.gate.Stay()
	cl.gate.last()
	return cl.put(&task{try: try, about: about, ended: func() { cl.gate.yield(); cl.gate.Leave() }})
}

// NewCleanup returns a Cleanup for the calls that g counts.
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

// Undone returns the subjects of the abandoned tasks whose leftovers no lease
// ends, without duplicates.
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

// work runs the tasks in the queue.
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

// Hurry makes all tasks that wait for their next attempt run now.
func (cl *Cleanup) Hurry() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for c := range cl.all {
		if c.timer != nil && c.timer.Stop() {
			cl.readyLocked(c)
		}
	}
}

// end abandons all tasks that are not running.
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
