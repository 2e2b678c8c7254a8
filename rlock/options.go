package rlock

import (
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// An Option selects a form of the lock. Clients that share a name should agree
// on Fenced: only acquires with Fenced get a token.
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

// Fenced gives every acquisition, re-entries included, the next fencing token;
// see [latchkey.Hold.Token]. Tokens come from the server's clock in µs. They
// therefore keep growing even if Redis loses its data, unless its clock is set
// back.
//
// Tokens are not consecutive. A client that hands the lock over in memory
// ([latchkey.WithHandOver]) takes several tokens at a time, out of the time
// that has passed, and does not use all of them. If the lock is lost and
// granted to somebody else meanwhile, the callers to whom the client still
// hands it over have lower tokens than that grant.
func Fenced() Option { return optionFunc(func(c *config) { c.fenced = true }) }

// A Backoff sets how a spin lock waits: Initial after the first refusal, then
// Multiplier times the previous delay after each refusal, up to Max. A random
// part of each delay, up to a quarter, is taken off.
type Backoff struct {
	Initial    time.Duration // default 1 ms
	Max        time.Duration // default 128 ms
	Multiplier float64       // default 2; at least 1
}

// Spin makes waiters poll with back-off and use no pub/sub. An Unlock then
// publishes nothing, as with Redisson's spin lock: waiters of other forms of
// the lock notice when the lease ends or at their recheck. Zero fields of b
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
	if b.Initial < 0 || b.Max < b.Initial || !(b.Multiplier >= 1) { // also refuses NaN
		panic(fmt.Sprintf("rlock: Spin: the back-off from %v to %v by %v makes no sense", b.Initial, b.Max, b.Multiplier))
	}
	return optionFunc(func(c *config) { c.spin, c.backoff = true, b })
}

// poll returns the back-off for waiting without hints: that of Spin, or else
// the one for clients that may not subscribe.
func (c config) poll() wait.Backoff {
	if c.spin {
		return wait.Backoff(c.backoff)
	}
	return wait.Backoff{Initial: 10 * time.Millisecond, Max: 250 * time.Millisecond, Multiplier: 2}
}
