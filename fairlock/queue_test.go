package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

func newClient(t testing.TB, rdb redis.UniversalClient, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	c := latchkey.New(redistest.User(t, rdb), opts...)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// unlock unlocks h, which must still be held.
func unlock(t testing.TB, h *latchkey.Hold) {
	t.Helper()
	require.NoError(t, h.Unlock(context.Background()))
}

// waiting waits until n calls of c wait.
func waiting(t testing.TB, c *latchkey.Client, n int) {
	t.Helper()
	redistest.Until(t, fmt.Sprint(n, " waiters"), func() bool { return c.Stats().Waiting == n })
}

// nothing checks that no key is left.
func nothing(t testing.TB, rdb redis.UniversalClient) {
	t.Helper()
	redistest.Until(t, "no key to be left", func() bool { return len(rdb.Keys(t.Context(), "*").Val()) == 0 })
}

// queued returns the holders in the queue in Redis.
func queued(t testing.TB, rdb redis.UniversalClient, name string) []string {
	t.Helper()
	q, err := rdb.LRange(t.Context(), queueKey(name), 0, -1).Result()
	require.NoError(t, err)
	return q
}

// The label of a call that gives up is removed even if its holder continues to
// wait in another call.
func TestLabelOfOneWhoLeftAnother(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		l := fairlock.New(newClient(t, env.Client()), "f")
		h := locktest.Must(t)(fairlock.New(newClient(t, env.Client()), "f").Lock(t.Context()))
		me := latchkey.WithHolder(t.Context())
		ctx, cancel := context.WithCancel(me)
		labelled := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(ctx, latchkey.Label("z")) })
		synctest.Wait()
		plain := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(me) })
		synctest.Wait()
		cancel()
		require.ErrorIs(t, locktest.Within(t, labelled, time.Minute).Err, context.Canceled)
		unlock(t, h)
		unlock(t, locktest.Within(t, plain, time.Minute).Hold)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}

// The label of a call that continues to wait stays when another call of its
// holder gives up.
func TestLabelOfOneWhoStays(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		l := fairlock.New(newClient(t, env.Client()), "f")
		h := locktest.Must(t)(fairlock.New(newClient(t, env.Client()), "f").Lock(t.Context()))
		me := latchkey.WithHolder(t.Context())
		stays := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(me, latchkey.Label("stays")) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(me)
		leaves := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(ctx, latchkey.Label("leaves")) })
		synctest.Wait()
		cancel()
		require.ErrorIs(t, locktest.Within(t, leaves, time.Minute).Err, context.Canceled)
		require.Len(t, env.Redis.Keys(t.Context(), "latchkey_label:*").Val(), 1)
		unlock(t, h)
		unlock(t, locktest.Within(t, stays, time.Minute).Hold)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}

// The label of a waiter lasts as long as its place.
func TestLabelOfOneWhoWaitsForLong(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		l := fairlock.New(newClient(t, env.Client()), "f")
		h := locktest.Must(t)(fairlock.New(newClient(t, env.Client()), "f").Lock(t.Context()))
		waits := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context(), latchkey.Label("waits")) })
		for range 30 {
			env.Advance(time.Minute)
			require.Len(t, env.Redis.Keys(t.Context(), "latchkey_label:*").Val(), 1)
		}
		unlock(t, h)
		unlock(t, locktest.Within(t, waits, time.Minute).Hold)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}

// Waiters are granted the lock in the order in which Redis has queued them: no
// inversion among 3 clients × 50 goroutines that come at random.
func TestFirstComeFirstServed(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	m := s.Monitor(t)
	const clients, goroutines, rounds = 3, 50, 4
	var wg sync.WaitGroup
	var inside, clashes atomic.Int64
	for range clients {
		l := fairlock.New(newClient(t, s.Client(t)), "f")
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					time.Sleep(rand.N(20 * time.Millisecond)) // to come at any time
					h, err := l.Lock(context.Background())
					if !assert.NoError(t, err) {
						return
					}
					if inside.Add(1) != 1 {
						clashes.Add(1)
					}
					inside.Add(-1)
					assert.NoError(t, h.Unlock(context.Background()))
				}
			})
		}
	}
	wg.Wait()
	require.Zero(t, clashes.Load())
	s.Do(t, "ECHO", "done")
	var came, granted []string
	last, holds := "", 0
	queued := map[string]bool{}
	for _, l := range m.Lines() {
		switch {
		case !l.Script():
		case l.Name() == "rpush":
			came = append(came, l.Args[2])
			queued[l.Args[2]] = true
		case l.Name() == "hset" && l.Args[1] == "f":
			if l.Args[2] == last {
				continue // it was given the lock, and asks
			}
			last = l.Args[2]
			holds++
			if queued[last] {
				granted = append(granted, last)
			}
		}
	}
	require.Equal(t, clients*goroutines*rounds, holds)
	require.Greater(t, len(came), holds/2, "how many had to queue")
	require.Equal(t, came, granted, "the order of grants")
	require.Empty(t, rdb.Keys(t.Context(), "*").Val())
}

