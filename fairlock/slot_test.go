package fairlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// While a slot is being moved, its old node has all keys of a lock that is held
// and waited for, but a key that a release deletes there cannot be created
// again. So nobody can be granted the lock then, and it is free.
func TestUnlockWhileTheSlotMoves(t *testing.T) {
	cl := redistest.StartCluster(t, 2)
	slot := cl.Slot(t, "f")
	holder := newClient(t, cl.Client(t))
	for name, waiter := range map[string]func() *fairlock.Lock{
		"a waiter of this client":    func() *fairlock.Lock { return fairlock.New(holder, "f") },
		"a waiter of another client": func() *fairlock.Lock { return fairlock.New(newClient(t, cl.Client(t)), "f") },
	} {
		t.Run(name, func(t *testing.T) {
			h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
			l := waiter()
			got := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
			redistest.Until(t, "the waiter to be in the queue", func() bool {
				return cl.Nodes[cl.Owner(t, slot)].Do(t, "LLEN", "redisson_lock_queue:{f}")[0] == "1"
			})
			from := cl.Owner(t, slot)
			cl.OpenSlot(t, slot, from, 1-from)
			err := h.Unlock(t.Context())
			cl.MoveSlot(t, slot, from, 1-from)
			require.NoError(t, err)
			w := locktest.Within(t, got, 10*time.Second)
			require.NoError(t, w.Err)
			unlock(t, w.Hold)
		})
	}
}
