package rwlock_test

import (
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/rwlock"
)

func TestConformanceWrite(t *testing.T) {
	locktest.Run(t, func(c *latchkey.Client, name string) locktest.Lock { return rwlock.New(c, name).WriteLock() })
}

// How waiting readers behave is in wait_test.go.
func TestConformanceRead(t *testing.T) {
	locktest.Run(t, func(c *latchkey.Client, name string) locktest.Lock { return rwlock.New(c, name).ReadLock() }, locktest.Shared())
}