// Of 1,000 waiters a random half give up, by their context or their wait, and
// one of four clients dies with all its waiters. No other waiter is stuck, and
// nothing is left behind.
func TestHalfOfThemGiveUp(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	proxy := redistest.NewProxy(t, s.Addr)
	const each = 250
	option := fairlock.QueueTimeout(3 * time.Second)
	gateClient := newClient(t, rdb)
	gate := locktest.Must(t)(fairlock.New(gateClient, "f", option).Lock(t.Context()))

	var wg sync.WaitGroup
	var served, gaveUp, inside, clashes atomic.Int64
	dying, die := context.WithCancel(context.Background())
	defer die()
	var clients []*latchkey.Client
	for i := range 4 {
		var conn redis.UniversalClient = s.Client(t)
		ctx := context.Background()
		if i == 0 {
			conn = redis.NewClient(&redis.Options{Addr: proxy.Addr()})
			t.Cleanup(func() { _ = conn.Close() })
			ctx = dying
		}
		c := newClient(t, conn)
		clients = append(clients, c)
		l := fairlock.New(c, "f", option)
		for range each {
			wg.Go(func() {
				ctx := ctx
				var opts []latchkey.LockOption
				stays := rand.IntN(2) == 0
				switch {
				case stays:
				case rand.IntN(2) == 0:
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, rand.N(2*time.Second))
					defer cancel()
				default:
					opts = append(opts, latchkey.Wait(rand.N(2*time.Second)))
				}
				h, err := l.Lock(ctx, opts...)
				switch {
				case err == nil:
					if inside.Add(1) != 1 {
						clashes.Add(1)
					}
					inside.Add(-1)
					served.Add(1)
					assert.NoError(t, h.Unlock(context.Background()))
				case i == 0 || !stays:
					gaveUp.Add(1)
				default:
					assert.NoError(t, err, "one who stays")
				}
			})
		}
	}
	redistest.Until(t, "all to come", func() bool {
		n := 0
		for _, c := range clients {
			n += c.Stats().Waiting
		}
		return n+int(gaveUp.Load()) == 4*each
	})
	proxy.Mute(true) // a machine that is gone: its waiters stay in the queue
	die()
	unlock(t, gate)
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "somebody is stuck")
	}
	require.Zero(t, clashes.Load())
	require.EqualValues(t, 4*each, served.Load()+gaveUp.Load())
	require.Greater(t, served.Load(), int64(each), "how many were served")
	require.Greater(t, gaveUp.Load(), int64(each), "how many gave up")

	// What is left of the dead ones goes with whoever comes next.
	h := locktest.Must(t)(fairlock.New(gateClient, "f", option).Lock(t.Context()))
	unlock(t, h)
	nothing(t, rdb)
}

func TestTryLockDoesNotQueueOrBarge(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c, other := newClient(t, rdb), newClient(t, s.Client(t))
	l, l2 := fairlock.New(c, "f"), fairlock.New(other, "f")
	h := locktest.Must(t)(l.Lock(t.Context()))
	_, err := l2.TryLock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	require.Empty(t, queued(t, rdb, "f"))
	got := locktest.Later(func() (*latchkey.Hold, error) { return l2.Lock(t.Context()) })
	waiting(t, other, 1)
	require.Len(t, queued(t, rdb, "f"), 1)
	rdb.Del(t.Context(), "f") // free, but somebody waits
	_, err = l.TryLock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrNotHeld, "it is lost")
	o := locktest.Within(t, got, 4*time.Second) // and yet the head was woken
	require.NoError(t, o.Err)
	unlock(t, o.Hold)
	require.Empty(t, rdb.Keys(t.Context(), "*").Val())
}

// A waiter whose Wait is over leaves at once, and those behind it move up.
func TestWaitLeaves(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	l := fairlock.New(c, "f")
	h := locktest.Must(t)(l.Lock(t.Context()))
	first := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context(), latchkey.Wait(300*time.Millisecond)) })
	waiting(t, c, 1)
	second := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
	waiting(t, c, 2)
	before, err := l.Waiters(t.Context())
	require.NoError(t, err)
	require.Len(t, before, 2)
	require.InDelta(t, 30.3, time.Until(before[0].Deadline).Seconds(), 1)
	require.InDelta(t, 630, time.Until(before[1].Deadline).Seconds(), 1)
	require.ErrorIs(t, locktest.Within(t, first, 2*time.Second).Err, latchkey.ErrNotAcquired)
	after, err := l.Waiters(t.Context())
	require.NoError(t, err)
	require.Len(t, after, 1, "it has left when it returns")
	require.Equal(t, before[1].ID, after[0].ID)
	unlock(t, h)
	unlock(t, locktest.Within(t, second, 4*time.Second).Hold)
	require.Empty(t, rdb.Keys(t.Context(), "*").Val())
}

