package stage

import "time"

// A Canary notes for how long the machine keeps a sleeping goroutine from going on.
// Whoever measures time takes that off.
type Canary struct {
	stop chan struct{}
	gone chan time.Duration
}

// Watch starts a canary.
func Watch() *Canary {
	c := &Canary{make(chan struct{}), make(chan time.Duration, 1)}
	go func() {
		const nap = 2 * time.Millisecond
		var worst time.Duration
		for {
			start := time.Now()
			select {
			case <-time.After(nap):
				worst = max(worst, time.Since(start)-nap)
			case <-c.stop:
				c.gone <- worst
				return
			}
		}
	}()
	return c
}

// Stall ends the watch, and returns the longest stall.
func (c *Canary) Stall() time.Duration {
	close(c.stop)
	return <-c.gone
}
