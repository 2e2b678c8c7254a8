package redistest

import (
	"sync"
	"time"
)

// order is what to do with one command.
type order struct {
	act     Act
	release <-chan struct{}
	limit   time.Duration // zero for no limit
}

// wait returns true when the order's time has come, or false if done is closed
// first.
func (o order) wait(done <-chan struct{}) bool {
	var limit <-chan time.Time
	if o.limit > 0 {
		limit = time.After(o.limit)
	}
	select {
	case <-o.release:
		return true
	case <-limit:
		return true
	case <-done:
		return false
	}
}

// gate is a barrier that is open at first.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // nil when open
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.opened == nil:
		g.opened = make(chan struct{})
	case !shut && g.opened != nil:
		close(g.opened)
		g.opened = nil
	}
}

func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened != nil
}

// wait returns true when the gate is open, or false if done is closed first.
func (g *gate) wait(done <-chan struct{}) bool {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened == nil {
		return true
	}
	select {
	case <-opened:
		return true
	case <-done:
		return false
	}
}