// FQ-08: the next waiter gives up while the lock is free. Its client does not
// receive the message of its turn, so it blocks the queue until it leaves.
func TestHeadThatLeavesWakesTheNext(t *testing.T) {
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	proxy.OnMessage(func(kind, _, _ string) bool { return kind != "message" })
	conn := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = conn.Close() })
	a, b, c := newClient(t, s.Client(t)), newClient(t, conn), newClient(t, s.Client(t))
	h := locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	deaf := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(b, "f").Lock(ctx) })
	waiting(t, b, 1)
	redistest.Until(t, "the deaf one to listen", func() bool { return b.Stats().Subscriptions == 2 })
	next := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(c, "f").Lock(t.Context()) })
	waiting(t, c, 1)
	unlock(t, h)
	select {
	case <-deaf:
		require.Fail(t, "the deaf one has heard")
	case <-next:
		require.Fail(t, "the next one has come before its turn")
	case <-time.After(100 * time.Millisecond):
	}
	quiet(t, proxy)
	cancel()
	require.ErrorIs(t, locktest.Within(t, deaf, 4*time.Second).Err, context.Canceled)
	o := locktest.Within(t, next, 4*time.Second)
	require.NoError(t, o.Err)
	unlock(t, o.Hold)
	nothing(t, s.Client(t))
}

// No message announces the end of a lease, and the next waiter may have asked
// last under an earlier, longer lease. A late Unlock wakes it.
func TestUnlockAfterLossWakesTheNext(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	proxy := redistest.NewProxy(t, s.Addr)
	conn := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = conn.Close() })
	ofGo, ofJava := redistest.User(t, s.Client(t)), s.Client(t)
	var asked atomic.Int32
	locktest.AfterScripts(ofGo, func(any) { asked.Add(1) })
	locktest.AfterScripts(ofJava, func(any) { asked.Add(1) })
	a, b, c := newClient(t, s.Client(t)), newClient(t, conn), newClient(t, ofGo)
	for what, next := range map[string]func() error{
		"Go": func() error {
			h, err := fairlock.New(c, "Go").Lock(t.Context())
			if err != nil {
				return err
			}
			return h.Unlock(t.Context())
		},
		"Java": func() error {
			j := &java{t: t, rdb: ofJava, name: "Java", owner: "uuid:1"}
			if err := j.lock(); err != nil {
				return err
			}
			j.unlock()
			return nil
		},
	} {
		// lose has the holder in ctx lose the lock, and waits for next, which is woken.
		lose := func(t *testing.T, ctx context.Context, unlocks func(*latchkey.Hold)) {
			h := locktest.Must(t)(fairlock.New(a, what).Lock(t.Context()))
			short := locktest.Later(func() (*latchkey.Hold, error) {
				return fairlock.New(b, what).Lock(ctx, latchkey.Lease(300*time.Millisecond))
			})
			redistest.Until(t, "the first in the queue", func() bool { return len(queued(t, rdb, what)) == 1 })
			before := asked.Load()
			woken := locktest.Later(func() (*latchkey.Hold, error) { return nil, next() })
			redistest.Until(t, "the second, which listens, to have asked again", func() bool { return asked.Load() == before+2 })
			require.Len(t, queued(t, rdb, what), 2)
			unlock(t, h)
			lost := locktest.Within(t, short, 4*time.Second).Hold
			<-lost.Lost()
			redistest.Until(t, "the lease to end", func() bool { return rdb.Exists(t.Context(), what).Val() == 0 })
			unlocks(lost)
			require.NoError(t, locktest.Within(t, woken, 4*time.Second).Err)
		}
		t.Run(what, func(t *testing.T) {
			unlocks := func(lost *latchkey.Hold) { require.ErrorIs(t, lost.Unlock(t.Context()), latchkey.ErrLeaseLost) }
			var late *latchkey.Hold
			lose(t, t.Context(), func(lost *latchkey.Hold) { late = lost; unlocks(lost) })
			scripts := func() int64 { return proxy.Commands("evalsha") + proxy.Commands("eval") }
			sent := scripts()
			unlocks(late)
			require.Equal(t, sent, scripts(), "Redis knows it already")
		})
		t.Run(what+", by the holder", func(t *testing.T) {
			ctx := latchkey.WithHolder(t.Context())
			lose(t, ctx, func(*latchkey.Hold) {
				require.ErrorIs(t, fairlock.New(b, what).Unlock(ctx), latchkey.ErrNotHeld)
			})
		})
	}
}

