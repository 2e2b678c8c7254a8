package multilock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
)

// TestGroupSets checks that sets exclude each other if, and only if, they share
// a value.
func TestGroupSets(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		a, b := newClient(t, env.Redis), newClient(t, env.Client())
		ab := locktest.MustLock(t, multilock.NewGroup(a, "g", "a", "b"))
		refused(t, multilock.NewGroup(b, "g", "b", "c"))
		refused(t, multilock.NewGroup(b, "g", "b", "a", "b"))
		free(t, multilock.NewGroup(b, "g", "c", "d"))
		free(t, multilock.NewGroup(b, "other", "a", "b"))
		cd := locktest.MustLock(t, multilock.NewGroup(b, "g", "c", "d"))
		locktest.MustUnlock(t, ab)
		refused(t, multilock.NewGroup(a, "g", "a", "c"))
		free(t, multilock.NewGroup(a, "g", "a", "b"))
		locktest.MustUnlock(t, cd)
		require.Empty(t, env.Mini.Keys())
	})
}

// TestGroupWakes checks that a release at once wakes the waiters whose sets
// share a value with it.
func TestGroupWakes(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		a, b := newClient(t, env.Redis), newClient(t, env.Client())
		h := locktest.MustLock(t, multilock.NewGroup(a, "g", "a", "b", "c"))
		var wg sync.WaitGroup
		var released time.Time
		for _, v := range []string{"a", "b", "c"} {
			wg.Go(func() {
				h, err := multilock.NewGroup(b, "g", v).Lock(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, released, time.Now())
				time.Sleep(time.Second)
				assert.NoError(t, h.Unlock(t.Context()))
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, b.Stats().Subscriptions, "all wait on the group")
		released = time.Now()
		locktest.MustUnlock(t, h)
		wg.Wait()
	})
}

// TestGroupOverlapsByOneHolder checks that sets of one holder may share values,
// and that each keeps its own.
func TestGroupOverlapsByOneHolder(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c, other := newClient(t, env.Redis), newClient(t, env.Client())
		ctx := latchkey.WithHolder(t.Context())
		ab, bc := multilock.NewGroup(c, "g", "a", "b"), multilock.NewGroup(c, "g", "b", "c")
		h1, err := ab.Lock(ctx)
		require.NoError(t, err)
		h2, err := bc.Lock(ctx)
		require.NoError(t, err)
		n, err := multilock.NewGroup(c, "g", "b").HoldCount(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, n, "hold count of the value they share")
		time.Sleep(time.Hour) // both are renewed
		locktest.MustUnlock(t, h1)
		free(t, multilock.NewGroup(other, "g", "a"))
		refused(t, multilock.NewGroup(other, "g", "b"))
		refused(t, multilock.NewGroup(other, "g", "c"))
		again, err := bc.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, bc.Unlock(ctx))
		require.ErrorIs(t, again.Unlock(ctx), latchkey.ErrNotHeld)
		locktest.MustUnlock(t, h2)
		require.Empty(t, env.Mini.Keys())

		// A Hold's Context speaks for its own values only.
		h1 = locktest.MustLock(t, ab)
		_, err = bc.TryLock(h1.Context())
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		locktest.MustUnlock(t, h1)
	})
}

// TestGroupLosesWithOneValue checks that a set is lost when one of its values
// is gone, and that Unlock frees the others.
func TestGroupLosesWithOneValue(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c, other := newClient(t, env.Redis), newClient(t, env.Client())
		h := locktest.MustLock(t, multilock.NewGroup(c, "g", "a", "b"))
		freed, err := multilock.NewGroup(other, "g", "b").ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, freed)
		refused(t, multilock.NewGroup(other, "g", "a"))
		isLost(t, h.Unlock(t.Context()))
		require.Empty(t, env.Mini.Keys())

		h = locktest.MustLock(t, multilock.NewGroup(c, "g", "a", "b"))
		_, err = multilock.NewGroup(other, "g", "b").ForceUnlock(t.Context())
		require.NoError(t, err)
		start := time.Now()
		<-h.Lost()
		require.LessOrEqual(t, time.Since(start), 10*time.Second, "one renewal")
		isLost(t, h.Unlock(t.Context()))
	})
}

