package multilock_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
)

// TestCrossing has two multi-locks over the same members in opposite order, on
// clients of their own. The long form has 10,000 rounds.
func TestCrossing(t *testing.T) {
	rounds := 500
	if long() {
		rounds = 10_000
	}
	one, two := redistest.Start(t), redistest.Start(t)
	inside := 0 // plain: the race detector watches it too
	var wg sync.WaitGroup
	start := time.Now()
	for i := range 2 {
		c1, c2 := newClient(t, one.Client(t)), newClient(t, two.Client(t))
		ms := []latchkey.Locker{rlock.New(c1, "a"), rlock.New(c2, "b"), rlock.New(c1, "c")}
		if i == 1 {
			ms[0], ms[2] = ms[2], ms[0]
		}
		l := multilock.New(ms...)
		wg.Go(func() {
			for range rounds {
				h, err := l.Lock(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				inside++
				assert.Equal(t, 1, inside, "holders")
				inside--
				assert.NoError(t, h.Unlock(t.Context()))
			}
		})
	}
	wg.Wait()
	t.Logf("%d rounds each in %v", rounds, time.Since(start))
	require.Empty(t, one.Do(t, "KEYS", "*"))
	require.Empty(t, two.Do(t, "KEYS", "*"))
}

// TestRandomSubsets checks that many multi-locks of random members, and single
// locks among them, finish, and that no member is held twice.
func TestRandomSubsets(t *testing.T) {
	const workers, names = 12, 8
	rounds := 15
	if long() {
		rounds = 500
	}
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	var owners [names]atomic.Int32
	var wg sync.WaitGroup
	for w := range workers {
		cs := []*latchkey.Client{newClient(t, servers[0].Client(t)), newClient(t, servers[1].Client(t))}
		r := rand.New(rand.NewPCG(uint64(w), 7))
		wg.Go(func() {
			for range rounds {
				set := r.Perm(names)[:1+r.IntN(4)]
				ms := make([]latchkey.Locker, len(set))
				for i, n := range set {
					ms[i] = rlock.New(cs[n%2], strconv.Itoa(n))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				h, err := multilock.New(ms...).Lock(ctx)
				cancel()
				if !assert.NoError(t, err) {
					return
				}
				for _, n := range set {
					assert.Equal(t, int32(1), owners[n].Add(1), "holders of a member")
				}
				if r.IntN(8) == 0 {
					time.Sleep(time.Millisecond)
				}
				for _, n := range set {
					owners[n].Add(-1)
				}
				assert.NoError(t, h.Unlock(t.Context()))
			}
		})
	}
	wg.Wait()
	for _, s := range servers {
		require.Empty(t, s.Do(t, "KEYS", "*"))
	}
}
