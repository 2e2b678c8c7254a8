package faults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// prompt is how soon a call returns when its context has ended.
const prompt = 100*time.Millisecond + faultNoise

// A stage is a point at which the end of a context can interrupt a Lock of "a".
type stage struct {
	name string
	// enter makes Redis so that a Lock gets no further than the stage, and
	// returns how to see that it is there and how to let Redis go on.
	enter func(t *testing.T, r *faultRig, rdb *redis.Client) (there func() bool, leave func())
}

// sends returns a function that reports whether rdb's only connection is in
// use.
func sends(rdb *redis.Client) func() bool {
	return func() bool { s := rdb.PoolStats(); return s.TotalConns == 1 && s.IdleConns == 0 }
}

// heldElsewhere makes another holder hold "a" and returns how to end that.
func heldElsewhere(t *testing.T, r *faultRig) func() {
	ctx := context.Background()
	require.NoError(t, r.direct.HSet(ctx, "a", "somebody:1", 1).Err())
	require.NoError(t, r.direct.PExpire(ctx, "a", time.Minute).Err())
	return func() { require.NoError(t, r.direct.Del(ctx, "a").Err()) }
}

var stages = []stage{
	{"waiting for a connection", func(t *testing.T, r *faultRig, rdb *redis.Client) (func() bool, func()) {
		blocked := make(chan error, 1)
		r.proxies[0].OnNext(1, "ping", redistest.Hold)
		go func() { blocked <- rdb.Ping(context.Background()).Err() }()
		redistest.Until(t, "the pool to be used up", func() bool { return r.count(redistest.Hold) == 1 })
		return func() bool { return rdb.PoolStats().PendingRequests > 0 }, func() {
			r.heal()
			require.NoError(t, <-blocked)
		}
	}},
	{"in a black hole", func(_ *testing.T, r *faultRig, rdb *redis.Client) (func() bool, func()) {
		r.proxies[0].Mute(true)
		return sends(rdb), func() { r.proxies[0].Mute(false) }
	}},
	{"at a frozen server", func(_ *testing.T, r *faultRig, rdb *redis.Client) (func() bool, func()) {
		r.servers[0].Freeze()
		return sends(rdb), r.servers[0].Thaw
	}},
	{"granted unheard", func(_ *testing.T, r *faultRig, _ *redis.Client) (func() bool, func()) {
		r.on(1, lua.RLockAcquire, redistest.Hold)
		return func() bool { return r.count(redistest.Hold) == 1 }, r.heal
	}},
	{"subscribing", func(t *testing.T, r *faultRig, _ *redis.Client) (func() bool, func()) {
		end := heldElsewhere(t, r)
		dropped := make(chan struct{}, 100)
		r.proxies[0].OnMessage(func(kind, _, _ string) bool {
			if kind == "subscribe" {
				dropped <- struct{}{}
				return false
			}
			return true
		})
		return func() bool { return len(dropped) > 0 }, func() {
			r.proxies[0].OnMessage(nil)
			end()
		}
	}},
	{"waiting", func(t *testing.T, r *faultRig, _ *redis.Client) (func() bool, func()) {
		end := heldElsewhere(t, r)
		confirmed := make(chan struct{}, 100)
		r.proxies[0].OnMessage(func(string, string, string) bool {
			confirmed <- struct{}{}
			return true
		})
		return func() bool { return len(confirmed) > 0 }, end
	}},
	{"waiting at a frozen server", func(t *testing.T, r *faultRig, _ *redis.Client) (func() bool, func()) {
		end := heldElsewhere(t, r)
		confirmed := make(chan struct{}, 100)
		r.proxies[0].OnMessage(func(string, string, string) bool {
			confirmed <- struct{}{}
			return true
		})
		return func() bool {
				if len(confirmed) == 0 {
					return false
				}
				r.servers[0].Freeze()
				return true
			}, func() {
				r.servers[0].Thaw()
				end()
			}
	}},
}

