package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// many is the number of goroutines at once, so that one script serves many.
const many = 64

// goAll runs f on n goroutines and returns when all have returned, unless t has
// failed.
func goAll(t *testing.T, n int, f func(i int)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Many goroutines that take and free a lock each need less than two commands
// each, and nothing is left behind, even if the server forgets its scripts in
// between.
func TestCrowd(t *testing.T) {
	r := newFaultRig(t)
	r.servers[0].Do(t, "SCRIPT", "FLUSH")
	c := r.client(t, 0)
	var served, together, apart atomic.Int64
	r.proxies[0].OnCommand(func(args []string) redistest.Act {
		switch {
		case locktest.Runs(args, lua.RLockAcquireMany), locktest.Runs(args, lua.RLockReleaseMany):
			together.Add(1)
		case args[0] == "evalsha" && (locktest.Runs(args, lua.RLockAcquire) || locktest.Runs(args, lua.RLockRelease)):
			apart.Add(1)
		}
		return redistest.Pass
	})
	const times = 100
	goAll(t, many, func(i int) {
		l := rlock.New(c, fmt.Sprint("crowd:", i))
		for range times {
			h, err := l.Lock(t.Context())
			if !assert.NoError(t, err) {
				return
			}
			if served.Add(1)%500 == 0 {
				r.servers[0].Do(t, "SCRIPT", "FLUSH")
			}
			assert.NoError(t, h.Unlock(t.Context()))
		}
	})
	require.EqualValues(t, many*times, served.Load())
	require.Positive(t, together.Load(), "nobody was served together")
	require.Less(t, r.commands("evalsha"), served.Load(), "commands of %d pairs", served.Load())
	r.quiet(t, c)
	require.Empty(t, r.keys(t))
}

// Many callers get the same results as one: for a lock that another holder has,
// for a key of another type, and with leases of their own.
func TestCrowdOfAllKinds(t *testing.T) {
	r := newFaultRig(t)
	c := r.client(t, 0)
	held := r.holder(t, "held")
	r.direct.Set(t.Context(), "odd", "x", 0)
	short, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	goAll(t, many, func(i int) {
		for n := range 30 {
			name := fmt.Sprint("crowd:", i)
			switch (i + n) % 4 {
			case 0:
				_, err := rlock.New(c, "held").TryLock(t.Context())
				assert.ErrorIs(t, err, latchkey.ErrNotAcquired)
			case 1:
				_, err := rlock.New(c, "odd").Lock(t.Context())
				assert.ErrorIs(t, err, latchkey.ErrKeyConflict)
			case 2:
				h, err := rlock.New(c, name).Lock(short, latchkey.Lease(time.Minute))
				if assert.NoError(t, err) {
					left := h.Remaining()
					assert.Greater(t, left, 50*time.Second)
					assert.LessOrEqual(t, left, time.Minute)
					assert.NoError(t, h.Unlock(t.Context()))
				}
			default:
				ctx := latchkey.WithHolder(t.Context())
				l := rlock.New(c, name)
				h, err := l.Lock(ctx)
				if assert.NoError(t, err) {
					again, err := l.Lock(ctx)
					if assert.NoError(t, err) {
						assert.NoError(t, again.Unlock(ctx))
					}
					assert.NoError(t, h.Unlock(ctx))
					assert.ErrorIs(t, h.Unlock(ctx), latchkey.ErrNotHeld)
				}
			}
		}
	})
	require.NoError(t, held.Unlock(t.Context()))
	r.direct.Del(t.Context(), "odd")
	r.quiet(t, c)
	require.Empty(t, r.keys(t))
}

// Replies that are lost, late or doubled, and calls that give up, in a crowd
// over names that some share. There are never two holders, nobody fails who has
// not given up, and nothing is left behind.
func TestFaultCrowd(t *testing.T) {
	r := newFaultRig(t)
	r.holdFor(50 * time.Millisecond)
	var on atomic.Bool
	on.Store(true)
	both := []*lua.Script{lua.RLockAcquireMany, lua.RLockReleaseMany}
	acts := []redistest.Act{redistest.LoseRST, redistest.LoseFIN, redistest.Hold, redistest.RefuseRST, redistest.Late}
	var seen atomic.Int64
	r.proxies[0].OnCommand(func(args []string) redistest.Act {
		if !on.Load() || !slices.ContainsFunc(both, func(s *lua.Script) bool { return locktest.Runs(args, s) }) {
			return redistest.Pass
		}
		n := int(seen.Add(1))
		if n%8 > 0 {
			return redistest.Pass
		}
		return acts[n/8%len(acts)]
	})
	missing := func(act redistest.Act) bool { return r.count(act) == 0 }
	clients := []*latchkey.Client{r.client(t, 0), r.client(t, 0)} // none of these faults takes a read timeout to end
	var sections [many]section
	goAll(t, 2*many, func(i int) {
		c, s := clients[i%2], &sections[i/2]
		l := rlock.New(c, fmt.Sprint("crowd:", i/2))
		for n := 0; n < 40 || n < 4000 && slices.ContainsFunc(acts, missing); n++ {
			ctx, cancel := context.WithCancel(context.Background())
			gives := n%5 == 4
			if gives {
				ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
			}
			h, err := l.Lock(ctx)
			cancel()
			if err != nil {
				assert.True(t, gives, "%v", err)
				continue
			}
			s.pass(func() {})
			assert.NoError(t, h.Unlock(context.Background()))
		}
	})
	on.Store(false)
	r.heal()
	for i := range sections {
		require.Zero(t, sections[i].clashes.Load(), "two were inside")
	}
	for _, act := range acts {
		require.False(t, missing(act), "%v did not happen", act)
	}
	for _, c := range clients {
		r.quiet(t, c)
	}
	r.gone(t, 20*time.Second) // a list of those who wait ends by itself
}

// A user who may not run the script for one of many names gets that error, and
// no other caller does.
func TestCrowdWithoutRights(t *testing.T) {
	r := newFaultRig(t)
	r.servers[0].Do(t, "ACL", "SETUSER", "worker", "on", "nopass", "~crowd:*", "~latchkey_next:*", "&*", "+@all")
	rdb := r.dial(t, redis.UniversalOptions{Username: "worker", Password: "any"})
	c := locktest.NewClient(t, rdb)
	goAll(t, many, func(i int) {
		for n := range 20 {
			if (i+n)%16 == 0 {
				_, err := rlock.New(c, "other").TryLock(t.Context())
				assert.True(t, errorCode(err, "NOPERM"), "%v", err)
				continue
			}
			h, err := rlock.New(c, fmt.Sprint("crowd:", i)).TryLock(t.Context())
			if assert.NoError(t, err) {
				assert.NoError(t, h.Unlock(t.Context()))
			}
		}
	})
	r.quiet(t, c)
	require.Empty(t, r.keys(t))
}

// Tests in fake time may have crowds one after another: no test uses what
// another has used.
func TestCrowdInFakeTime(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty a sync.Pool
	for range 2 {
		redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
			rdb := env.Client()
			link := env.Link(rdb)
			link.HoldFor(time.Millisecond)
			var together atomic.Int64
			link.OnCommand(func(args []string) redistest.Act {
				if locktest.Runs(args, lua.RLockAcquireMany) {
					together.Add(1)
				}
				if locktest.Runs(args, lua.RLockAcquire) {
					return redistest.Hold // so that many are under way
				}
				return redistest.Pass
			})
			c := locktest.NewClient(t, rdb)
			goAll(t, many, func(i int) {
				l := rlock.New(c, fmt.Sprint("crowd:", i))
				for range 5 {
					locktest.MustUnlock(t, locktest.MustLock(t, l))
				}
			})
			require.Positive(t, together.Load(), "nobody was served together")
		})
	}
}