// quiet waits until nothing has been sent for a while, so that everything after
// a subscription is done.
func quiet(t testing.TB, p *redistest.Proxy) {
	t.Helper()
	last, since := p.Commands(""), time.Now()
	redistest.Until(t, "silence", func() bool {
		if n := p.Commands(""); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 50*time.Millisecond
	})
}

// A message that is lost costs one recheck, for the first of a client's waiters
// and for those behind it.
func TestLostMessagesCostARecheck(t *testing.T) {
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	proxy.OnMessage(func(kind, _, _ string) bool { return kind != "message" })
	conn := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = conn.Close() })
	const recheck = 200 * time.Millisecond
	deaf := newClient(t, conn, latchkey.WithRecheck(recheck))
	a := newClient(t, s.Client(t))
	l := fairlock.New(deaf, "f")
	for range 3 {
		h := locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context()))
		var got []<-chan locktest.Outcome
		for i := range 3 {
			got = append(got, locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) }))
			waiting(t, deaf, i+1)
		}
		redistest.Until(t, "it to listen", func() bool { return deaf.Stats().Subscriptions >= 2 })
		quiet(t, proxy)
		start := time.Now()
		unlock(t, h)
		for _, ch := range got {
			o := locktest.Within(t, ch, 2*time.Second)
			require.NoError(t, o.Err)
			unlock(t, o.Hold)
		}
		require.Less(t, time.Since(start), 3*recheck)
	}
	require.Positive(t, deaf.Stats().Rechecked)
}

// Without pub/sub everything works by polling, which only the first waiter of a
// client does.
func TestPolling(t *testing.T) {
	s := redistest.Start(t)
	a := newClient(t, s.Client(t), latchkey.WithPubSub(latchkey.Polling))
	b := newClient(t, s.Client(t), latchkey.WithPubSub(latchkey.Polling))
	h := locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context()))
	var got []<-chan locktest.Outcome
	for i := range 20 {
		got = append(got, locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(b, "f").Lock(t.Context()) }))
		waiting(t, b, i+1)
	}
	start := time.Now()
	unlock(t, h)
	for _, ch := range got {
		o := locktest.Within(t, ch, 2*time.Second)
		require.NoError(t, o.Err)
		unlock(t, o.Hold)
	}
	require.Less(t, time.Since(start), time.Second)
}

func TestReentryWhileOthersQueue(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	l := fairlock.New(c, "f")
	outer := locktest.Must(t)(l.Lock(t.Context()))
	got := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
	waiting(t, c, 1)
	inner := locktest.Must(t)(l.Lock(outer.Context()))
	again := locktest.Must(t)(l.TryLock(inner.Context()))
	n, err := l.HoldCount(outer.Context())
	require.NoError(t, err)
	require.Equal(t, 3, n)
	unlock(t, again)
	unlock(t, outer)
	require.Len(t, queued(t, rdb, "f"), 1)
	unlock(t, inner)
	unlock(t, locktest.Within(t, got, 4*time.Second).Hold)
	require.Empty(t, rdb.Keys(t.Context(), "*").Val())

	n2 := fairlock.New(c, "f", fairlock.NonReentrant())
	h := locktest.Must(t)(n2.Lock(t.Context()))
	_, err = n2.Lock(h.Context())
	require.ErrorIs(t, err, latchkey.ErrReentry)
	unlock(t, h)
}

// Two goroutines of one holder share one place. If one gives up, the other
// keeps the place.
func TestOneHolderTwice(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	l := fairlock.New(c, "f")
	h := locktest.Must(t)(l.Lock(t.Context()))
	ctx := latchkey.WithHolder(t.Context())
	cancelled, cancel := context.WithCancel(ctx)
	one := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(cancelled) })
	waiting(t, c, 1)
	two := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(ctx) })
	three := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(ctx) })
	waiting(t, c, 3)
	require.Len(t, queued(t, rdb, "f"), 1)
	cancel()
	require.ErrorIs(t, locktest.Within(t, one, 4*time.Second).Err, context.Canceled)
	require.Len(t, queued(t, rdb, "f"), 1)
	unlock(t, h)
	a, b := locktest.Within(t, two, 4*time.Second), locktest.Within(t, three, time.Second)
	require.NoError(t, errors.Join(a.Err, b.Err))
	n, err := l.HoldCount(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	unlock(t, a.Hold)
	unlock(t, b.Hold)
	nothing(t, rdb)
}

