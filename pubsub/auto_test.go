package pubsub_test

import (
	"context"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/pubsub"
)

// oldNode is a hook for the client of one node. It answers as Redis 6.2, which
// has no sharded pub/sub.
type oldNode struct{ redis.Hook }

type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func (oldNode) DialHook(next redis.DialHook) redis.DialHook { return next }
func (oldNode) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (oldNode) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "pubsub" {
			cmd.SetErr(replyError("ERR Unknown subcommand or wrong number of arguments for 'shardnumsub'. Try PUBSUB HELP."))
			return cmd.Err()
		}
		if c, ok := cmd.(*redis.Cmd); ok && cmd.Name() == "command" {
			c.SetVal([]any{nil})
			return nil
		}
		return next(ctx, cmd)
	}
}

// A cutOnce is a connection that ends once: at a HELLO that is not part of a
// handshake.
type cutOnce struct {
	oldNode
	cut atomic.Bool
}

func (h *cutOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hello" && len(cmd.Args()) == 1 && h.cut.CompareAndSwap(false, true) {
			cmd.SetErr(io.EOF)
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// withOld makes nodes of a cluster look like Redis 6.2.
func withOld(nodes ...*redistest.Server) func(*redis.ClusterOptions) {
	return func(o *redis.ClusterOptions) {
		o.NewClient = func(opt *redis.Options) *redis.Client {
			c := redis.NewClient(opt)
			if slices.ContainsFunc(nodes, func(s *redistest.Server) bool { return s.Addr == opt.Addr }) {
				c.AddHook(oldNode{})
			}
			return c
		}
	}
}

func testAuto(t *testing.T, cl *redistest.Cluster) {
	tests := []struct {
		name string
		old  []*redistest.Server
		want pubsub.Mode
	}{
		{"new", nil, auto()},
		{"mixed", cl.Nodes[:1], most()},
		{"old", cl.Nodes, pubsub.Plain},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rdb := cl.Client(t, withOld(tt.old...))
			n := newNotifier(t, rdb, pubsub.Config{Mode: pubsub.Auto})
			var subs []*pubsub.Subscription
			all := names("auto", 20)
			for _, name := range all {
				subs = append(subs, n.Subscribe(name))
			}
			n.Subscribe("gone before the answer").Close()
			for i, s := range subs {
				await(t, s, pubsub.Live)
				drain(s)
				if tt.want != pubsub.Sharded {
					require.NoError(t, rdb.Publish(bg, all[i], "x").Err())
					hint(t, s)
				}
				if tt.want != pubsub.Plain {
					require.NoError(t, rdb.SPublish(bg, all[i], "x").Err())
					hint(t, s)
				}
			}
			require.Equal(t, tt.want, n.Mode())
		})
	}
	t.Run("slots given", func(t *testing.T) {
		rdb := cl.Client(t)
		slots, err := rdb.ClusterSlots(bg).Result() //nolint:staticcheck // the option wants what this answers
		require.NoError(t, err)
		given := cl.Client(t, func(o *redis.ClusterOptions) {
			o.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil }
		})
		require.Equal(t, auto(), newNotifier(t, given, pubsub.Config{Mode: pubsub.Auto}).ModeKnown(bg))
	})
	t.Run("asked only", func(t *testing.T) {
		n := newNotifier(t, cl.Client(t), pubsub.Config{Mode: pubsub.Auto})
		require.Equal(t, pubsub.Auto, n.Mode(), "nobody has asked yet")
		require.Equal(t, auto(), n.ModeKnown(t.Context()))
		require.Zero(t, n.Stats().Connections)
	})
}

// While no node answers, subscriptions are pending. Then they become live.
func TestAutoWaitsForTheCluster(t *testing.T) {
	cl := redistest.StartCluster(t, 1)
	open := make(chan struct{})
	rdb := cl.Client(t, func(o *redis.ClusterOptions) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-open:
				var d net.Dialer
				return d.DialContext(ctx, network, addr)
			default:
				return nil, net.ErrClosed
			}
		}
	})
	n := newNotifier(t, rdb, pubsub.Config{Mode: pubsub.Auto})
	s := n.Subscribe("a")
	time.Sleep(50 * time.Millisecond) // some searches that find nothing
	require.Equal(t, pubsub.Pending, s.State())
	require.Equal(t, pubsub.Auto, n.Mode())
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.Equal(t, pubsub.Auto, n.ModeKnown(soon), "nobody answers")
	close(open)
	await(t, s, pubsub.Live)
	require.Equal(t, auto(), n.Mode())
}

