package pubsub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/pubsub"
)

func TestCluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) { testCluster(t, cl, mode) })
	}
	t.Run("auto", func(t *testing.T) { testAuto(t, cl) })
	t.Run("auto, one frozen", func(t *testing.T) { testAutoFrozen(t, cl) })
	if redistest.Sharded() {
		t.Run("slot move", func(t *testing.T) { testSlotMove(t, cl) })
	}
	t.Run("master down", func(t *testing.T) { testMasterDown(t, cl) })
}

func testCluster(t *testing.T, cl *redistest.Cluster, mode pubsub.Mode) {
	rdb := cl.Client(t)
	n := newNotifier(t, rdb, pubsub.Config{Mode: mode, Linger: time.Millisecond})
	all := names("c", 120)
	var subs []*pubsub.Subscription
	for _, name := range all {
		subs = append(subs, n.Subscribe(name))
	}
	check := func() {
		t.Helper()
		for _, s := range subs {
			await(t, s, pubsub.Live)
			drain(s)
		}
		for i, name := range all {
			if mode != pubsub.Sharded {
				require.NoError(t, rdb.Publish(bg, name, "x").Err())
				hint(t, subs[i])
			}
			if mode != pubsub.Plain {
				require.NoError(t, rdb.SPublish(bg, name, "x").Err())
				hint(t, subs[i])
			}
		}
	}
	check()
	conns := map[pubsub.Mode]int{pubsub.Plain: 1, pubsub.Sharded: 3, pubsub.Both: 4}[mode]
	require.Equal(t, conns, n.Stats().Connections)
	for range 5 {
		start := time.Now()
		for _, node := range cl.Nodes {
			node.Do(t, "CLIENT", "KILL", "TYPE", "PUBSUB")
		}
		for _, s := range subs {
			hintWithin(t, 2*time.Second, s)
		}
		check()
		require.Less(t, time.Since(start), 2*time.Second)
	}
	require.GreaterOrEqual(t, n.Stats().Resubscribes, uint64(5))
	for _, s := range subs {
		s.Close()
	}
	redistest.Until(t, "all unsubscribed", func() bool {
		for _, node := range cl.Nodes {
			if len(node.Do(t, "PUBSUB", "CHANNELS")) > 0 ||
				redistest.Sharded() && len(node.Do(t, "PUBSUB", "SHARDCHANNELS")) > 0 {
				return false
			}
		}
		return true
	})
	require.NoError(t, n.Close())
}

func testSlotMove(t *testing.T, cl *redistest.Cluster) {
	rdb := cl.Client(t)
	n := newNotifier(t, rdb, pubsub.Config{Mode: pubsub.Sharded})
	s, other := live(t, n, "{moving}"), live(t, n, "other")
	slot := cl.Slot(t, "{moving}")
	from := cl.Owner(t, slot)
	for _, to := range []int{(from + 1) % 3, from} {
		epochsAgree(t, cl)
		start := time.Now()
		cl.MoveSlot(t, slot, cl.Owner(t, slot), to)
		hint(t, s)
		await(t, s, pubsub.Live)
		require.Contains(t, cl.Nodes[to].Do(t, "PUBSUB", "SHARDCHANNELS"), "{moving}")
		t.Logf("back after %v, the move included", time.Since(start))
		drain(s)
		redistest.Until(t, "published", func() bool {
			return rdb.SPublish(bg, "{moving}", "x").Val() == 1
		})
		hint(t, s)
	}
	require.Equal(t, pubsub.Live, other.State())
	noHint(t, other)
}

// epochsAgree waits until all nodes have heard of the latest slot move. If the
// slot is moved back earlier, the move may take the same epoch again, and the
// nodes then disagree about the slot.
func epochsAgree(t *testing.T, cl *redistest.Cluster) {
	redistest.Until(t, "epochs agree", func() bool {
		seen := map[string]bool{}
		for _, node := range cl.Nodes {
			info := strings.Join(node.Do(t, "CLUSTER", "INFO"), "\n")
			_, epoch, _ := strings.Cut(info, "cluster_current_epoch:")
			epoch, _, _ = strings.Cut(epoch, "\r")
			seen[epoch] = true
		}
		return len(seen) == 1
	})
}

// A node that is down affects only the channels of its slots, and they come
// back.
func testMasterDown(t *testing.T, cl *redistest.Cluster) {
	rdb := cl.Client(t, func(o *redis.ClusterOptions) { o.MaxRedirects = 1 })
	if !redistest.Sharded() {
		return // there is one connection, and what costs it is in testCluster
	}
	n := newNotifier(t, rdb, pubsub.Config{Mode: pubsub.Sharded})
	epochsAgree(t, cl)
	all := names("c", 60)
	var subs []*pubsub.Subscription
	for _, name := range all {
		subs = append(subs, live(t, n, name))
	}
	const down = 1
	mine := make([]bool, len(all))
	for i, name := range all {
		mine[i] = cl.Owner(t, cl.Slot(t, name)) == down
	}
	cl.Nodes[down].Kill()
	redistest.Until(t, "noticed", func() bool {
		for i, s := range subs {
			if mine[i] && s.State() != pubsub.Pending {
				return false
			}
		}
		return true
	})
	for i, s := range subs {
		if !mine[i] {
			require.Equal(t, pubsub.Live, s.State())
			noHint(t, s)
		}
	}
	cl.Nodes[down].Restart(t)
	cl.WaitOK(t)
	for i, s := range subs {
		await(t, s, pubsub.Live)
		drain(s)
		redistest.Until(t, "published", func() bool { return rdb.SPublish(bg, all[i], "x").Val() == 1 })
		hint(t, s)
	}
}