func TestWaitersForceUnlockAndDelete(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c, other := newClient(t, rdb), newClient(t, s.Client(t), latchkey.WithRecheck(100*time.Millisecond))
	l, l2 := fairlock.New(c, "f"), fairlock.New(other, "f")
	w, err := l.Waiters(t.Context())
	require.NoError(t, err)
	require.Empty(t, w)
	h := locktest.Must(t)(l.Lock(t.Context()))
	var got []<-chan locktest.Outcome
	for i := range 3 {
		got = append(got, locktest.Later(func() (*latchkey.Hold, error) { return l2.Lock(t.Context()) }))
		waiting(t, other, i+1)
	}
	w, err = l.Waiters(t.Context())
	require.NoError(t, err)
	require.Len(t, w, 3)
	for i, x := range w {
		require.True(t, strings.HasPrefix(x.ID, other.ID()+":"), x.ID)
		require.InDelta(t, 30+300*float64(i+1), time.Until(x.Deadline).Seconds(), 2)
	}
	freed, err := l.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	o := locktest.Within(t, got[0], time.Second)
	require.NoError(t, o.Err)
	require.Equal(t, w[0].ID, o.Hold.HolderID())
	require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)

	was, err := l.Delete(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	require.ErrorIs(t, o.Hold.Unlock(t.Context()), latchkey.ErrLeaseLost)
	for range 2 { // whichever comes first then
		var o locktest.Outcome
		select {
		case o = <-got[1]:
		case o = <-got[2]:
		case <-time.After(2 * time.Second):
			require.FailNow(t, "stuck after Delete")
		}
		require.NoError(t, o.Err)
		unlock(t, o.Hold)
	}
	was, err = l.Delete(t.Context())
	require.NoError(t, err)
	require.False(t, was)
	nothing(t, rdb)
}

// Java and Go waiters share one queue and are served in its order.
func TestJavaInTheQueue(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	l := fairlock.New(c, "f")
	thread := func(n int) *java {
		return &java{t: t, rdb: rdb, name: "f", owner: fmt.Sprint("b8f2c1de-1111-4222-8333-444455556666:", n)}
	}
	var mu sync.Mutex
	var order []string
	var wg sync.WaitGroup
	served := func(who string) {
		mu.Lock()
		order = append(order, who)
		mu.Unlock()
	}
	var want []string
	h := locktest.Must(t)(l.Lock(t.Context()))
	for i := range 6 {
		who := fmt.Sprint("go ", i)
		wg.Go(func() {
			h, err := l.Lock(context.Background())
			if assert.NoError(t, err) {
				served(who)
				time.Sleep(50 * time.Millisecond) // a critical section
				assert.NoError(t, h.Unlock(context.Background()))
			}
		})
		waiting(t, c, i+1)
		j := thread(i)
		who2 := fmt.Sprint("java ", i)
		wg.Go(func() {
			if assert.NoError(t, j.lock()) {
				served(who2)
				time.Sleep(50 * time.Millisecond) // likewise
				assert.EqualValues(t, 1, j.unlock())
			}
		})
		redistest.Until(t, "java to queue", func() bool { return len(queued(t, rdb, "f")) == 2*i+2 })
		want = append(want, who, who2)
	}
	start := time.Now()
	unlock(t, h)
	wg.Wait()
	require.Equal(t, want, order)
	require.Less(t, time.Since(start), 2*time.Second, "nobody has slept through his turn")
	// Java came last, and knows nothing of our key, which expires.
	require.Equal(t, []string{clientsKey("f")}, rdb.Keys(t.Context(), "*").Val())
	require.Positive(t, rdb.PTTL(t.Context(), clientsKey("f")).Val())
}

// Java holds the lock, and a Go waiter gives up in the way that Java expects.
func TestJavaHoldsGoGivesUp(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	l := fairlock.New(c, "f")
	holder := &java{t: t, rdb: rdb, name: "f", owner: "uuid:1"}
	next := &java{t: t, rdb: rdb, name: "f", owner: "uuid:2"}
	require.EqualValues(t, -1, holder.acquire(javaWait))
	ctx, cancel := context.WithCancel(t.Context())
	got := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(ctx) })
	waiting(t, c, 1)
	next.acquire(javaWait)
	cancel()
	require.ErrorIs(t, locktest.Within(t, got, 4*time.Second).Err, context.Canceled)
	// A request that was on its way may have come after the first try to leave.
	redistest.Until(t, "the place to be given up", func() bool { return len(queued(t, rdb, "f")) == 1 })
	require.InDelta(t, float64(next.now()+330000), rdb.ZScore(t.Context(), scoresKey("f"), "uuid:2").Val(), 2000)
	require.EqualValues(t, 1, holder.unlock())
	require.EqualValues(t, -1, next.acquire(javaWait))

	// A Java waiter gives up before one of ours.
	three := &java{t: t, rdb: rdb, name: "f", owner: "uuid:3"}
	three.acquire(javaWait)
	got = locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
	waiting(t, c, 1)
	three.giveUp(javaWait)
	redistest.Until(t, "it to listen", func() bool { return c.Stats().Subscriptions == 2 })
	require.EqualValues(t, 1, next.unlock())
	o := locktest.Within(t, got, 4*time.Second)
	require.NoError(t, o.Err)
	unlock(t, o.Hold)
	redistest.Until(t, "no queue", func() bool { return rdb.Exists(t.Context(), queueKey("f"), scoresKey("f")).Val() == 0 })
}