// Not parallel: it counts goroutines.
func TestFaultContextEndsAtEachStage(t *testing.T) {
	redistest.HoldsCommands(t)
	for _, s := range stages {
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			t.Run(s.name+"/"+end.Error(), func(t *testing.T) {
				r := newFaultRig(t)
				present := goleak.IgnoreCurrent()
				rdb := redis.NewClient(redistest.AsUser(&redis.Options{Addr: r.proxies[0].Addr(), PoolSize: 1}))
				defer rdb.Close()
				require.NoError(t, rdb.Ping(t.Context()).Err())
				c := latchkey.New(rdb)
				there, leave := s.enter(t, r, rdb)

				ctx, cancel := context.WithCancel(t.Context())
				ended := time.Now()
				if end == context.DeadlineExceeded {
					ended = ended.Add(400 * time.Millisecond)
					ctx, cancel = context.WithDeadline(t.Context(), ended)
				}
				defer cancel()
				res := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "a").Lock(ctx) })
				redistest.Until(t, "the stage", there)
				require.Empty(t, res)
				if end == context.Canceled {
					ended = time.Now()
					cancel()
				}
				got := locktest.Within(t, res, 4*time.Second)
				require.Less(t, got.At.Sub(ended), prompt)
				require.ErrorIs(t, got.Err, end)
				require.NotErrorIs(t, got.Err, latchkey.ErrNotAcquired)
				require.Nil(t, got.Hold)

				leave()
				r.gone(t, 2500*time.Millisecond)
				r.quiet(t, c)
				require.NoError(t, c.Close())
				require.NoError(t, rdb.Close())
				redistest.Until(t, "the goroutines to end", func() bool { return r.proxies[0].Conns() == 0 })
				require.NoError(t, goleak.Find(present))
				r.free(t, "a")
			})
		}
	}
}

func TestFaultContextEndedBefore(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0)
	l := rlock.New(c, "a")
	before := r.commands("")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	past, cancel2 := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel2()
	for ctx, want := range map[context.Context]error{cancelled: context.Canceled, past: context.DeadlineExceeded} {
		for _, acquire := range []func(context.Context, ...latchkey.LockOption) (*latchkey.Hold, error){l.Lock, l.TryLock} {
			h, err := acquire(ctx)
			require.Nil(t, h)
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, latchkey.ErrNotAcquired)
			require.False(t, maybeApplied(t, err))
		}
	}
	require.Equal(t, before, r.commands(""), "something was sent")
	require.Zero(t, c.Stats().Waiting)
	r.free(t, "a")
}

// Wait bounds a TryLock as a context does, whatever Redis does.
func TestFaultWaitIsABound(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0)
	l := rlock.New(c, "a")
	cancelable, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, ctx := range map[string]context.Context{"background": context.Background(), "cancelable": cancelable} {
		r.servers[0].Freeze()
		start := time.Now()
		h, err := l.TryLock(ctx, latchkey.Wait(200*time.Millisecond))
		took := time.Since(start)
		r.servers[0].Thaw()
		require.Nil(t, h)
		require.ErrorIs(t, err, latchkey.ErrNotAcquired, name)
		require.True(t, maybeApplied(t, err), name)
		require.Less(t, took, 200*time.Millisecond+prompt, name)
		r.gone(t, time.Second)
	}
	r.quiet(t, c)
	r.free(t, "a")
}

func TestFaultUnlockWithEndedContext(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	h, err := rlock.New(c, "a").Lock(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, h.Unlock(ctx))
	r.free(t, "a")
}

// An Unlock that Redis does not answer ends with the unlock timeout, and may be
// called again.
func TestFaultUnlockAtSilentServer(t *testing.T) {
	for _, timeout := range []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond} {
		for _, silence := range []string{"frozen", "black hole", "reply lost for good"} {
			t.Run(fmt.Sprint(timeout, " ", silence), func(t *testing.T) {
				t.Parallel()
				r := newFaultRig(t)
				c := r.client(t, 0, latchkey.WithUnlockTimeout(timeout))
				l := rlock.New(c, "a")
				h, err := l.Lock(t.Context())
				require.NoError(t, err)
				hold := h.Context()
				var back func()
				switch silence {
				case "frozen":
					r.servers[0].Freeze()
					back = r.servers[0].Thaw
				case "black hole":
					r.proxies[0].Mute(true)
					back = func() { r.proxies[0].Mute(false) }
				default:
					r.on(1<<30, lua.RLockRelease, redistest.Swallow)
					back = r.heal
				}
				start := time.Now()
				err = h.Unlock(t.Context())
				took := time.Since(start)
				back()
				require.Error(t, err)
				require.Less(t, took, timeout+faultNoise)
				require.GreaterOrEqual(t, took, timeout/2)
				require.True(t, maybeApplied(t, err))
				require.NotErrorIs(t, err, latchkey.ErrNotHeld)
				require.ErrorIs(t, hold.Err(), context.Canceled)
				require.Zero(t, c.Stats().Held)
				if silence == "reply lost for good" {
					require.Positive(t, r.count(redistest.Swallow))
				}

				require.NoError(t, h.Unlock(t.Context()), "again, with the server back")
				require.Empty(t, r.keys(t))
				require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrNotHeld)
				r.free(t, "a")
			})
		}
	}
}

