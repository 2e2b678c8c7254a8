package wait

import (
	"context"
	"sync/atomic"
)

// Whoever follows others needs little while it waits for its turn. A channel to hear
// of it, and what a goroutine takes that waits for two of them, are half as much
// again as the claim; so it sleeps on a WaitGroup, which is a part of its place,
// until it is roused. Where a context can end the wait, those with the same one are
// a crew, which hears of that for all of them.

// A crew are those of one line who sleep and whose contexts have the same end.
type crew struct {
	done    <-chan struct{}
	members atomic.Int64
	stop    func() bool // set by its first member

	over bool // done is closed; guarded by Lines.mu
}

// crewAfter is how many must have come behind the head before a crew is formed: it is
// not worth it for a few, who come and go.
const crewAfter = 8

// beds says that whoever can sleep does. Not under the race detector: WaitGroup.Wait
// hides from it what synctest.Wait promises, that all that a waiter did before comes
// before what follows synctest.Wait, and a user's test would be found to have a race.
var beds = !raced

// bed has p, who is about to follow the others in l, sleep where it can: where
// nothing ends its wait, or the crew does that it is in then. It returns a new crew,
// to be watched. The caller has Lines.mu.
func (l *line) bed(done <-chan struct{}, p *Place) (formed *crew) {
	if !beds {
		return nil
	}
	before := l.done
	l.done = done
	switch {
	case done == nil:
	case l.crew != nil && l.crew.done == done && !l.crew.over && l.crew.join():
		p.crew = l.crew
	case before == done && l.tail.number-l.head.number >= crewAfter:
		formed = &crew{done: done}
		formed.members.Store(1)
		l.crew, p.crew = formed, formed
	default:
		return nil
	}
	p.sleeps = true
	p.wake.Add(1)
	return formed
}

// join counts a member in; false when all have left.
func (c *crew) join() bool {
	for n := c.members.Load(); n > 0; n = c.members.Load() {
		if c.members.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// leave counts a member out, who is awake. c may be nil.
func (c *crew) leave() {
	if c != nil && c.members.Add(-1) == 0 {
		c.stop()
	}
}

// watch has c, a new crew in l, be roused when ctx is done, which its first member
// waits with.
func (ls *Lines) watch(ctx context.Context, l *line, c *crew) {
	c.stop = context.AfterFunc(ctx, func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		c.over = true
		for p := l.head; p != nil; p = p.next {
			if p.crew == c {
				p.rouse(isDone)
			}
		}
	})
}

// rouse wakes p if it sleeps yet. The caller has Lines.mu, unless p has been the head.
func (p *Place) rouse(why word) {
	if p.sleeps && p.roused == nothing {
		p.roused = why
		p.wake.Done()
	}
}