// TestGroupRenewsInBatches checks that two hundred sets need two scripts every
// 10 s.
func TestGroupRenewsInBatches(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := newClient(t, env.Redis)
		for i := range 200 {
			locktest.MustLock(t, multilock.NewGroup(c, "g"+strconv.Itoa(i%7), strconv.Itoa(i), "x"+strconv.Itoa(i)), latchkey.Label("me"))
		}
		before := env.Commands("")
		time.Sleep(time.Minute)
		require.LessOrEqual(t, env.Commands("")-before, int64(14))
		require.Zero(t, c.Stats().Losses)
	})
}

// TestGroupRandomSets uses a thousand random sets on a real server: no value is
// held twice, and nothing is left behind.
func TestGroupRandomSets(t *testing.T) {
	const workers, values = 8, 12
	sets := int32(redistest.Many(1000, 200))
	s := redistest.Start(t)
	var owners [values]atomic.Int32
	var done atomic.Int32
	var wg sync.WaitGroup
	for w := range workers {
		c := newClient(t, s.Client(t))
		r := rand.New(rand.NewPCG(uint64(w), 1))
		wg.Go(func() {
			for done.Add(1) <= sets {
				set := r.Perm(values)[:1+r.IntN(4)]
				names := make([]string, len(set))
				for i, v := range set {
					names[i] = "value " + strconv.Itoa(v)
				}
				h, err := multilock.NewGroup(c, "group", names...).Lock(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				for _, v := range set {
					assert.Equal(t, int32(1), owners[v].Add(1), "holders of a value")
				}
				if r.IntN(4) == 0 {
					time.Sleep(time.Millisecond)
				}
				for _, v := range set {
					owners[v].Add(-1)
				}
				assert.NoError(t, h.Unlock(t.Context()))
			}
		})
	}
	wg.Wait()
	require.Empty(t, s.Do(t, "KEYS", "*"))
}

const killedAddr = "LATCHKEY_KILLED_ADDR" // set in the process that is killed

// killedChild takes and releases sets until it is killed.
func killedChild(addr string) {
	c := latchkey.New(redis.NewClient(redistest.AsUser(&redis.Options{Addr: addr})), latchkey.WithWatchdogTimeout(time.Second))
	fmt.Println("ready")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for {
				set := []string{strconv.Itoa(w), strconv.Itoa(w + 1), strconv.Itoa(w + 2)}
				if h, err := multilock.NewGroup(c, "group", set...).Lock(context.Background()); err == nil {
					_ = h.Unlock(context.Background())
				}
			}
		})
	}
	wg.Wait()
}

// TestGroupKilled kills a process at random moments. What it holds then are
// whole sets, and they are free when the lease is over.
func TestGroupKilled(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	rounds, inSets := 5, 0
	for range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), killedAddr+"="+s.Addr)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 5))
		require.NoError(t, err)
		redistest.Until(t, "it to work", func() bool { return rdb.Exists(t.Context(), "group").Val() == 1 })
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()

		held := map[string][]string{} // values by holder
		for f, owner := range rdb.HGetAll(t.Context(), "group").Val() {
			if !strings.Contains(f, ":") {
				held[owner] = append(held[owner], f)
			}
		}
		for owner, fields := range held {
			require.Len(t, fields, 3, "values of %s", owner)
			inSets++
		}
		c := newClient(t, rdb)
		start := time.Now()
		all := multilock.NewGroup(c, "group", "0", "1", "2", "3", "4", "5")
		h, err := all.TryLock(t.Context(), latchkey.Wait(10*time.Second))
		require.NoError(t, err)
		require.Less(t, time.Since(start), 3*time.Second)
		locktest.MustUnlock(t, h)
		require.Empty(t, slices.DeleteFunc(s.Do(t, "KEYS", "*"), func(k string) bool {
			return strings.HasPrefix(k, "latchkey_group:") // of the dead, for the rest of a lease
		}))
	}
	t.Logf("%d sets held by the dead, in %d kills", inSets, rounds)
}