// A holder works for an hour. Nobody, Java clients included, takes a waiter for
// dead, and waiting costs next to nothing.
func TestNobodyIsSweptInAnHour(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		const waiters = 10
		minutes := redistest.Many(60, 12)
		holder := latchkey.New(b.Client())
		defer holder.Close()
		h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		var clients []*latchkey.Client
		var got []<-chan locktest.Outcome
		for range 2 {
			c := latchkey.New(b.Client())
			defer c.Close()
			clients = append(clients, c)
		}
		for i := range waiters {
			l := fairlock.New(clients[i%2], "f")
			got = append(got, locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) }))
			synctest.Wait()
		}
		order := queued(t, b.Redis, "f")
		require.Len(t, order, waiters)
		before := b.Commands("evalsha")
		stranger := &java{t: t, rdb: b.Redis, name: "f", owner: "uuid:1"}
		for range minutes {
			b.Advance(time.Minute)
			require.Positive(t, stranger.acquire(javaWait)) // sweeps, as Java does, and queues
			stranger.giveUp(javaWait)
		}
		require.Equal(t, order, queued(t, b.Redis, "f"))
		scripts := float64(b.Commands("evalsha")-before) - 2*float64(minutes) // the stranger's
		perMinute := scripts / float64(minutes)
		require.Less(t, perMinute, 2*(60/5)*2.5+6+1, "scripts a minute: for two clients an ask and a keep every 5 s, and renewals")
		unlock(t, h)
		start := time.Now()
		for i, ch := range got {
			o := <-ch
			require.NoError(t, o.Err)
			require.Equal(t, order[i], o.Hold.HolderID())
			require.Equal(t, start, o.At, "at once")
			unlock(t, o.Hold)
		}
		synctest.Wait()
		require.Empty(t, b.Redis.Keys(t.Context(), "*").Val())
	})
}

// Java takes the lock many times in a row, after hours in which all scores
// would have expired. A living Go waiter behind it keeps its place.
func TestJavaTakesManyTimesAfterHours(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		holder, c := latchkey.New(b.Client()), latchkey.New(b.Client())
		defer holder.Close()
		defer c.Close()
		h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		const javas = 30
		threads := make([]*java, javas)
		for i := range threads {
			threads[i] = &java{t: t, rdb: b.Redis, name: "f", owner: fmt.Sprint("uuid:", i)}
			threads[i].acquire(javaWait)
			b.Advance(time.Second)
		}
		got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(c, "f").Lock(t.Context()) })
		synctest.Wait()
		// As long as they last: the first Java waiter is dead to Java after 330 s.
		b.Advance(280 * time.Second)
		unlock(t, h)
		for _, j := range threads {
			require.EqualValues(t, -1, j.acquire(javaWait), j.owner)
			require.EqualValues(t, 1, j.unlock())
		}
		synctest.Wait()
		o := <-got
		require.NoError(t, o.Err)
		unlock(t, o.Hold)
	})
}

