package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
)

func TestGroupConformance(t *testing.T) {
	locktest.Run(t, func(c *latchkey.Client, name string) locktest.Lock {
		return multilock.NewGroup(c, name, "a", "b", "c")
	})
}

// wrapped is a multi-lock of one reentrant lock. It must behave as the lock
// itself does.
type wrapped struct {
	multi
	inner *rlock.Lock
}

type multi = *multilock.Lock

func (w wrapped) ForceUnlock(ctx context.Context) (bool, error) { return w.inner.ForceUnlock(ctx) }
func (w wrapped) IsLocked(ctx context.Context) (bool, error)    { return w.inner.IsLocked(ctx) }
func (w wrapped) HoldCount(ctx context.Context) (int, error)    { return w.inner.HoldCount(ctx) }
func (w wrapped) TTL(ctx context.Context) (time.Duration, error) {
	return w.inner.TTL(ctx)
}

func (w wrapped) IsHeldBy(ctx context.Context, h latchkey.Holder) (bool, error) {
	return w.inner.IsHeldBy(ctx, h)
}

func TestConformance(t *testing.T) {
	locktest.Run(t, func(c *latchkey.Client, name string) locktest.Lock {
		inner := rlock.New(c, name)
		return wrapped{multilock.New(inner), inner}
	}, locktest.Composed())
}
