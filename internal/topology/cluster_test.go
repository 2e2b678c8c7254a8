package topology

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

func TestCluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	// A client that would read from replicas, if commands let it.
	connect := func(t testing.TB) redis.UniversalClient {
		return cl.Client(t, func(o *redis.ClusterOptions) { o.RouteRandomly = true })
	}
	kinds := []string{"rlock", "fair", "write lock"}
	if long {
		kinds = slices.Collect(maps.Keys(locks))
	}
	for _, kind := range kinds {
		t.Run("conformance/"+kind, func(t *testing.T) {
			locktest.RunOn(t, connect, locks[kind].new, locks[kind].traits...)
		})
	}
	modes := map[string]latchkey.PubSubMode{
		"auto": latchkey.PubSubAuto, "plain": latchkey.PubSubPlain, "both": latchkey.PubSubBoth, "polling": latchkey.Polling,
	}
	for what, mode := range modes {
		t.Run("hand-over/"+what, func(t *testing.T) {
			// One who listens in the one way hears what the other says in his.
			a, b := newClient(t, connect(t)), newClient(t, connect(t), latchkey.WithPubSub(mode))
			for kind := range objects {
				for _, name := range []string{"x", "y", "z"} { // on all three nodes
					first := take(t, kind, b, what+kind+name)
					first.give(t)
					if mode != latchkey.PubSubPlain && mode != latchkey.Polling {
						handsOn(t, kind, a, b, what+kind+name)
					}
				}
			}
		})
	}
	t.Run("latch", func(t *testing.T) { testLatch(t, connect) })
	t.Run("readers", func(t *testing.T) { testReaders(t, connect) })
	t.Run("names", func(t *testing.T) { testClusterNames(t, connect) })
	t.Run("batches", func(t *testing.T) { testBatches(t, cl) })
	t.Run("slot moves", func(t *testing.T) { testSlotMoves(t, cl) })
	t.Run("slot held open", func(t *testing.T) { testOpenSlot(t, cl) })
}

// A latch with a hash tag in its name has no Redisson channel in its slot, and
// wakes those who wait all the same.
func testLatch(t *testing.T, connect func(testing.TB) redis.UniversalClient) {
	for _, name := range []string{"latch", "latch{1}"} {
		a, b := countdownlatch.New(newClient(t, connect(t)), name), newClient(t, connect(t))
		set, err := a.TrySetCount(t.Context(), 2)
		require.NoError(t, err)
		require.True(t, set)
		require.NoError(t, a.CountDown(t.Context()))
		opened := countdownlatch.New(b, name).AwaitAsync(t.Context())
		redistest.Until(t, "the subscription", func() bool { return b.Stats().Waiting == 1 && b.Stats().Subscriptions == 1 })
		time.Sleep(20 * time.Millisecond) // for the second question, which would find it open
		start := time.Now()
		require.NoError(t, a.CountDown(t.Context()))
		require.NoError(t, <-opened)
		require.Less(t, time.Since(start), 2*time.Second, "name %q", name)
	}
}

// The keys of the read holds lie in the slot of the lock.
func testReaders(t *testing.T, connect func(testing.TB) redis.UniversalClient) {
	for _, name := range []string{"rw", "rw{1}"} {
		ctx := t.Context()
		a, b := rwlock.New(newClient(t, connect(t)), name), rwlock.New(newClient(t, connect(t)), name)
		one, err := a.ReadLock().Lock(ctx)
		require.NoError(t, err)
		two, err := b.ReadLock().Lock(ctx)
		require.NoError(t, err)
		_, err = b.WriteLock().TryLock(ctx)
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.NoError(t, one.Extend(ctx, time.Minute))
		require.NoError(t, one.Unlock(ctx))
		require.NoError(t, two.Unlock(ctx))
		three, err := a.WriteLock().TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, three.Unlock(ctx))
	}
}

// Whatever the name, every object works, or says clearly that it cannot be used
// in a cluster, before anything is sent.
func testClusterNames(t *testing.T, connect func(testing.TB) redis.UniversalClient) {
	c := newClient(t, connect(t))
	good := []string{"a", "a{b}", "{b}a", "a{b}{c}", "{a}{", "x y", "\x00", "Zähler/日本", "redisson_lock__channel:{a}"}
	bad := []string{"a{b", "{}a", "a{}{b}", "{", "}{", "{}", "a{}b"}
	for kind, take := range objects {
		for _, name := range good {
			got, err := take(t.Context(), c, kind+name)
			require.NoError(t, err, "%s %q", kind, name)
			require.NoError(t, got.release(t.Context()), "%s %q", kind, name)
		}
		for _, name := range bad {
			_, err := take(t.Context(), c, kind+name)
			require.ErrorContains(t, err, "cannot be used in a Redis Cluster", "%s %q", kind, name)
			require.NotContains(t, err.Error(), "CROSSSLOT")
		}
	}
	// A "}" alone makes a tag of the side keys that the main key does not have.
	for kind, take := range objects {
		got, err := take(t.Context(), c, kind+"a}b")
		if err != nil {
			require.ErrorContains(t, err, "cannot be used in a Redis Cluster", kind)
			continue
		}
		require.NoError(t, got.release(t.Context()), kind)
	}
	// A prefix counts as a part of the name.
	p := newClient(t, connect(t), latchkey.WithKeyPrefix("app{"))
	_, err := objects["rlock"](t.Context(), p, "a")
	require.ErrorContains(t, err, `the name "a" cannot be used in a Redis Cluster`)
	tagged := newClient(t, connect(t), latchkey.WithKeyPrefix("{app}:"))
	for kind := range objects {
		handsOn(t, kind, tagged, newClient(t, connect(t), latchkey.WithKeyPrefix("{app}:")), kind)
	}
}

// Holds of one slot are renewed by one script, those of different slots never.
func testBatches(t *testing.T, cl *redistest.Cluster) {
	const lease = 600 * time.Millisecond
	c := newClient(t, cl.Client(t), latchkey.WithWatchdogTimeout(lease))
	var holds []*latchkey.Hold
	for i := range 30 {
		for _, name := range []string{"{one}", "{two}", "{three}"} {
			h, err := rlock.New(c, name+string(rune('a'+i))).Lock(t.Context())
			require.NoError(t, err)
			holds = append(holds, h)
		}
	}
	s := permitsemaphore.New(c, "{one}permits")
	require.NoError(t, s.SetPermits(t.Context(), 1))
	p, err := s.Acquire(t.Context())
	require.NoError(t, err)
	before := c.Stats().Renewals
	redistest.Until(t, "three periods", func() bool { return c.Stats().Renewals > before+3*91 })
	for _, h := range holds {
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.NoError(t, p.Release(t.Context()))
	require.Zero(t, c.Stats().Losses)
}
