package wait_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// A hint that the head has heard, and not yet followed, when it is given the thing
// is for the next one: it may tell of more than that.
func TestGiveToOneWhoHasHeardAHint(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for range 100 {
			ls, h := wait.NewLines(), newHints()
			shared := policy(h)
			shared.Exclusive = false
			var free atomic.Bool
			ask := func(int) (wait.Answer, error) { return wait.Answer{Granted: free.Load()}, nil }
			first := until(t.Context(), ls, "k", newClaim(ask), shared)
			second := until(t.Context(), ls, "k", newClaim(ask), shared)
			h.confirm()
			advance(time.Second)
			start := time.Now()
			free.Store(true)
			h.hint()
			ls.Give("k", func(wait.Claim) bool { return true }) // unless the head was quicker, and asks
			for _, ch := range []<-chan result{first, second} {
				require.NoError(t, (<-ch).err)
			}
			require.Zero(t, time.Since(start), "the hint was lost")
		}
	})
}
