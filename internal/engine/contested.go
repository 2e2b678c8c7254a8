package engine

import (
	"hash/maphash"
	"sync/atomic"
)

// contested are the locks of which others were told when they were last given back: who
// waits had better hear of the next time before the caller does (see direct.Conn). Locks
// that share a place are taken for one another, at the price of a PING, or for want of it.
type contested struct {
	seed maphash.Seed
	at   [256]atomic.Bool
}

func (c *contested) init() { c.seed = maphash.MakeSeed() }

func (c *contested) of(key string) *atomic.Bool {
	return &c.at[maphash.String(c.seed, key)%uint64(len(c.at))]
}

// note notes whether others were told.
func (c *contested) note(key string, told bool) {
	if b := c.of(key); b.Load() != told {
		b.Store(told)
	}
}

// is says whether others were told the last time.
func (c *contested) is(key string) bool { return c.of(key).Load() }

// toldOthers reports whether others than this client were told of a release.
func (e *Engine) toldOthers(s *Spec, ret *Return) bool {
	return ret.Away || ret.Heard > 1 || ret.Heard == 1 && !e.notifier.Live(s.Channel)
}
