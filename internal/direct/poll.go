package direct

import (
	"sync/atomic"
	"time"
)

const (
	// pollFor is how long after its command an answer is polled for. Where the server is
	// near, it takes as long to be woken up for it: the processor has gone to sleep too.
	pollFor = 50 * time.Microsecond
	// looks bounds how often somebody looks meanwhile, which takes a quarter of a
	// microsecond or more.
	looks = 1000
	// missesMost bounds how seldom answers are polled for that take longer: once in
	// 2^missesMost commands.
	missesMost = 8
	// sleepsOnce is of how many commands one is not polled for, however soon answers
	// come. Go looks for what the network has for others when there is nothing to run; a
	// caller who polls is something to run, so others may wait for all in between.
	sleepsOnce = 8
	// besides is how many other callers may sleep meanwhile: a thread that waits for the
	// network wakes one in good time, several would sleep on beside their answers.
	besides = 1
)

// A polling says for which commands of a Pool the answer is polled for: those whose
// answers come so soon that it costs less to look again and again than to sleep. One
// caller at a time polls, and none while several others sleep, who would not be woken.
type polling struct {
	sleepers atomic.Int32 // so many have just sent a command, and sleep

	busy   atomic.Bool   // somebody polls
	skips  atomic.Int32  // so many more are not polled for
	misses atomic.Int32  // how many in a row came too late, missesMost at most
	asked  atomic.Uint32 // how many could have been polled for
}

// begin reports whether to poll. The caller of one that is true calls end.
func (p *polling) begin() bool {
	if p.sleepers.Load() > besides {
		return false
	}
	if p.skips.Load() > 0 {
		p.skips.Add(-1)
		return false
	}
	return p.asked.Add(1)%sleepsOnce != 0 && p.busy.CompareAndSwap(false, true)
}

// end takes note of whether the answer came, and of how long that took: another process
// may have had the processor.
func (p *polling) end(came bool, took time.Duration) {
	misses := int32(0)
	if !came || took >= pollFor {
		misses = min(p.misses.Load()+1, missesMost)
		p.skips.Store(1<<misses - 1)
	}
	p.misses.Store(misses)
	p.busy.Store(false)
}
