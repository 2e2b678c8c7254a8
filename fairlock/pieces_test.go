package fairlock_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A long queue is read in pieces, so that no script keeps Redis busy; each waiter is told
// once, in order.
func TestWaitersInPieces(t *testing.T) {
	server := redistest.Start(t)
	l := fairlock.New(locktest.NewClient(t, server.Client(t)), "f")
	for _, n := range []int{0, 499, 500, 501, 2000} {
		server.FlushAll(t)
		for i := range n {
			server.Do(t, "RPUSH", "redisson_lock_queue:{f}", fmt.Sprint("client:", i))
		}
		server.Do(t, "CONFIG", "RESETSTAT")
		waiters, err := l.Waiters(t.Context())
		require.NoError(t, err)
		require.Len(t, waiters, n)
		for i, w := range waiters {
			require.Equal(t, fmt.Sprint("client:", i), w.ID)
		}
		require.EqualValues(t, 1+max(0, n-50)/450, server.CommandStats(t)["lrange"], "%d", n)
	}
}