// A second Unlock does not take away a new hold of the same holder.
func TestFaultSecondUnlockSparesNextHold(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0, latchkey.WithUnlockTimeout(200*time.Millisecond))
	ctx := latchkey.WithHolder(t.Context())
	l := rlock.New(c, "a")
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	r.on(1<<30, lua.RLockRelease, redistest.Drop)
	require.True(t, maybeApplied(t, h.Unlock(ctx)))
	require.Positive(t, r.count(redistest.Drop))
	r.heal()
	next, err := l.Lock(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, h.Unlock(ctx), latchkey.ErrNotHeld)
	require.Equal(t, map[string]string{next.HolderID(): "1"}, r.fields(t, "a"))
	require.NoError(t, next.Unlock(ctx))
	r.free(t, "a")
}

// Close does not wait for a silent Redis, whatever is under way.
func TestFaultCloseAtSilentServer(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	r := newFaultRig(t)
	other := r.holder(t, "busy")
	rdb := r.dial(t, redis.UniversalOptions{}).(*redis.Client)
	c := locktest.NewClient(t, rdb, latchkey.WithUnlockTimeout(timeout))
	var held []*latchkey.Hold
	for i := range 50 {
		h, err := rlock.New(c, fmt.Sprint("held", i)).Lock(t.Context())
		require.NoError(t, err)
		held = append(held, h)
	}
	hold := held[0].Context()
	var calls []<-chan locktest.Outcome
	ran := r.ran(t)
	for i, ctx := range []context.Context{context.Background(), t.Context()} {
		calls = append(calls, locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "busy").Lock(ctx) }))
		// The first one asks, listens and asks again; who comes behind it does not ask.
		redistest.Until(t, "the waiter to sleep", func() bool {
			return c.Stats().Waiting == i+1 && r.commands("subscribe") == 1 && r.ran(t) >= ran+2
		})
	}
	r.servers[0].Freeze()
	sent := r.commands("evalsha")
	inFlight := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "new").Lock(t.Context()) })
	redistest.Until(t, "the request to be under way", func() bool { return r.commands("evalsha") > sent })
	start := time.Now()
	err := c.Close()
	took := time.Since(start)
	for _, call := range append(calls, inFlight) {
		got := locktest.Within(t, call, 4*time.Second)
		require.ErrorIs(t, got.Err, latchkey.ErrClosed)
		require.Less(t, got.At.Sub(start), prompt)
	}
	r.servers[0].Thaw()
	require.Error(t, err, "it could not give back")
	require.Less(t, took, timeout+2*time.Second+2*faultNoise)
	require.ErrorIs(t, context.Cause(hold), latchkey.ErrClosed)
	select {
	case <-held[0].Lost():
		require.Fail(t, "it was not lost")
	default:
	}
	require.NoError(t, other.Unlock(t.Context()))
	_, err = rlock.New(c, "busy").Lock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrClosed)
}

// Close ends every waiting call at once, including a call that nobody can
// cancel, and gives back what is held.
func TestFaultCloseEndsWaiters(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	other := r.holder(t, "a")
	c := r.client(t, 0)
	_, err := rlock.New(c, "mine").Lock(t.Context())
	require.NoError(t, err)
	const n = 100
	var wg sync.WaitGroup
	results := make(chan locktest.Outcome, n)
	for range n {
		wg.Go(func() {
			h, err := rlock.New(c, "a").Lock(context.Background())
			results <- locktest.Outcome{Hold: h, Err: err, At: time.Now()}
		})
	}
	redistest.Until(t, "the waiters", func() bool { return c.Stats().Waiting == n })
	start := time.Now()
	require.NoError(t, c.Close())
	require.Less(t, time.Since(start), time.Second)
	for range n {
		got := locktest.Within(t, results, 4*time.Second)
		require.ErrorIs(t, got.Err, latchkey.ErrClosed)
		require.Less(t, got.At.Sub(start), prompt)
	}
	wg.Wait()
	require.Empty(t, r.fields(t, "mine"))
	r.quiet(t, c)
	require.NoError(t, other.Unlock(t.Context()))
	r.free(t, "a", "mine")
}

