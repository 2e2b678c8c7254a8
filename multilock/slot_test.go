package multilock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
)

// While a slot is being moved, the key of a group is unavailable after its last
// value has been released. The other values of the set have been removed
// before, and waiters are still notified.
func TestGroupUnlockWhileTheSlotMoves(t *testing.T) {
	cl := redistest.StartCluster(t, 2)
	slot := cl.Slot(t, "g")
	values := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	holder := locktest.NewClient(t, cl.Client(t), latchkey.WithPubSub(latchkey.PubSubPlain))
	other := locktest.NewClient(t, cl.Client(t), latchkey.WithRecheck(time.Minute), latchkey.WithPubSub(latchkey.PubSubPlain))
	h, err := multilock.NewGroup(holder, "g", values...).Lock(t.Context())
	require.NoError(t, err)
	freed, err := multilock.NewGroup(other, "g", values[1:]...).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	got := make(chan error, 1)
	go func() {
		w, err := multilock.NewGroup(other, "g", values[0]).Lock(t.Context())
		if err == nil {
			err = w.Unlock(t.Context())
		}
		got <- err
	}()
	redistest.Until(t, "the waiter to listen", func() bool { return other.Stats().Waiting == 1 && other.Stats().Subscriptions == 1 })
	from := cl.Owner(t, slot)
	cl.OpenSlot(t, slot, from, 1-from)
	unlocked := make(chan error, 1)
	go func() { unlocked <- h.Unlock(t.Context()) }()
	time.Sleep(300 * time.Millisecond) // the Unlock meets the open slot
	cl.MoveSlot(t, slot, from, 1-from)
	assert.ErrorIs(t, <-unlocked, latchkey.ErrLeaseLost)
	select {
	case err := <-got:
		require.NoError(t, err)
	case <-time.After(5 * time.Second):
		t.Fatal("nobody has told the waiter")
	}
}
