// Package bubble runs tests in synctest bubbles.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

var processors struct {
	sync.Mutex
	bubbles int // that run now
	before  int // GOMAXPROCS without them
}

// Test is [synctest.Test] on one processor. On several, the race detector
// crashes now and then: as of Go 1.26, a timer that a goroutine of the bubble
// finds due and one that the bubble fires share the detector's state of a
// thread.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	enter()
	defer leave()
	synctest.Test(t, f)
}

func enter() {
	p := &processors
	p.Lock()
	defer p.Unlock()
	if p.bubbles == 0 {
		p.before = runtime.GOMAXPROCS(1)
	}
	p.bubbles++
}

func leave() {
	p := &processors
	p.Lock()
	defer p.Unlock()
	if p.bubbles--; p.bubbles == 0 {
		runtime.GOMAXPROCS(p.before)
	}
}