// Waiters of a dead client cost seconds, wherever they stand. A waiter that
// dies as a Java client costs what is left of its deadline.
func TestDeadClients(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		holder, live := latchkey.New(b.Client()), latchkey.New(b.Client())
		defer holder.Close()
		defer live.Close()
		conn := b.Client()
		dead := latchkey.New(conn)
		h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		lock := func(ctx context.Context, c *latchkey.Client) <-chan locktest.Outcome {
			ch := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(c, "f").Lock(ctx) })
			synctest.Wait()
			return ch
		}
		var gone, got []<-chan locktest.Outcome
		for range redistest.Many(40, 10) {
			gone = append(gone, lock(ctx, dead))
		}
		got = append(got, lock(t.Context(), live))
		gone = append(gone, lock(ctx, dead))
		got = append(got, lock(t.Context(), live))
		b.Advance(time.Duration(redistest.Many(20, 6)) * time.Minute)
		b.Partition(conn)
		cancel()
		for _, ch := range gone {
			require.Error(t, (<-ch).Err)
		}
		died := time.Now()
		unlock(t, h) // the message goes to a dead one
		for _, ch := range got {
			o := <-ch
			require.NoError(t, o.Err)
			require.LessOrEqual(t, o.At.Sub(died), 15*time.Second+5*time.Second)
			unlock(t, o.Hold)
		}
		require.Empty(t, queued(t, b.Redis, "f"))

		// A Java client dies as the next one.
		h = locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		(&java{t: t, rdb: b.Redis, name: "f", owner: "uuid:1"}).acquire(javaWait)
		ch := lock(t.Context(), live)
		b.Advance(200 * time.Second)
		unlock(t, h)
		freed := time.Now()
		o := <-ch
		require.NoError(t, o.Err)
		require.InDelta(t, 130, o.At.Sub(freed).Seconds(), 0.1, "what was left of 330 s")
		unlock(t, o.Hold)
		require.Empty(t, b.Redis.Keys(t.Context(), "*").Val())
		_ = dead.Close()
	})
}

// FQ-04: a dead client costs at most a short QueueTimeout.
func TestShortQueueTimeout(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		option := fairlock.QueueTimeout(500 * time.Millisecond)
		holder, live := latchkey.New(b.Client()), latchkey.New(b.Client())
		defer holder.Close()
		defer live.Close()
		conn := b.Client()
		dead := latchkey.New(conn)
		h := locktest.Must(t)(fairlock.New(holder, "f", option).Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		var gone []<-chan locktest.Outcome
		for range 20 {
			gone = append(gone, locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(dead, "f", option).Lock(ctx) }))
		}
		synctest.Wait()
		got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(live, "f", option).Lock(t.Context()) })
		b.Advance(5 * time.Second) // FQ-01: longer than any deadline
		require.Len(t, queued(t, b.Redis, "f"), 21)
		b.Partition(conn)
		cancel()
		for _, ch := range gone {
			<-ch
		}
		died := time.Now()
		unlock(t, h)
		o := <-got
		require.NoError(t, o.Err)
		require.LessOrEqual(t, o.At.Sub(died), 700*time.Millisecond)
		unlock(t, o.Hold)
		_ = dead.Close()
		require.Empty(t, b.Redis.Keys(t.Context(), "*").Val())
	})
}

// Five hundred waiters of one client cost one request every 5 s, and one script
// for each hundred of them that are looked at then.
func TestWaitersCostNoPolling(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		holder, c := latchkey.New(b.Client()), latchkey.New(b.Client())
		defer holder.Close()
		defer c.Close()
		h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		waiters := redistest.Many(500, 100)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				if h, err := fairlock.New(c, "f").Lock(ctx); err == nil {
					_ = h.Unlock(t.Context())
				}
			})
		}
		b.Advance(time.Minute)
		require.Equal(t, waiters, c.Stats().Waiting)
		before, channels := b.Commands("evalsha"), b.Commands("subscribe")
		b.Advance(2 * time.Minute)
		require.LessOrEqual(t, b.Commands("evalsha")-before, int64(24*4+12+2))
		require.Equal(t, channels, b.Commands("subscribe"))
		require.LessOrEqual(t, c.Stats().Subscriptions, 2)
		cancel()
		wg.Wait()
		require.Empty(t, queued(t, b.Redis, "f"))
		unlock(t, h)
		b.Advance(time.Minute)
		require.Empty(t, b.Redis.Keys(t.Context(), "*").Val())
	})
}

// A waiter does not ask without end for a lock that is free while it is another
// waiter's turn.
func TestNotYourTurnDoesNotSpin(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := latchkey.New(b.Client())
		defer c.Close()
		require.EqualValues(t, -1, (&java{t: t, rdb: b.Redis, name: "f", owner: "uuid:1"}).acquire(javaWait))
		(&java{t: t, rdb: b.Redis, name: "f", owner: "uuid:2"}).acquire(javaWait)
		b.Redis.Del(t.Context(), "f")
		before := b.Commands("evalsha")
		start := time.Now()
		h := locktest.Must(t)(fairlock.New(c, "f").Lock(t.Context()))
		require.InDelta(t, 330, time.Since(start).Seconds(), 0.1)
		require.Less(t, b.Commands("evalsha")-before, int64(150))
		unlock(t, h)
	})
}

