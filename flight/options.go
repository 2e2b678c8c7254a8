package flight

import (
	"encoding/json"
	"fmt"
	"time"
)

// An Option configures a call. With an invalid option the call returns an error.
type Option interface{ apply(*config) }

type option func(*config)

func (f option) apply(c *config) { f(c) }

type config struct {
	ttl, errorTTL time.Duration
	stale, atMost time.Duration
	maxSize       int
	encode        func(v any) ([]byte, error)
	decode        func(data []byte, v any) error
	wrong         error // the first invalid option
}

func newConfig(opts []Option) config {
	c := config{ttl: time.Minute, atMost: 5 * time.Minute, maxSize: 1 << 20, encode: json.Marshal, decode: json.Unmarshal}
	for _, o := range opts {
		o.apply(&c)
	}
	return c
}

func (c *config) fault(format string, args ...any) {
	if c.wrong == nil {
		c.wrong = fmt.Errorf(format, args...)
	}
}

// most is the longest time that is accepted.
const most = 10 * 365 * 24 * time.Hour

// between checks a duration in ms.
func (c *config) between(name string, d, least time.Duration) time.Duration {
	switch {
	case d < least:
		c.fault("%s of %v: the least is %v", name, d, least)
	case d > most:
		c.fault("%s of %v: the most is %v", name, d, most)
	}
	return d.Truncate(time.Millisecond)
}

// TTL sets for how long a value is kept. Those who wait for it need some seconds: at
// least 1 s. Default: a minute.
func TTL(d time.Duration) Option {
	return option(func(c *config) { c.ttl = c.between("TTL", d, time.Second) })
}

// ErrorTTL keeps an error of fn, as its text, for d: calls in that time return it. At
// least 1 ms. Default: errors are not kept, and only those who wait for the call get them.
func ErrorTTL(d time.Duration) Option {
	return option(func(c *config) { c.errorTTL = c.between("ErrorTTL", d, time.Millisecond) })
}

// Stale keeps a value for d beyond its TTL. A call in that time returns it at once, and
// one of all the processes calls fn in the background for a new one. At least 1 ms.
// Default: 0, a value is not used beyond its TTL.
//
// That fn has the values of its caller's context, ends with AtMost or the client, and goes
// on when its caller has returned. Its error is lost, unless an ErrorTTL keeps it: the
// next call begins another attempt, and only when the value is gone does a call return
// the error. Its panic ends the process.
func Stale(d time.Duration) Option {
	return option(func(c *config) { c.stale = c.between("Stale", d, time.Millisecond) })
}

// AtMost ends the context of a fn that lasts for longer than d, and lets another one
// begin. At least 3 ms. Default: 5 minutes.
func AtMost(d time.Duration) Option {
	return option(func(c *config) { c.atMost = c.between("AtMost", d, 3*time.Millisecond) })
}

// MaxSize sets the most bytes of an encoded value. Default: 1 MB (1 << 20). Each waiting
// process reads the value once, and Redis does nothing else while it copies it.
func MaxSize(bytes int) Option {
	return option(func(c *config) {
		if bytes < 1 {
			c.fault("MaxSize of %d: the least is 1", bytes)
		}
		c.maxSize = bytes
	})
}

// Codec sets how values become bytes and back. decode is given a pointer to the value.
// All callers of a key use the same. Default: json.Marshal and json.Unmarshal.
func Codec(encode func(v any) ([]byte, error), decode func(data []byte, v any) error) Option {
	return option(func(c *config) {
		if encode == nil || decode == nil {
			c.fault("Codec: a function is nil")
		}
		c.encode, c.decode = encode, decode
	})
}
