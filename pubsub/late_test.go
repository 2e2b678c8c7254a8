package pubsub

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// The functions of dropped channels expire, whether or not another channel is
// dropped after them.
func TestLeftChannelsAreForgotten(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		n := New(env.Client(), Config{})
		defer n.Close()
		kept := func() int {
			n.mu.Lock()
			defer n.mu.Unlock()
			return len(n.late.next) + len(n.late.m)
		}
		const many = 1000
		leave := func() {
			var subs []*Subscription
			for i := range many {
				subs = append(subs, n.SubscribeFunc(strconv.Itoa(i), func(string) bool { return true }))
			}
			env.Advance(time.Second)
			for _, s := range subs {
				require.Equal(t, Live, s.State())
				s.Close()
			}
			env.Advance(time.Second)
			require.Empty(t, n.table)
		}
		leave()
		require.Equal(t, many, kept(), "messages to them may be on their way")
		env.Advance(lateFor - 2*time.Second)
		require.Equal(t, many, kept(), "for as long as is said")
		env.Advance(lateFor + 2*time.Second)
		require.Zero(t, kept())
		require.Nil(t, n.late.next)
		require.Nil(t, n.late.m)
		require.True(t, n.late.due().IsZero(), "nothing is to be done any more")

		leave()
		env.Advance(lateFor)
		leave()
		require.Equal(t, 2*many, kept(), "two generations")
		env.Advance(2 * lateFor)
		require.Zero(t, kept())
	})
}
