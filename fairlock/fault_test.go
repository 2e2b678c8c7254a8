package fairlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

// A rig is a server with a proxy in front of it.
type rig struct {
	*redistest.Proxy
	server *redistest.Server
	direct *redis.Client
}

const readTimeout = 200 * time.Millisecond

func newRig(t testing.TB) *rig {
	t.Helper()
	s := redistest.Start(t)
	r := &rig{redistest.NewProxy(t, s.Addr), s, s.Client(t)}
	for _, script := range []*lua.Script{
		lua.FairLockAcquire, lua.FairLockRelease, lua.FairLockLeave, lua.FairLockKeep, lua.RLockRenew,
	} {
		s.Do(t, "SCRIPT", "LOAD", script.Source)
	}
	r.HoldFor(2 * readTimeout)
	return r
}

func (r *rig) client(t testing.TB, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: r.Addr(), ReadTimeout: readTimeout})
	t.Cleanup(func() { _ = rdb.Close() })
	return newClient(t, rdb, opts...)
}

// on applies act to the next n runs of a script.
func (r *rig) on(n int, script *lua.Script, act redistest.Act) {
	r.OnCommand(func(args []string) redistest.Act {
		if n > 0 && strings.EqualFold(args[0], "evalsha") && args[1] == script.SHA {
			n--
			return act
		}
		return redistest.Pass
	})
}

var faults = []redistest.Act{
	redistest.LoseRST, redistest.LoseFIN, redistest.Swallow, redistest.Hold, redistest.RefuseRST, redistest.Twice,
}

// Whatever becomes of the requests and replies of a waiter that is granted the
// lock, the waiter is queued once and granted once, and nothing is left behind.
func TestFaultsOfAcquire(t *testing.T) {
	r := newRig(t)
	a, b := newClient(t, r.direct), r.client(t)
	for _, act := range faults {
		t.Run(act.String(), func(t *testing.T) {
			l := fairlock.New(b, "f")
			h := locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context()))
			before := r.Count(act)
			r.on(1, lua.FairLockAcquire, act) // that which queues
			// With a lease of its own it asks although it was given the lock.
			got := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context(), latchkey.Lease(time.Minute)) })
			waiting(t, b, 1)
			redistest.Until(t, "the place", func() bool { return len(queued(t, r.direct, "f")) == 1 })
			require.Equal(t, before+1, r.Count(act), "the fault did not happen")
			time.Sleep(30 * time.Millisecond) // until nothing but a release makes it ask
			r.on(1, lua.FairLockAcquire, act) // that which takes
			unlock(t, h)
			o := locktest.Within(t, got, 3*time.Second)
			require.NoError(t, o.Err)
			require.Equal(t, before+2, r.Count(act), "the fault did not happen")
			require.Equal(t, map[string]string{o.Hold.HolderID(): "1"}, r.direct.HGetAll(t.Context(), "f").Val())
			require.Empty(t, queued(t, r.direct, "f"))
			unlock(t, o.Hold)
			require.Empty(t, r.direct.Keys(t.Context(), "*").Val())
		})
	}
}

// The same for a release: to a waiter of another client, to a waiter of the
// same client, which the same script grants the lock, and to nobody.
func TestFaultsOfRelease(t *testing.T) {
	r := newRig(t)
	for _, act := range faults {
		t.Run(act.String(), func(t *testing.T) {
			a := r.client(t, latchkey.WithRecheck(500*time.Millisecond))
			b := newClient(t, r.direct)
			r.OnCommand(nil)
			for _, waiters := range [][]*latchkey.Client{{}, {b}, {a}, {a, b, a}} {
				h := locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context()))
				var got []<-chan locktest.Outcome
				for i, c := range waiters {
					got = append(got, locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(c, "f").Lock(t.Context()) }))
					redistest.Until(t, "it to wait", func() bool { return a.Stats().Waiting+b.Stats().Waiting == i+1 })
				}
				before := r.Count(act)
				r.on(1, lua.FairLockRelease, act)
				if err := h.Unlock(t.Context()); act == redistest.Twice {
					// What the second run finds cannot be told from a lock that somebody
					// has taken away.
					require.ErrorIs(t, err, latchkey.ErrLeaseLost)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, before+1, r.Count(act), "the fault did not happen")
				for _, ch := range got {
					o := locktest.Within(t, ch, 3*time.Second)
					require.NoError(t, o.Err)
					require.Equal(t, map[string]string{o.Hold.HolderID(): "1"}, r.direct.HGetAll(t.Context(), "f").Val())
					require.NoError(t, o.Hold.Context().Err())
					unlock(t, o.Hold)
				}
				require.Empty(t, r.direct.Keys(t.Context(), "*").Val())
			}
		})
	}
}