func TestAutoOutsideOfACluster(t *testing.T) {
	n := newNotifier(t, redistest.Start(t).Client(t), pubsub.Config{Mode: pubsub.Auto})
	require.Equal(t, pubsub.Plain, n.Mode())
	live(t, n, "a")
}

// A sharded channel follows its slot when the replica takes over, whether the
// master steps down or dies.
func TestFailover(t *testing.T) {
	cl := redistest.StartClusterWithReplicas(t, 3)
	rdb := cl.Client(t)
	for _, mode := range slices.Compact([]pubsub.Mode{auto(), pubsub.Plain}) {
		n := newNotifier(t, rdb, pubsub.Config{Mode: mode})
		all := names("f", 30)
		var subs []*pubsub.Subscription
		for _, name := range all {
			subs = append(subs, live(t, n, name))
		}
		check := func() {
			t.Helper()
			for i, s := range subs {
				awaitWithin(t, 2*time.Second, s, pubsub.Live)
				drain(s)
				redistest.Until(t, "published", func() bool {
					// The count may be 0: a master that has stepped down serves
					// subscribers of its shard as well, and tells nobody of them.
					return publishAs(mode, rdb, all[i]).Err() == nil
				})
				hint(t, s)
			}
		}
		check()
		slot := cl.Slot(t, all[0])
		cl.Switch(t, slot)
		check()
		if mode == auto() {
			old, _ := cl.Failover(t, slot)
			check()
			cl.Rejoin(t, old)
			check()
		}
	}
}

// A ClusterClient over servers that are not a cluster. With one master, as
// NewFailoverClusterClient makes it, other clients use plain subscriptions
// there. With more masters, a message stays at the server that it was published
// to.
func TestAutoWithoutCluster(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	for _, s := range servers {
		s.Deny(t, "command") // it is told all the same: only a cluster's nodes are asked by it
	}
	wants := map[int]pubsub.Mode{1: pubsub.Plain, 2: pubsub.Sharded}
	if !redistest.Sharded() {
		delete(wants, 2)
	}
	for masters, want := range wants {
		for _, protocol := range []int{2, 3} {
			slots := []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: servers[0].Addr}}}}
			if masters == 2 {
				slots[0].End = 8191
				slots = append(slots, redis.ClusterSlot{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: servers[1].Addr}}})
			}
			rdb := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs:        []string{servers[0].Addr, servers[1].Addr}, // not asked, since there are slots
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
				Protocol:     protocol,
				NewClient: func(opt *redis.Options) *redis.Client {
					c := redis.NewClient(opt)
					c.AddHook(new(cutOnce)) // then it is asked again
					return c
				},
			})
			t.Cleanup(func() { _ = rdb.Close() })
			n := newNotifier(t, rdb, pubsub.Config{Mode: pubsub.Auto})
			require.Equal(t, want, n.ModeKnown(bg), "%d masters", masters)
			for _, name := range names("auto", 10) {
				s := n.Subscribe(name)
				await(t, s, pubsub.Live)
				drain(s)
				if masters == 1 {
					publish(t, servers[0].Client(t), name) // by one who knows nothing of a cluster
				} else {
					require.NoError(t, rdb.SPublish(bg, name, "x").Err())
				}
				hint(t, s)
			}
		}
	}
}

// A silent master does not prevent the mode from following from the other
// masters' replies, even if the client would read from it for ever.
func testAutoFrozen(t *testing.T, cl *redistest.Cluster) {
	rdb := cl.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = -1 })
	require.NoError(t, rdb.ForEachMaster(bg, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() }))
	n := newNotifier(t, rdb, pubsub.Config{Mode: pubsub.Auto, Heartbeat: 100 * time.Millisecond})
	cl.Nodes[0].Freeze()
	defer cl.Nodes[0].Thaw()
	n.Mode() // begins to ask
	redistest.Until(t, "the mode", func() bool { return n.Mode() == auto() })
}
