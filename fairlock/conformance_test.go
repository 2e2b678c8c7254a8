package fairlock_test

import (
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
)

func factory(opts ...fairlock.Option) locktest.Factory {
	return func(c *latchkey.Client, name string) locktest.Lock { return fairlock.New(c, name, opts...) }
}

func TestConformance(t *testing.T) {
	locktest.Run(t, factory())
}

func TestConformanceNonReentrant(t *testing.T) {
	locktest.Run(t, factory(fairlock.NonReentrant()), locktest.NonReentrant())
}
