package engine

import (
	"context"
	"sync"
	"time"
)

// waitings look at the calls that wait, for the options that want that. Their
// goroutine runs while anybody waits.
type waitings struct {
	lookers []looker // fixed

	mu sync.Mutex
	on bool
}

// A looker looks at the calls that wait, about as often as it says. When nobody
// waits any more, or the client is closed, it is shown none once.
type looker struct {
	every time.Duration
	look  func(waits []waiting)
}

// A waiting is a call that waits.
type waiting struct {
	*attempt
	id string // of the holder that it will be, as Redis will show it; empty if there will be none
}

// An Outsider is the part of a claim in the lines of this client by which those that
// look at who waits see it, where the claim is no attempt of the engine's. It is the
// wait.Events of the claim.
type Outsider struct{ attempt }

// Outsider returns the part of a claim that waits for s from now on.
func (s *Spec) Outsider(ctx context.Context, cfg *LockConfig) Outsider {
	return Outsider{newAttempt(ctx, s, cfg)}
}

// Slept is called when the claim stands in its line.
func (o Outsider) Slept() { o.spec.engine.watchWaits() }

// Missed is called when a wake-up was missed.
func (Outsider) Missed() {}

// waiting returns the calls that wait, and those that are about to ask. Those for
// one thing are in the order in which they are served.
func (e *Engine) waiting() (waits []waiting) {
	for _, c := range e.lines.Claims() {
		if c, ok := c.(interface{ asked() (*attempt, string) }); ok {
			about, id := c.asked()
			waits = append(waits, waiting{about, id})
		}
	}
	return waits
}

// watchWaits starts the goroutine of the lookers, if it does not run.
func (e *Engine) watchWaits() {
	ws := &e.waitings
	if len(ws.lookers) == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.on || !e.gate.Enter() {
		return
	}
	ws.on = true
	go e.lookAtWaits()
}

// lookAtWaits shows the lookers who waits, until nobody does.
func (e *Engine) lookAtWaits() {
	defer e.gate.Leave()
	lookers := e.waitings.lookers
	every := lookers[0].every
	for _, l := range lookers {
		every = min(every, l.every)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := time.Duration(1); ; n++ {
		var waits []waiting
		closed := false
		select {
		case <-tick.C:
			waits = e.waiting()
		case <-e.gate.Closed():
			closed = true
		}
		for _, l := range lookers {
			if len(waits) == 0 || n%(l.every/every) == 0 {
				l.look(waits)
			}
		}
		if closed || len(waits) == 0 && e.nobodyWaits() {
			return
		}
	}
}

// nobodyWaits reports whether the goroutine of the lookers may end.
func (e *Engine) nobodyWaits() bool {
	ws := &e.waitings
	ws.mu.Lock()
	defer ws.mu.Unlock()
	// Whoever began to wait just now has found the goroutine running.
	ws.on = len(e.waiting()) > 0
	return !ws.on
}
