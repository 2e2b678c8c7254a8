package pubsub_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/pubsub"
)

func TestHeartbeat(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client()
		link := env.Link(rdb)
		n := newNotifier(t, rdb, pubsub.Config{})
		s := live(t, n, "a")

		env.Advance(30 * time.Second)
		require.EqualValues(t, 15, link.Commands("ping"), "one per heartbeat of silence")
		for range 10 {
			env.Advance(1500 * time.Millisecond)
			publish(t, env.Redis, "a")
			synctest.Wait()
		}
		require.EqualValues(t, 15, link.Commands("ping"), "none while messages flow")
		require.Equal(t, 1, link.Conns())
		require.Zero(t, n.Stats().Resubscribes)
		drain(s)

		env.Partition(rdb)
		env.Advance(2 * time.Second)
		require.Equal(t, pubsub.Live, s.State(), "only pinged so far")
		env.Advance(time.Second)
		require.Equal(t, pubsub.Pending, s.State())
		env.Heal(rdb)
		start := time.Now()
		hint(t, s)
		require.Equal(t, pubsub.Live, s.State())
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
		require.EqualValues(t, 1, n.Stats().Resubscribes)
	})
}

// While a server is frozen, a new connection is tried for a second at a time,
// so that its successor is soon found. Later attempts take longer, for a server
// that has become slow.
func TestFrozenForLong(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client()
		n := newNotifier(t, rdb, pubsub.Config{})
		s := live(t, n, "a")
		for range 12 { // at any moment of what it is at
			env.Partition(rdb)
			env.Advance(9*time.Second + 370*time.Millisecond)
			drain(s)
			env.Heal(rdb)
			start := time.Now()
			hint(t, s)
			require.Equal(t, pubsub.Live, s.State())
			require.LessOrEqual(t, time.Since(start), 1500*time.Millisecond)
			env.Advance(time.Second)
		}
		// It takes 1.5 s now to make one.
		env.Link(rdb).Delay(500 * time.Millisecond)
		env.Link(rdb).CutAll()
		env.Advance(30 * time.Second)
		require.Equal(t, pubsub.Live, s.State())
	})
}

func TestLingerAndIdleClose(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client()
		link := env.Link(rdb)
		n := newNotifier(t, rdb, pubsub.Config{})
		s := live(t, n, "a")
		for range 5 {
			s.Close()
			env.Advance(99 * time.Millisecond)
			s = n.Subscribe("a")
			require.Equal(t, pubsub.Live, s.State())
		}
		require.EqualValues(t, 1, link.Commands("subscribe"))
		require.Zero(t, link.Commands("unsubscribe"))

		s.Close()
		env.Advance(100*time.Millisecond - 1)
		require.Zero(t, link.Commands("unsubscribe"))
		env.Advance(1)
		require.EqualValues(t, 1, link.Commands("unsubscribe"))
		require.Zero(t, n.Stats().Channels)

		env.Advance(10*time.Second - 1)
		require.Equal(t, 1, n.Stats().Connections)
		env.Advance(1)
		require.Zero(t, n.Stats().Connections)
		require.Zero(t, link.Conns())
		commands := link.Commands("")
		env.Advance(time.Hour)
		require.Equal(t, commands, link.Commands(""), "an idle notifier is silent")
		live(t, n, "a")
	})
}

// A channel that is subscribed and dropped before anything was written causes
// no command.
func TestGoneBeforeSent(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client()
		link := env.Link(rdb)
		n := newNotifier(t, rdb, pubsub.Config{Linger: -1})
		keep := live(t, n, "keep")
		env.Partition(rdb)
		env.Advance(6 * time.Second) // given up
		require.Equal(t, pubsub.Pending, keep.State())
		n.Subscribe("a").Close()
		synctest.Wait()
		env.Heal(rdb)
		hint(t, keep)
		require.Equal(t, []string{"keep"}, env.Mini.PubSubChannels("*"))
		require.Zero(t, link.Commands("unsubscribe"))
	})
}

func TestLostConfirmation(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client()
		link := env.Link(rdb)
		n := newNotifier(t, rdb, pubsub.Config{})
		other := live(t, n, "other")
		lost := false
		link.OnMessage(func(kind, channel, _ string) bool {
			if kind == "subscribe" && channel == "a" && !lost {
				lost = true
				return false
			}
			return true
		})
		s := n.Subscribe("a")
		start := time.Now()
		for range 4 {
			env.Advance(time.Second - time.Millisecond) // messages flow all the time
			publish(t, env.Redis, "other")
			hint(t, other)
			require.Equal(t, pubsub.Pending, s.State())
		}
		hint(t, s)
		require.True(t, lost)
		require.Equal(t, pubsub.Live, s.State())
		require.LessOrEqual(t, time.Since(start), 4*time.Second+50*time.Millisecond)
		hint(t, other)
		require.Equal(t, pubsub.Live, other.State())
	})
}

// The dials to a server that never answers are few and end with Close.
func TestBackoffAndClose(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		link := env.Link(rdb)
		n := newNotifier(t, rdb, pubsub.Config{})
		link.OnCommand(func([]string) redistest.Act { return redistest.RefuseRST })
		s := n.Subscribe("a")
		env.Advance(time.Minute)
		require.Equal(t, pubsub.Pending, s.State())
		tries := link.Count(redistest.RefuseRST)
		require.Greater(t, tries, int64(30))
		require.Less(t, tries, int64(500))
		env.Partition(rdb)
		env.Advance(time.Minute)
		start := time.Now()
		require.NoError(t, n.Close())
		require.LessOrEqual(t, time.Since(start), time.Second)
	})
}

// A channel that is dropped before its confirmation is still unsubscribed, and
// the confirmation does not make a later generation of the name live.
func TestGoneBeforeConfirmed(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client()
		link := env.Link(rdb)
		n := newNotifier(t, rdb, pubsub.Config{})
		live(t, n, "keep")
		link.OnNext(1, "subscribe", redistest.Hold)
		n.Subscribe("a").Close()
		env.Advance(100 * time.Millisecond)
		require.Equal(t, 1, n.Stats().Channels)
		link.OnNext(1, "subscribe", redistest.Hold)
		s := n.Subscribe("a")
		synctest.Wait()
		require.Equal(t, pubsub.Pending, s.State())
		noHint(t, s)
		s.Close()
		env.Advance(100 * time.Millisecond)
		link.Release()
		synctest.Wait()
		require.Equal(t, []string{"keep"}, env.Mini.PubSubChannels("*"))
		require.EqualValues(t, 2, link.Commands("unsubscribe"))
		require.EqualValues(t, 3, link.Commands("subscribe"))
	})
}
