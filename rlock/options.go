package rlock

import (
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// An Option chooses a form of the lock. Clients that share a name should agree
// on Fenced: tokens are given only to those who ask for them.
type Option interface{ apply(*config) }

type config struct {
	nonReentrant bool
	fenced       bool
	spin         bool
	backoff      Backoff
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// NonReentrant makes a second Lock by the present holder fail with ErrReentry.
func NonReentrant() Option { return optionFunc(func(c *config) { c.nonReentrant = true }) }

// Fenced gives every acquisition, a re-entry too, the next fencing token; see
// [latchkey.Hold.Token]. They are the server's time in µs, so they grow over a loss
// of its data too, unless its clock has been set back. They are not consecutive: a
// client that hands the lock on in memory ([latchkey.WithHandOver]) takes some at a
// time, of the time that has passed, and does not use all of them. If the lock is
// lost and given to somebody else meanwhile, those to whom it is handed on yet have
// lower tokens than that one.
func Fenced() Option { return optionFunc(func(c *config) { c.fenced = true }) }

// A Backoff says how a spinning lock waits: Initial after the first refusal,
// then Multiplier times as long after each, up to Max. Up to a quarter is taken
// off at random.
type Backoff struct {
	Initial    time.Duration // default 1 ms
	Max        time.Duration // default 128 ms
	Multiplier float64       // default 2; at least 1
}

// Spin makes waiters poll with back-off and use no pub/sub; an unlock publishes
// nothing then, as with Redisson's spin lock. Waiters of other forms of the lock
// learn of it when the lease ends or they recheck. Fields of b that are zero
// have their defaults.
func Spin(b Backoff) Option {
	if b.Initial == 0 {
		b.Initial = time.Millisecond
	}
	if b.Max == 0 {
		b.Max = max(128*time.Millisecond, b.Initial)
	}
	if b.Multiplier == 0 {
		b.Multiplier = 2
	}
	if b.Initial < 0 || b.Max < b.Initial || !(b.Multiplier >= 1) { // NaN neither
		panic(fmt.Sprintf("rlock: Spin: the back-off from %v to %v by %v makes no sense", b.Initial, b.Max, b.Multiplier))
	}
	return optionFunc(func(c *config) { c.spin, c.backoff = true, b })
}

// poll is how to wait without hints: a Spin's own back-off, else the one for
// clients that may not subscribe.
func (c config) poll() wait.Backoff {
	if c.spin {
		return wait.Backoff(c.backoff)
	}
	return wait.Backoff{Initial: 10 * time.Millisecond, Max: 250 * time.Millisecond, Multiplier: 2}
}
