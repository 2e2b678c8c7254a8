package engine

import (
	"context"
	"sync"
)

// ops serializes the scripts that change one hold count. Its waiters can honour
// a context.
type ops struct {
	// mu guards the fields below.
	mu    sync.Mutex
	taken bool
	// free holds a token while ops is free, once somebody has had to wait for
	// it; it is nil before that.
	free chan struct{}
}

// try takes ops if it is free. Otherwise it returns the channel to wait on.
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

// giveUp releases ops.
func (o *ops) giveUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.free != nil {
		o.free <- struct{}{}
		return
	}
	o.taken = false
}

// lockOps takes the holding's ops, waiting until it is free or ctx is done.
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

// tryOps takes the holding's ops if it is free.
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

// cleanUpOps is lockOps with a time limit, for clean-up, which must not keep
// others waiting.
func (hd *holding) cleanUpOps(ctx context.Context) error {
	once, cancel := context.WithTimeout(ctx, returnBound)
	defer cancel()
	return hd.lockOps(once)
}