// A hundred holds, each for a moment, by a queue of waiters: at most 3 scripts
// each.
func TestCommandsPerHandOver(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client(t)), newClient(t, s.Client(t))
	const goroutines, rounds = 32, 20
	gate := locktest.Must(t)(fairlock.New(c, "f").Lock(t.Context()))
	var wg sync.WaitGroup
	for i := range goroutines {
		l := fairlock.New([]*latchkey.Client{c, other}[i%2], "f")
		wg.Go(func() {
			for range rounds {
				h, err := l.Lock(context.Background())
				if assert.NoError(t, err) {
					assert.NoError(t, h.Unlock(context.Background()))
				}
			}
		})
	}
	waiting(t, c, goroutines/2)
	waiting(t, other, goroutines/2)
	s.Commands(t)
	unlock(t, gate)
	wg.Wait()
	perOp := float64(s.Commands(t)) / (goroutines * rounds)
	t.Logf("%.2f commands per hand-over", perOp)
	require.LessOrEqual(t, perOp, 4.0)
}

func TestCloseLeavesTheQueue(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, b := newClient(t, rdb), newClient(t, s.Client(t))
	h := locktest.Must(t)(fairlock.New(a, "f").Lock(t.Context()))
	var got []<-chan locktest.Outcome
	for range 200 {
		got = append(got, locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(b, "f").Lock(t.Context()) }))
	}
	waiting(t, b, 200)
	require.NoError(t, b.Close())
	for _, ch := range got {
		require.ErrorIs(t, locktest.Within(t, ch, 4*time.Second).Err, latchkey.ErrClosed)
	}
	require.Empty(t, queued(t, rdb, "f"))
	unlock(t, h)
	require.Empty(t, rdb.Keys(t.Context(), "*").Val())
}

// In a cluster all keys are in one slot, and messages arrive whichever node
// publishes them.
func TestCluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	for _, mode := range []latchkey.PubSubMode{latchkey.PubSubPlain, latchkey.PubSubSharded, latchkey.PubSubBoth} {
		a := newClient(t, cl.Client(t), latchkey.WithPubSub(mode))
		b := newClient(t, cl.Client(t), latchkey.WithPubSub(mode))
		name := fmt.Sprint("f", mode)
		h := locktest.Must(t)(fairlock.New(a, name).Lock(t.Context()))
		first := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(b, name).Lock(t.Context()) })
		waiting(t, b, 1)
		second := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(a, name).Lock(t.Context()) })
		waiting(t, a, 1)
		start := time.Now()
		unlock(t, h)
		unlock(t, locktest.Within(t, first, 4*time.Second).Hold)
		unlock(t, locktest.Within(t, second, 4*time.Second).Hold)
		require.Less(t, time.Since(start), time.Second)
	}
}

func TestOptions(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, 99 * time.Millisecond, 1<<63 - 1} {
		require.Panics(t, func() { fairlock.QueueTimeout(d) }, "%v", d)
	}
	require.Panics(t, func() { fairlock.New(nil, "f") })
	require.Panics(t, func() { fairlock.New(newClient(t, redistest.Start(t).Client(t)), "") })
}

// An Unlock grants the lock to the next waiter of the same client just as that
// waiter gives up. Either it holds the lock or nobody does.
func TestHeirThatGivesUp(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	l := fairlock.New(c, "f")
	got := 0
	rounds := redistest.Many(300, 60)
	for range rounds {
		h := locktest.Must(t)(l.Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		heir := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(ctx) })
		waiting(t, c, 1)
		next := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
		waiting(t, c, 2)
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(rand.N(200 * time.Microsecond))
			cancel()
		})
		assert.NoError(t, h.Unlock(t.Context()))
		wg.Wait()
		if o := locktest.Within(t, heir, 4*time.Second); o.Err == nil {
			got++
			unlock(t, o.Hold)
		} else {
			require.ErrorIs(t, o.Err, context.Canceled)
		}
		o := locktest.Within(t, next, 4*time.Second)
		require.NoError(t, o.Err)
		unlock(t, o.Hold)
	}
	t.Log(got, "of", rounds, "had it")
	nothing(t, rdb)
	require.Zero(t, c.Stats().Held)
	require.Zero(t, c.Stats().Losses)
}

// ForceUnlockHolder also notifies the next waiter if it is in the same client,
// for which Redis has no message.
func TestForceUnlockHolderWakesOwnWaiter(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		l := fairlock.New(newClient(t, env.Client()), "f")
		h := locktest.Must(t)(l.Lock(t.Context()))
		next := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
		time.Sleep(time.Second) // it listens, and has nothing to ask for
		start := time.Now()
		freed, err := l.ForceUnlockHolder(t.Context(), h.HolderID())
		require.NoError(t, err)
		require.True(t, freed)
		o := locktest.Within(t, next, time.Minute)
		require.NoError(t, o.Err)
		require.Zero(t, o.At.Sub(start))
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)
		unlock(t, o.Hold)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}
