package engine

import (
	"context"
	"sync"
)

// ops is a right that one has at a time.
type ops struct {
	// mu guards the fields below.
	mu    sync.Mutex
	taken bool
	// free has a token in it while the right is nobody's, once somebody has had to
	// wait for it; nil before.
	free chan struct{}
}

// try takes the right if it is nobody's; if not, it returns what to wait on.
func (o *ops) try() (free <-chan struct{}, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.free == nil {
		if !o.taken {
			o.taken = true
			return nil, true
		}
		o.free = make(chan struct{}, 1)
	}
	select {
	case <-o.free:
		return nil, true
	default:
		return o.free, false
	}
}

// giveUp lets go of the right.
func (o *ops) giveUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.free != nil {
		o.free <- struct{}{}
		return
	}
	o.taken = false
}

// lockOps waits for the right to change the hold count.
func (hd *holding) lockOps(ctx context.Context) error {
	free, ok := hd.ops.try()
	if ok {
		return nil
	}
	select {
	case <-free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryOps takes that right if nobody has it.
func (hd *holding) tryOps() bool {
	_, ok := hd.ops.try()
	return ok
}

func (hd *holding) unlockOps() {
	tell := hd.untold
	hd.untold = nil
	hd.ops.giveUp()
	for _, f := range tell {
		f()
	}
}

// cleanUpOps is lockOps for clean-up, which must not keep others waiting.
func (hd *holding) cleanUpOps(ctx context.Context) error {
	once, cancel := context.WithTimeout(ctx, returnBound)
	defer cancel()
	return hd.lockOps(once)
}
