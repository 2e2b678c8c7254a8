package fairlock

import (
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// An Option selects a form of the lock. Clients that share a name should agree
// on QueueTimeout.
type Option interface{ apply(*config) }

type config struct {
	nonReentrant bool
	timeout      time.Duration
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// defaultTimeout is Redisson's fairLockWaitTimeout.
const defaultTimeout = 5 * time.Minute

// leastTimeout is the shortest QueueTimeout. Waiters report three times within
// a QueueTimeout that they are alive.
const leastTimeout = 100 * time.Millisecond

// NonReentrant makes a second Lock by the present holder fail with ErrReentry.
func NonReentrant() Option { return optionFunc(func(c *config) { c.nonReentrant = true }) }

// QueueTimeout sets how long a dead waiter may keep its place once it is the
// next one. It is Redisson's fairLockWaitTimeout and should equal that of the
// Java clients that share the lock. A dead latchkey waiter is removed after 15
// s at most, or after d if that is less. At least 100 ms. Default: 5 min.
func QueueTimeout(d time.Duration) Option {
	err := engine.CheckTime("QueueTimeout", d)
	if err == nil && d < leastTimeout {
		err = fmt.Errorf("QueueTimeout of %v: the least is %v", d, leastTimeout)
	}
	if err != nil {
		panic("fairlock: " + err.Error())
	}
	return optionFunc(func(c *config) { c.timeout = d.Truncate(time.Millisecond) })
}
