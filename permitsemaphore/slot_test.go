package permitsemaphore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// While a slot is being moved, the key of the permits that are out is
// unavailable after the last one has been given back. The other permits that a
// Close names are then unknown.
func TestCloseWhileTheSlotMoves(t *testing.T) {
	cl := redistest.StartCluster(t, 2)
	slot := cl.Slot(t, "p")
	c := locktest.NewClient(t, cl.Client(t))
	s := permitsemaphore.New(locktest.NewClient(t, cl.Client(t)), "p")
	require.NoError(t, s.SetPermits(t.Context(), 8))
	permits, err := permitsemaphore.New(c, "p").AcquireN(t.Context(), 8)
	require.NoError(t, err)
	for _, p := range permits[1:] {
		require.NoError(t, s.Release(t.Context(), p.ID()))
	}
	from := cl.Owner(t, slot)
	cl.OpenSlot(t, slot, from, 1-from)
	err = c.Close()
	cl.MoveSlot(t, slot, from, 1-from)
	assert.NoError(t, err)
	n, err := s.AvailablePermits(t.Context())
	require.NoError(t, err)
	require.Equal(t, 8, n)
}
