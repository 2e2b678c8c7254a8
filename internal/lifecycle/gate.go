// Package lifecycle counts the calls inside a client, so that Close can wait
// for them, and runs the clean-up that they leave behind.
package lifecycle

import (
	"context"
	"sync"
	"time"
)

// A Gate counts the calls inside a client, so that Close can wait for them, and
// bounds the clean-up that goes on after a call has returned.
type Gate struct {
	closed chan struct{}   // closed when the client is closed
	late   context.Context // ends when clean-up must end
	end    context.CancelFunc

	// mu guards the fields below.
	mu    sync.Mutex
	calls int
	shutd bool
	idle  chan struct{} // closed when calls reaches 0 after Shut
	// lasting counts the tasks whose leftovers no lease ends.
	lasting int
	eased   chan struct{} // closed when lasting reaches 0; made when Close waits for that
}

// NewGate returns an open Gate.
func NewGate() *Gate {
	g := new(Gate)
	g.closed = make(chan struct{})
	g.idle = make(chan struct{})
	// Clean-up outlives its caller, but not the client.
	g.late, g.end = context.WithCancel(context.Background())
	return g
}

// Closed returns a channel that is closed when the client is closed.
func (g *Gate) Closed() <-chan struct{} { return g.closed }

// Late returns the context of clean-up. It ends during Drain.
func (g *Gate) Late() context.Context { return g.late }

// Enter counts a call in. It returns false if the client is closed.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shutd {
		return false
	}
	g.calls++
	return true
}

// Remain counts clean-up in. It returns false once Close waits for nothing
// else.
func (g *Gate) Remain() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shutd && g.calls == 0 {
		return false
	}
	g.calls++
	return true
}

// Stay counts in the clean-up that a call leaves behind. That call must still
// be counted.
func (g *Gate) Stay() {
	g.mu.Lock()
	g.calls++
	g.mu.Unlock()
}

// Leave counts a call out.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	if g.shutd && g.calls == 0 {
		close(g.idle)
	}
}

// last counts a lasting task in. yield counts it out.
func (g *Gate) last() {
	g.mu.Lock()
	g.lasting++
	g.mu.Unlock()
}

func (g *Gate) yield() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lasting--
	if g.lasting == 0 && g.eased != nil {
		close(g.eased)
		g.eased = nil
	}
}

// ease returns a channel that is closed when there is no lasting task.
func (g *Gate) ease() <-chan struct{} {
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

// Shut closes the gate. It returns false if the gate was closed before. The
// caller of Shut counts as a call inside until it calls Drain.
func (g *Gate) Shut() bool {
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

// closeBound is how long Close waits for the calls inside, and then for their
// clean-up.
const closeBound = time.Second

// Drain waits for the calls inside, for closeBound at most, and for lasting
// tasks, until closeBound after until at most. Then it ends the clean-up and
// waits for closeBound once more. Calls that remain after that are blocked in
// go-redis, and return when it returns.
func (g *Gate) Drain(until time.Time) {
	g.Leave()
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
