package elect

import (
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// An Option configures an Election. An invalid option makes New panic.
type Option interface{ apply(*config) }

type option func(*config)

func (f option) apply(c *config) { f(c) }

type config struct {
	identity string
	value    string
	lease    time.Duration // 0: that of the client
	wrong    error         // the first invalid option
}

func (c *config) fault(format string, args ...any) {
	if c.wrong == nil {
		c.wrong = fmt.Errorf(format, args...)
	}
}

const (
	mostIdentity = 256
	mostValue    = 4096
	leastLease   = 100 * time.Millisecond
)

// defaultIdentity returns the name of the machine and the process id.
func defaultIdentity() string { return fmt.Sprintf("%s:%d", engine.ThisHost(), os.Getpid()) }

// checkIdentity returns what is wrong with the identity of a candidate, or nil.
func checkIdentity(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("the identity is empty")
	case len(id) > mostIdentity:
		return fmt.Errorf("the identity has %d bytes, the most is %d", len(id), mostIdentity)
	case !utf8.ValidString(id):
		return fmt.Errorf("the identity %q is not UTF-8", id)
	}
	return nil
}

// Identity names the candidate: what others see of the leader, and by what Transfer
// finds it. Two candidates of an election need two identities; nothing checks that. 1
// to 256 bytes of UTF-8. Default: the name of the machine, a colon and the process id.
func Identity(id string) Option {
	return option(func(c *config) {
		if c.identity = id; checkIdentity(id) != nil {
			c.fault("Identity: %w", checkIdentity(id))
		}
	})
}

// Value is what everybody can read of the leader besides its identity, such as its
// address. At most 4,096 bytes. Default: none.
func Value(v string) Option {
	return option(func(c *config) {
		if c.value = v; len(v) > mostValue {
			c.fault("Value: it has %d bytes, the most is %d", len(v), mostValue)
		}
	})
}

// Lease sets how fast a leader that dies is replaced: within d and a second. The lease
// is renewed every third of d while the process lives. A leader that cannot reach Redis
// for d loses its term. At least 100 ms. Default: that of the client
// ([latchkey.WithWatchdogTimeout]), 30 s.
func Lease(d time.Duration) Option {
	return option(func(c *config) {
		if c.lease = d.Truncate(time.Millisecond); d < leastLease {
			c.fault("Lease of %v: the least is %v", d, leastLease)
		} else if err := engine.CheckLease("Lease", d); err != nil {
			c.fault("%w", err)
		}
	})
}
