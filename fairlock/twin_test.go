package fairlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// The locks "a" and "{a}" share one queue in Redis. A waiter of one lock is not
// granted the other.
func TestTwinNames(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	listens := func(t *testing.T, c *latchkey.Client) {
		channel := channelOf("a") + ":" + c.ID()
		redistest.Until(t, "a listener", func() bool { return rdb.PubSubNumSub(t.Context(), channel).Val()[channel] == 1 })
	}
	for _, names := range [][2]string{{"a", "{a}"}, {"{a}", "a"}} {
		freed, other := names[0], names[1]
		// What another client waits for, in order.
		for _, wants := range [][]string{{other}, {other, freed}, {freed, other}} {
			t.Run(fmt.Sprint(freed, wants), func(t *testing.T) {
				s.FlushAll(t)
				holder := newClient(t, rdb)
				waiter := newClient(t, s.Client(t), latchkey.WithRecheck(200*time.Millisecond))
				holds := map[string]*latchkey.Hold{}
				for _, name := range names {
					holds[name] = locktest.Must(t)(fairlock.New(holder, name).Lock(t.Context()))
				}
				var got []<-chan locktest.Outcome
				for i, name := range wants {
					got = append(got, locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(waiter, name).Lock(t.Context()) }))
					waiting(t, waiter, i+1)
					redistest.Until(t, "the place", func() bool { return len(queued(t, rdb, "a")) == i+1 })
				}
				listens(t, waiter)

				unlock(t, holds[freed])
				if wants[0] == other {
					require.Zero(t, rdb.Exists(t.Context(), freed).Val(), "it is free, and nobody's turn")
					require.Len(t, queued(t, rdb, "a"), len(wants))
				}
				unlock(t, holds[other])
				for i, ch := range got {
					o := locktest.Within(t, ch, 4*time.Second)
					require.NoError(t, o.Err)
					require.Equal(t, map[string]string{o.Hold.HolderID(): "1"}, rdb.HGetAll(t.Context(), wants[i]).Val())
					unlock(t, o.Hold)
				}
				nothing(t, rdb)
			})
		}
	}
}
