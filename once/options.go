package once

import (
	"fmt"
	"time"
)

// An Option configures a Job. An invalid option makes New panic.
type Option interface{ apply(*config) }

type option func(*config)

func (f option) apply(c *config) { f(c) }

type config struct {
	atMost, keep time.Duration
	notLater     time.Duration
	jitter       time.Duration
	attempts     int
	oneAtATime   bool
	label        string
	wrong        error // the first invalid option
}

func (c *config) fault(format string, args ...any) {
	if c.wrong == nil {
		c.wrong = fmt.Errorf(format, args...)
	}
}

// least checks a duration in ms.
func (c *config) least(name string, d, least time.Duration) time.Duration {
	if d < least {
		c.fault("%s of %v: the least is %v", name, d, least)
	}
	return d.Truncate(time.Millisecond)
}

// AtMost ends the context of a run that lasts for longer than d, and lets the next
// attempt begin. At least 3 ms. Default: a run may last for as long as its process
// lives.
func AtMost(d time.Duration) Option {
	return option(func(c *config) { c.atMost = c.least("AtMost", d, 3*time.Millisecond) })
}

// Keep sets for how long Redis knows of a run after it was begun or has ended. A
// scheduler that comes later than that runs the fire again. At least 1 s. Default: 7
// days.
func Keep(d time.Duration) Option {
	return option(func(c *config) { c.keep = c.least("Keep", d, time.Second) })
}

// A Policy says what becomes of a fire whose run has failed or was lost; see
// OnFailure.
type Policy struct{ retries int }

// Skip is the policy not to run a fire again: the next run is that of the next fire.
var Skip = Policy{}

// Retry is the policy to run a fire again, up to n times. The schedulers that have
// called Do for it wait, and whoever is first runs it. At least 1.
func Retry(n int) Policy {
	if n < 1 {
		n = -1
	}
	return Policy{n}
}

// OnFailure sets what becomes of a fire whose function returns an error or panics,
// whose process dies, or whose lock is lost. Default: Skip.
func OnFailure(p Policy) Option {
	return option(func(c *config) {
		if p.retries < 0 {
			c.fault("OnFailure: Retry needs at least 1")
		}
		c.attempts = p.retries + 1
	})
}

// NoOverlap lets one run of the job go on at a time. A fire waits for the end of those
// for which Do was called before; NotLaterThan bounds that wait. A process that
// dies while it waits delays those behind it by up to 15 s.
func NoOverlap() Option { return option(func(c *config) { c.oneAtATime = true }) }

// NotLaterThan gives up a fire that was not begun within d of its time, by the server's
// clock: Do returns ErrLate. At least 1 ms. Default: it is never too late.
func NotLaterThan(d time.Duration) Option {
	return option(func(c *config) { c.notLater = c.least("NotLaterThan", d, time.Millisecond) })
}

// Jitter makes Do wait for a random time of up to d first, so that many machines do
// not ask at once, and none is always the first.
func Jitter(d time.Duration) Option {
	return option(func(c *config) { c.jitter = c.least("Jitter", d, 0) })
}

// Label says who runs the job, for people; see [latchkey.Label]. Default: none, and
// runs show the machine and the process.
func Label(text string) Option { return option(func(c *config) { c.label = text }) }
