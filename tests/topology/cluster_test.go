package topology

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	if !redistest.Sharded() {
		delete(modes, "both")
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

// A latch with a hash tag in its name has no Redisson channel in its slot. It
// still wakes its waiters.
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

// The keys of the read holds are in the slot of the lock.
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

// With any name, every object either works or returns, before anything is sent,
// a clear error that it cannot be used in a cluster.
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

// One script renews the holds of one slot. Holds of different slots never share
// a script.
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

// Many callers at once share pipelines, one for each node. A slot may move
// meanwhile, and a node that does not answer delays only its own callers.
func TestClusterCrowd(t *testing.T) {
	cl := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
	c := newClient(t, cl.Client(t))
	const workers = 96
	slot := cl.Slot(t, "{crowd0}")
	mute := cl.Nodes[(cl.Owner(t, slot)+1)%3]
	var pairs [workers]atomic.Int64
	var failed [workers]error
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range workers {
		name := "{crowd" + strconv.Itoa(i%16) + "}" + strconv.Itoa(i/2) // two for each
		wg.Go(func() {
			l := rlock.New(c, name)
			for ctx.Err() == nil {
				h, err := l.Lock(ctx)
				if err == nil {
					err = h.Unlock(ctx)
				}
				if err != nil && ctx.Err() == nil {
					failed[i] = err
					return
				}
				pairs[i].Add(1)
			}
		})
	}
	// further waits until all those workers have done some more.
	further := func(what string, of func(i int) bool) {
		var from [workers]int64
		for i := range workers {
			from[i] = pairs[i].Load()
		}
		redistest.Until(t, what, func() bool {
			for i := range workers {
				if of(i) && failed[i] == nil && pairs[i].Load() < from[i]+20 {
					return false
				}
			}
			return true
		})
	}
	all := func(int) bool { return true }
	further("some turns", all)
	counts := func() (scripts, reads int64) {
		_, after, _ := strings.Cut(cl.Nodes[0].Do(t, "INFO", "stats")[0], "total_reads_processed:")
		_, err := fmt.Sscan(after, &reads)
		require.NoError(t, err)
		return cl.Nodes[0].CommandStats(t)["evalsha"], reads
	}
	scripts, reads := counts()
	further("more", all)
	scripts2, reads2 := counts()
	require.Greater(t, scripts2-scripts, 2*(reads2-reads), "scripts, and the reads that they came in")
	for range 2 {
		from := cl.Owner(t, slot)
		cl.MoveSlot(t, slot, from, (from+1)%3)
		further("turns after the move", all)
	}

	cl.OpenSlot(t, slot, cl.Owner(t, slot), (cl.Owner(t, slot)+1)%3)
	further("turns while it moves", all)
	cl.MoveSlot(t, slot, cl.Owner(t, slot), (cl.Owner(t, slot)+1)%3)

	var there [workers]bool
	for i := range workers {
		there[i] = cl.Nodes[cl.Owner(t, cl.Slot(t, "{crowd"+strconv.Itoa(i%16)+"}"))] == mute
	}
	start := time.Now()
	mute.Freeze()
	further("turns of the others", func(i int) bool { return !there[i] })
	took := time.Since(start)
	mute.Thaw()
	require.Less(t, took, 2500*time.Millisecond, "as long as reading may take")
	further("turns of all", all)
	cancel()
	wg.Wait()
	for _, err := range failed {
		require.NoError(t, err)
	}
}
