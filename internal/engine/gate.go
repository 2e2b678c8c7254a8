package engine

import (
	"context"
	"sync"
	"time"
)

// A gate counts the calls inside an engine, so that Close can wait for them,
// and bounds the clean-up that goes on after a call has returned.
type gate struct {
	closed chan struct{}   // closed when the engine is
	late   context.Context // ends when clean-up must end too
	end    context.CancelFunc

	// mu guards the fields below.
	mu    sync.Mutex
	calls int
	shutd bool
	idle  chan struct{} // closed when calls is 0 after shut
	// lasting are the chores that no lease ends.
	lasting int
	eased   chan struct{} // closed when lasting is 0, once there is somebody who waits for that
}

func (g *gate) init() {
	g.closed = make(chan struct{})
	g.idle = make(chan struct{})
	// Clean-up outlives its caller, but not the client.
	g.late, g.end = context.WithCancel(context.Background())
}

// enter counts one call in; false when the engine is closed.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shutd {
		return false
	}
	g.calls++
	return true
}

// remain counts one in who cleans up, as long as Close waits for others; false when
// it does not any more.
func (g *gate) remain() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shutd && g.calls == 0 {
		return false
	}
	g.calls++
	return true
}

// stay counts in the clean-up that a call inside leaves behind. The call must
// not have left yet.
func (g *gate) stay() {
	g.mu.Lock()
	g.calls++
	g.mu.Unlock()
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	if g.shutd && g.calls == 0 {
		close(g.idle)
	}
}

// last counts a lasting chore in; yield counts it out.
func (g *gate) last() {
	g.mu.Lock()
	g.lasting++
	g.mu.Unlock()
}

func (g *gate) yield() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lasting--
	if g.lasting == 0 && g.eased != nil {
		close(g.eased)
		g.eased = nil
	}
}

// ease returns a channel that is closed when there is no lasting chore.
func (g *gate) ease() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := make(chan struct{})
	if g.lasting == 0 {
		close(c)
	} else {
		g.eased = c
	}
	return c
}

// shut closes the gate; false when it was closed before. Who has closed it counts as
// one inside, until it drains.
func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shutd {
		return false
	}
	g.shutd = true
	g.calls++
	close(g.closed)
	return true
}

// closeBound is how long Close waits for calls that are on their way out, and
// then for their clean-up.
const closeBound = time.Second

// drain waits for the calls inside, at most for closeBound, and for lasting chores
// for at most that much longer than until; then it ends their clean-up and waits once
// more. What is left then are callers that go-redis keeps; they return when it lets
// them.
func (g *gate) drain(until time.Time) {
	g.leave()
	timer := time.NewTimer(closeBound)
	defer timer.Stop()
	select {
	case <-g.idle:
	case <-timer.C:
		timer.Reset(time.Until(until.Add(closeBound)))
		select {
		case <-g.ease():
		case <-timer.C:
		}
	}
	g.end()
	timer.Reset(closeBound)
	select {
	case <-g.idle:
	case <-timer.C:
	}
}
