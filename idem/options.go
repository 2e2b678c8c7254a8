package idem

import (
	"fmt"
	"net/http"
	"time"

	"github.com/latchkey-go/latchkey/internal/names"
)

// An Option configures Middleware. An invalid option makes Middleware and New panic.
type Option interface{ apply(*config) }

type option func(*config)

func (f option) apply(c *config) { f(c) }

// A KeysOption configures Keys. It is an Option of Middleware too.
type KeysOption struct{ option }

type config struct {
	name   string
	ttl    time.Duration
	wait   time.Duration
	atMost time.Duration

	scope       func(*http.Request) string
	methods     map[string]bool
	required    bool
	maxRequest  int64
	maxResponse int
	oversize    Policy
	outage      Policy
	statuses    func(status int) bool
	headers     func(name string) bool
	docs        string

	wrong error // the first invalid option
}

func newConfig() config {
	return config{
		name:        "idem",
		ttl:         24 * time.Hour,
		atMost:      15 * time.Minute,
		scope:       func(*http.Request) string { return "" },
		methods:     map[string]bool{http.MethodPost: true, http.MethodPatch: true},
		maxRequest:  1 << 20,
		maxResponse: 1 << 20,
		statuses:    settled,
		headers:     func(name string) bool { return name != "Set-Cookie" },
	}
}

func (c *config) fault(format string, args ...any) {
	if c.wrong == nil {
		c.wrong = fmt.Errorf(format, args...)
	}
}

// Name sets what the names of all keys in Redis begin with. Services that share a Redis
// have different ones. Default: idem.
func Name(name string) KeysOption {
	return KeysOption{func(c *config) {
		if err := names.Check(name); err != nil {
			c.fault("Name: %v", err)
		}
		c.name = name
	}}
}

// TTL sets for how long a response is kept. A request that is repeated after that runs
// again. At least 1 s. Default: 24 hours.
func TTL(d time.Duration) KeysOption {
	return KeysOption{func(c *config) {
		if d < time.Second {
			c.fault("TTL of %v: the least is 1s", d)
		}
		c.ttl = d
	}}
}

// Wait sets for how long a request waits for the end of one with its key, and gets its
// response then. Default: 0, it is refused at once.
func Wait(d time.Duration) KeysOption {
	return KeysOption{func(c *config) {
		if d < 0 {
			c.fault("Wait of %v is negative", d)
		}
		c.wait = d
	}}
}

// AtMost ends the context of a call that lasts for longer than d, and lets the next one
// with its key begin. What it has to say by then is not kept. At least 1 s. Default: 15
// minutes.
func AtMost(d time.Duration) KeysOption {
	return KeysOption{func(c *config) {
		if d < time.Second {
			c.fault("AtMost of %v: the least is 1s", d)
		}
		c.atMost = d
	}}
}

// Scope sets whose a key is, by a function that returns the user of a request: two users
// may use the same key, and neither gets the other's response. The user must be known
// from more than the request's claim, so Middleware stands behind what authenticates.
// Default: all requests share their keys, and whoever knows a key gets the response.
func Scope(user func(*http.Request) string) Option {
	return option(func(c *config) {
		if user == nil {
			c.fault("Scope: the function is nil")
		}
		c.scope = user
	})
}

// Methods sets the methods whose requests may have a key. The others go to the handler
// as they are. Default: POST and PATCH.
func Methods(methods ...string) Option {
	return option(func(c *config) {
		c.methods = map[string]bool{}
		for _, m := range methods {
			c.methods[m] = true
		}
		if len(methods) == 0 || c.methods[""] {
			c.fault("Methods: a method is missing")
		}
	})
}

// Required refuses requests that have no key, with status 400. Default: they go to the
// handler as they are.
func Required() Option { return option(func(c *config) { c.required = true }) }

// MaxRequest sets the most bytes of a request's body. The body is read into memory
// before the handler runs. Default: 1 MiB.
func MaxRequest(n int64) Option {
	return option(func(c *config) {
		if n < 0 {
			c.fault("MaxRequest of %d is negative", n)
		}
		c.maxRequest = n
	})
}

// MaxResponse sets the most bytes of a response's header and body that are kept. They
// stand in memory until then. Default: 1 MiB.
func MaxResponse(n int) Option {
	return option(func(c *config) {
		if n < 0 {
			c.fault("MaxResponse of %d is negative", n)
		}
		c.maxResponse = n
	})
}

// A Policy says what becomes of a request that cannot be served as promised.
type Policy int

// The policies.
const (
	// Refuse refuses the request, so that nothing is done twice.
	Refuse Policy = iota
	// Pass serves the request as one without a key.
	Pass
)

func (c *config) policy(name string, p Policy) Policy {
	if p != Refuse && p != Pass {
		c.fault("%s: the policy %d is unknown", name, p)
	}
	return p
}

// Oversize sets what becomes of a request whose body is above MaxRequest or whose
// response is above MaxResponse. With Refuse, the body is refused with status 413, before
// the handler runs. The response is sent, and Redis keeps that there was one: the request
// does not run again, and who repeats it gets status 409. With Pass, the body is served
// as one without a key, and the response is not kept. Default: Refuse.
func Oversize(p Policy) Option {
	return option(func(c *config) { c.oversize = c.policy("Oversize", p) })
}

// Outage sets what becomes of a request when Redis cannot be reached. With Refuse it gets
// status 503, before the handler runs. Default: Refuse.
func Outage(p Policy) Option {
	return option(func(c *config) { c.outage = c.policy("Outage", p) })
}

// Statuses sets which responses are kept, by their status. Those that are not are sent
// all the same, and who repeats the request runs it again. Default: those below 500,
// but for 401, 408, 409, 423, 425 and 429, which are about a moment.
func Statuses(kept func(status int) bool) Option {
	return option(func(c *config) {
		if kept == nil {
			c.fault("Statuses: the function is nil")
		}
		c.statuses = kept
	})
}

// settled is the default of Statuses.
func settled(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < 500
}

// Headers sets which fields of a response's header are kept, by their names in canonical
// form. Those about a connection or a message are never kept: Connection, Date,
// Keep-Alive, Proxy-…, TE, Trailer, Transfer-Encoding and Upgrade; nor are trailers.
// Default: all others but Set-Cookie.
func Headers(kept func(name string) bool) Option {
	return option(func(c *config) {
		if kept == nil {
			c.fault("Headers: the function is nil")
		}
		c.headers = kept
	})
}

// Docs sets the address of a page about keys, for people who program clients. It is the
// type of each problem that a refusal tells (RFC 9457). Default: none.
func Docs(url string) Option { return option(func(c *config) { c.docs = url }) }
