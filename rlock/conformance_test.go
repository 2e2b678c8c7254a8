package rlock_test

import (
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/rlock"
)

func factory(opts ...rlock.Option) locktest.Factory {
	return func(c *latchkey.Client, name string) locktest.Lock { return rlock.New(c, name, opts...) }
}

func TestConformance(t *testing.T) {
	locktest.Run(t, factory())
}

func TestConformanceWithoutHandOver(t *testing.T) {
	locktest.Run(t, factory(), locktest.Client(latchkey.WithHandOver(0)))
}

// TestConformanceOfHandOver uses a slice that outlasts the tests, so that every
// lock that can be handed over is.
func TestConformanceOfHandOver(t *testing.T) {
	locktest.Run(t, factory(), locktest.Client(latchkey.WithHandOver(time.Hour)))
}

func TestConformanceFenced(t *testing.T) {
	locktest.Run(t, factory(rlock.Fenced()))
}

func TestConformanceNonReentrant(t *testing.T) {
	locktest.Run(t, factory(rlock.NonReentrant()), locktest.NonReentrant())
}

func TestConformanceSpin(t *testing.T) {
	locktest.Run(t, factory(rlock.Spin(rlock.Backoff{Max: 128 * time.Millisecond})), locktest.Polls(128*time.Millisecond))
}