// A waiter that gives up while its request is on its way, or whose leave
// request is lost, leaves neither a place nor a hold behind.
func TestFaultsOfLeaving(t *testing.T) {
	for _, script := range []*lua.Script{lua.FairLockAcquire, lua.FairLockLeave} {
		for _, act := range append([]redistest.Act{redistest.Late, redistest.Drop}, faults...) {
			for _, held := range []bool{true, false} {
				if !held && script == lua.FairLockLeave {
					continue // nobody leaves
				}
				t.Run(fmt.Sprint(script.Name, "/", act, "/", held), func(t *testing.T) {
					t.Parallel()
					r := newRig(t) // of its own: the hook is one
					a, b := newClient(t, r.direct), r.client(t)
					var h *latchkey.Hold
					if held {
						h = locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context()))
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					before := r.Count(act)
					r.on(1, script, act)
					got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(b, "f").Lock(ctx) })
					if script == lua.FairLockLeave && held {
						waiting(t, b, 1)
					} else {
						time.Sleep(rand.N(40 * time.Millisecond))
					}
					cancel()
					o := locktest.Within(t, got, readTimeout+time.Second)
					if o.Err == nil {
						unlock(t, o.Hold)
					} else {
						require.ErrorIs(t, o.Err, context.Canceled)
					}
					if held && script == lua.FairLockLeave {
						require.Equal(t, before+1, r.Count(act), "the fault did not happen")
					} // else it may have given up before its request was sent
					require.Less(t, time.Since(o.At), time.Second)
					redistest.Until(t, "the place to be given up", func() bool { return len(queued(t, r.direct, "f")) == 0 })
					time.Sleep(2 * readTimeout) // what was held back comes now
					redistest.Until(t, "what came late to be given up", func() bool { return len(queued(t, r.direct, "f")) == 0 })
					if held {
						unlock(t, h)
					}
					nothing(t, r.direct)
					unlock(t, locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context())))
				})
			}
		}
	}
}

// A place whose waiter could not leave, although its client lives on, is
// discovered when its turn comes. It costs no more than that.
func TestStrayPlace(t *testing.T) {
	r := newRig(t)
	a := newClient(t, r.direct)
	b := newClient(t, r.direct, latchkey.WithRecheck(200*time.Millisecond))
	h := locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context()))
	stray := b.ID() + ":99999999"
	require.NoError(t, r.direct.RPush(t.Context(), queueKey("f"), stray).Err())
	require.NoError(t, r.direct.ZAdd(t.Context(), scoresKey("f"), redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: stray}).Err())
	got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(b, "f").Lock(t.Context()) })
	waiting(t, b, 1)
	// Before b listens it would not be told that it was given the lock.
	channel := "redisson_lock__channel:{f}:" + b.ID()
	redistest.Until(t, "a listener", func() bool { return r.direct.PubSubNumSub(t.Context(), channel).Val()[channel] == 1 })
	unlock(t, h)
	o := locktest.Within(t, got, 4*time.Second)
	require.NoError(t, o.Err)
	unlock(t, o.Hold)
	require.Empty(t, r.direct.Keys(t.Context(), "*").Val())
}