// An Unlock that gets no turn, because another call of its holder waits for a
// reply, fails like any other Unlock: the hold is no longer renewed, and Unlock
// may be called again.
func TestFaultUnlockBehindReentry(t *testing.T) {
	redistest.HoldsCommands(t)
	const unlockTimeout, lease = 300 * time.Millisecond, time.Second
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("again=%v", again), func(t *testing.T) {
			t.Parallel()
			r := newFaultRig(t)
			reason := make(chan latchkey.LossReason, 1)
			c := r.client(t, 0, latchkey.WithUnlockTimeout(unlockTimeout), latchkey.WithWatchdogTimeout(lease),
				latchkey.WithObserver(latchkey.Observer{
					Lost: func(_, _ string, _ time.Duration, why latchkey.LossReason) { reason <- why },
				}))
			l := rlock.New(c, "a")
			ctx := latchkey.WithHolder(t.Context())
			h, err := l.Lock(ctx)
			require.NoError(t, err)
			r.on(1, lua.RLockAcquire, redistest.Drop)
			waiting, cancel := context.WithCancel(ctx)
			defer cancel()
			reentry := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(waiting) })
			redistest.Until(t, "the re-entry to ask", func() bool { return r.count(redistest.Drop) == 1 })

			err = h.Unlock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.True(t, maybeApplied(t, err))
			require.ErrorIs(t, h.Context().Err(), context.Canceled)
			cancel()
			require.ErrorIs(t, locktest.Within(t, reentry, 4*time.Second).Err, context.Canceled)
			if again {
				require.NoError(t, h.Unlock(ctx))
			} else {
				select {
				case <-h.Lost():
				case <-time.After(2 * lease):
					require.Fail(t, "it is renewed")
				}
				require.Equal(t, latchkey.LossExpired, <-reason)
				r.gone(t, lease)
			}
			require.Zero(t, c.Stats().Held)
			r.free(t, "a")
		})
	}
}

// Without a read timeout the deadline of a context still bounds a command, if
// go-redis heeds it: a caller that has gone must not keep a connection.
func TestFaultNoReadTimeout(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	rdb := r.dial(t, redis.UniversalOptions{ReadTimeout: -1, PoolSize: 2, ContextTimeoutEnabled: true}).(*redis.Client)
	c := locktest.NewClient(t, rdb)
	l := rlock.New(c, "a")
	h, err := l.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	r.proxies[0].Mute(true)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err = l.Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
	}
	redistest.Until(t, "connections", func() bool { return rdb.PoolStats().TotalConns == 0 })
	r.proxies[0].Mute(false)

	// Nor does one who waits already, whose requests have no bound of their own.
	h = locktest.MustLock(t, rlock.New(locktest.NewClient(t, redistest.User(t, r.direct)), "a"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := rlock.New(locktest.NewClient(t, rdb, latchkey.WithRecheck(100*time.Millisecond)), "a").Lock(ctx)
		ended <- err
	}()
	redistest.Until(t, "the waiter to ask again and again", func() bool { return r.proxies[0].Commands("evalsha") > 6 })
	var dropped atomic.Int64
	r.proxies[0].OnCommand(func(args []string) redistest.Act {
		if strings.EqualFold(args[0], "evalsha") {
			dropped.Add(1)
			return redistest.Drop
		}
		return redistest.Pass
	})
	redistest.Until(t, "two requests without an answer", func() bool { return dropped.Load() == 2 }) // the first is inline
	cancel()
	require.ErrorIs(t, locktest.Within(t, ended, 5*time.Second), context.Canceled)
	redistest.Until(t, "connections", func() bool { s := rdb.PoolStats(); return s.TotalConns == s.IdleConns })
	locktest.MustUnlock(t, h)
}