// Random faults, cancellations and waits over three clients: there are never
// two holders, no waiter is stuck, and nothing is left behind.
func TestFaultsAtRandom(t *testing.T) {
	r := newRig(t)
	r.HoldFor(30 * time.Millisecond)
	var on atomic.Bool
	on.Store(true)
	r.OnCommand(func(args []string) redistest.Act {
		if len(args) < 2 || !on.Load() || !strings.HasPrefix(strings.ToLower(args[0]), "eval") || rand.IntN(20) > 0 {
			return redistest.Pass
		}
		act := []redistest.Act{
			redistest.LoseRST, redistest.Hold, redistest.RefuseRST, redistest.Late, redistest.Twice,
		}[rand.IntN(5)]
		if act == redistest.Twice && args[1] == lua.FairLockRelease.SHA {
			return redistest.Pass // it looks like a loss, see above
		}
		return act
	})
	var wg sync.WaitGroup
	var inside, clashes, served atomic.Int64
	for range 3 {
		c := r.client(t, latchkey.WithRecheck(300*time.Millisecond))
		l := fairlock.New(c, "f")
		for range 12 {
			wg.Go(func() {
				for range 15 {
					ctx, cancel := context.WithCancel(context.Background())
					switch rand.IntN(4) {
					case 0:
						ctx, cancel = context.WithTimeout(ctx, rand.N(50*time.Millisecond))
					case 1:
						ctx, cancel = context.WithTimeout(ctx, rand.N(500*time.Millisecond))
					}
					h, err := l.Lock(ctx)
					cancel()
					if err != nil {
						continue
					}
					if inside.Add(1) != 1 {
						clashes.Add(1)
					}
					served.Add(1)
					inside.Add(-1)
					assert.NoError(t, h.Unlock(context.Background()))
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(40 * time.Second):
		require.FailNow(t, "stuck", "%v %v", queued(t, r.direct, "f"), r.direct.HGetAll(context.Background(), "f").Val())
	}
	on.Store(false)
	require.Zero(t, clashes.Load())
	t.Log(served.Load(), "served")
	nothing(t, r.direct)
}

// A repeated request that arrives after its holder has had the lock and has
// given it back leaves neither a hold nor a place.
func TestFaultsLateRepetition(t *testing.T) {
	for _, held := range []bool{true, false} {
		r := newRig(t)
		r.HoldFor(3 * readTimeout)
		a, b := newClient(t, r.direct), r.client(t)
		var h *latchkey.Hold
		if held {
			h = locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context()))
		}
		r.on(1, lua.FairLockAcquire, redistest.Late)
		got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(b, "f").Lock(t.Context()) })
		if held {
			redistest.Until(t, "the second request", func() bool { return len(queued(t, r.direct, "f")) == 1 })
			unlock(t, h)
		}
		o := locktest.Within(t, got, 3*time.Second)
		require.NoError(t, o.Err)
		unlock(t, o.Hold)
		other := locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context())) // so that what comes late would queue
		redistest.Until(t, "it to come late", func() bool { return r.Count(redistest.Pass) > 0 && r.Count(redistest.Late) == 1 })
		time.Sleep(4 * readTimeout)
		redistest.Until(t, "the place to be given up", func() bool { return len(queued(t, r.direct, "f")) == 0 })
		unlock(t, other)
		nothing(t, r.direct)
	}
}

// An Unlock after a loss, whose request arrives late, does not free the lock if
// the same holder has re-entered it meanwhile.
func TestFaultsLateUnlockAfterLoss(t *testing.T) {
	r := newRig(t)
	r.HoldFor(0)
	l := fairlock.New(r.client(t), "f")
	h := locktest.Must(t)(l.Lock(t.Context(), latchkey.Lease(time.Second)))
	var free atomic.Bool
	late := false
	r.OnCommand(func(args []string) redistest.Act {
		switch {
		case !strings.EqualFold(args[0], "evalsha"):
		case args[1] == lua.FairLockAcquire.SHA && !free.Load():
			return redistest.RefuseRST
		case args[1] == lua.FairLockRelease.SHA && !late:
			late = true
			return redistest.Late
		}
		return redistest.Pass
	})
	again := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(context.WithoutCancel(h.Context())) })
	redistest.Until(t, "the re-entry to be under way", func() bool { return r.Count(redistest.RefuseRST) > 0 })
	<-h.Lost()
	require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)
	require.EqualValues(t, 1, r.Count(redistest.Late))
	free.Store(true)
	o := locktest.Within(t, again, 4*time.Second)
	require.NoError(t, o.Err)
	r.server.Do(t, "CONFIG", "RESETSTAT")
	r.Release()
	redistest.Until(t, "it to come late", func() bool {
		return strings.Contains(r.direct.Info(t.Context(), "commandstats").Val(), "cmdstat_evalsha:")
	})
	require.EqualValues(t, 1, r.direct.Exists(t.Context(), "f").Val())
	unlock(t, o.Hold)
}

// A lock under HoldAtLeast stays closed for its time even if the hold was lost
// only on the client's side. Unlock then unlocks it.
func TestFaultsUnlockAfterLossUnderHoldAtLeast(t *testing.T) {
	r := newRig(t)
	c := r.client(t, latchkey.WithWatchdogTimeout(time.Second))
	h := locktest.Must(t)(fairlock.New(c, "f").Lock(t.Context(), latchkey.HoldAtLeast(time.Minute)))
	r.on(1000, lua.RLockRenew, redistest.Swallow)
	ctx, cancel := context.WithTimeout(t.Context(), readTimeout)
	defer cancel()
	require.Error(t, h.Extend(ctx, time.Hour)) // done, but nobody hears of it
	<-h.Lost()
	r.OnCommand(nil)
	require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)
	require.Greater(t, r.direct.PTTL(t.Context(), "f").Val(), 30*time.Second)
}
