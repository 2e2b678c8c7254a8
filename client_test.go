package latchkey_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// panicOf returns the text that f panics with.
func panicOf(t *testing.T, f func()) (text string) {
	t.Helper()
	defer func() {
		t.Helper()
		var ok bool
		text, ok = recover().(string)
		require.True(t, ok, "it did not panic with a text")
	}()
	f()
	return ""
}

func TestNewWithoutRedisPanics(t *testing.T) {
	var none *redis.Client
	var cluster *redis.ClusterClient
	for name, f := range map[string]func(){
		"nil":               func() { latchkey.New(nil) },
		"nil Client":        func() { latchkey.New(none) },
		"nil ClusterClient": func() { latchkey.New(cluster) },
	} {
		require.Contains(t, panicOf(t, f), "latchkey: New: the Redis client is nil", name)
	}
}

func TestOptionsThatMakeNoSensePanic(t *testing.T) {
	for want, f := range map[string]func(){
		"WithID: the id is empty":                                    func() { latchkey.WithID("") },
		"WithWatchdogTimeout of 0s: the least is 100ms":              func() { latchkey.WithWatchdogTimeout(0) },
		"WithWatchdogTimeout of -1s: the least is 100ms":             func() { latchkey.WithWatchdogTimeout(-time.Second) },
		"WithWatchdogTimeout of 99ms: the least is 100ms":            func() { latchkey.WithWatchdogTimeout(99 * time.Millisecond) },
		"WithWatchdogTimeout: a lease of 2562047h47m16.854775807s":   func() { latchkey.WithWatchdogTimeout(1<<63 - 1) },
		"WithUnlockTimeout of 0s: the least is 1ms":                  func() { latchkey.WithUnlockTimeout(0) },
		"WithUnlockTimeout of 2562047h47m16.854775807s: the most is": func() { latchkey.WithUnlockTimeout(1<<63 - 1) },
		"WithAnswerTimeout of 0s: the least is 1ms":                  func() { latchkey.WithAnswerTimeout(0) },
		"WithAnswerTimeout of -1s: the least is 1ms":                 func() { latchkey.WithAnswerTimeout(-time.Second) },
		"WithAnswerTimeout of 30.001s: the most is 30s":              func() { latchkey.WithAnswerTimeout(30*time.Second + time.Millisecond) },
		"WithHandOver of -1ns: the least is 0s":                      func() { latchkey.WithHandOver(-1) },
		"WithHandOver of 2562047h47m16.854775807s: the most is":      func() { latchkey.WithHandOver(1<<63 - 1) },
		"WithReplicaAck of 2562047h47m16.854775807s: the most is":    func() { latchkey.WithReplicaAck(1, 1<<63-1) },
		"WithRecheck of 9ms: the least is 10ms":                      func() { latchkey.WithRecheck(9 * time.Millisecond) },
		"WithLogger: the logger is nil":                              func() { latchkey.WithLogger(nil) },
		"WithPubSub: there is no mode 99":                            func() { latchkey.WithPubSub(99) },
		"WithPubSub: there is no mode -1":                            func() { latchkey.WithPubSub(-1) },
	} {
		text := panicOf(t, f)
		require.Contains(t, text, want)
		require.True(t, strings.HasPrefix(text, "latchkey: "), "%q tells who panics", text)
	}
}

// TestNewDoesNoIO uses an address at which nobody listens.
func TestNewDoesNoIO(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	c := latchkey.New(rdb)
	rlock.New(c, "a")
	require.Zero(t, rdb.PoolStats().Misses, "connections asked for")
	require.Zero(t, c.Stats())
	require.NoError(t, c.Close(), "Close of a client that was never used")
}

func TestIDIsFreshUnlessGiven(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		a, b := latchkey.New(env.Redis), latchkey.New(env.Redis)
		defer a.Close()
		defer b.Close()
		require.NoError(t, uuid.Validate(a.ID()))
		require.NotEqual(t, a.ID(), b.ID())
		c := latchkey.New(env.Redis, latchkey.WithID("host-1"))
		defer c.Close()
		require.Equal(t, "host-1", c.ID())
		h, err := rlock.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(h.HolderID(), "host-1:"), "%s", h.HolderID())

		// The process crashes and comes back under the same id: its holders are
		// nobody who held anything before.
		again := latchkey.New(env.Client(), latchkey.WithID("host-1"))
		defer again.Close()
		_, err = rlock.New(again, "a").TryLock(latchkey.WithHolder(t.Context()))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

func TestCloseIsIdempotentAndLeavesRedisOpen(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		_, err := rlock.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := c.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		wg.Wait()
		require.NoError(t, c.Close())
		require.False(t, env.Mini.Exists("a"), "the key")
		require.NoError(t, env.Redis.Ping(t.Context()).Err(), "the connection is the caller's")
	})
}

// TestCloseAtASilentServer checks that Close takes no longer than documented
// and reports what it could not do.
func TestCloseAtASilentServer(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis, latchkey.WithUnlockTimeout(time.Second))
		h, err := rlock.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		env.Partition()
		start := time.Now()
		err = c.Close()
		require.LessOrEqual(t, time.Since(start), 3*time.Second, "the unlock timeout and two seconds")
		require.ErrorContains(t, err, `"a"`, "it names what it could not give back")
		require.ErrorIs(t, context.Cause(h.Context()), latchkey.ErrClosed)
		env.Advance(30 * time.Second)
		require.False(t, env.Mini.Exists("a"), "its lease ends it")
	})
}

// TestRingIsUnsupported checks that every method returns the error before
// anything is sent.
func TestRingIsUnsupported(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr}, HeartbeatFrequency: time.Hour})
	defer rdb.Close()
	c := latchkey.New(rdb)
	defer c.Close()
	m := s.Monitor(t)
	l := rlock.New(c, "a")
	ctx := t.Context()
	_, lock := l.Lock(ctx)
	_, try := l.TryLock(ctx, latchkey.Wait(time.Hour))
	_, force := l.ForceUnlock(ctx)
	_, locked := l.IsLocked(ctx)
	_, ttl := l.TTL(ctx)
	_, count := l.HoldCount(latchkey.WithHolder(ctx))
	_, token := l.Token(ctx)
	for op, err := range map[string]error{
		"Lock": lock, "TryLock": try, "ForceUnlock": force, "IsLocked": locked, "TTL": ttl,
		"HoldCount": count, "Token": token, "LockAsync": (<-l.LockAsync(ctx)).Err,
	} {
		require.ErrorIs(t, err, latchkey.ErrUnsupported, op)
		require.ErrorContains(t, err, "use a ClusterClient", op)
	}
	require.Zero(t, m.Count("evalsha")+m.Count("eval"), "scripts sent")
}

// TestAcksThroughAWrapperAreUnsupported: WAIT could go to any server.
func TestAcksThroughAWrapperAreUnsupported(t *testing.T) {
	s := redistest.Start(t)
	wrapped := struct{ redis.UniversalClient }{redistest.User(t, s.Client(t))}
	c := latchkey.New(wrapped, latchkey.WithReplicaAck(1, time.Second))
	m := s.Monitor(t)
	_, err := rlock.New(c, "a").Lock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrUnsupported)
	require.ErrorContains(t, err, "WithReplicaAck needs a *redis.Client")
	_, err = c.Check(t.Context())
	require.ErrorIs(t, err, latchkey.ErrUnsupported)
	require.NoError(t, c.Close())
	require.Zero(t, m.Count("evalsha")+m.Count("eval"), "scripts sent")

	c = latchkey.New(wrapped) // without it, it does
	h, err := rlock.New(c, "a").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, c.Close())
}

// TestAutoPipeliners uses AutoPipeliners as connections, including one whose
// Process returns before the reply.
func TestAutoPipeliners(t *testing.T) {
	for name, pipeliner := range map[string]func(*redis.Client) (*redis.AutoPipeliner, error){
		"blocking":     (*redis.Client).AutoPipeline,
		"asynchronous": (*redis.Client).AsyncAutoPipeline,
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t) // it knows no script yet
			p := redistest.NewProxy(t, s.Addr)
			rdb := redis.NewClient(redistest.AsUser(&redis.UniversalOptions{
				Addrs: []string{p.Addr()}, ReadTimeout: time.Second,
			}).Simple())
			defer rdb.Close()
			auto, err := pipeliner(rdb)
			require.NoError(t, err)
			defer auto.Close()
			c := latchkey.New(auto)
			l := rlock.New(c, "a")
			ctx := latchkey.WithHolder(t.Context())
			h, err := l.Lock(ctx)
			require.NoError(t, err)
			n, err := l.HoldCount(ctx)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.NoError(t, h.Unlock(ctx))

			s.Client(t).Set(ctx, "b", "no lock", 0)
			_, err = rlock.New(c, "b").Lock(ctx)
			require.ErrorIs(t, err, latchkey.ErrKeyConflict)

			p.Mute(true)
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err = l.Lock(short)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(start), 400*time.Millisecond)
			p.Mute(false)
			require.NoError(t, c.Close())
		})
	}
}

// TestStatsAndObserverAgree checks that both report the same events.
func TestStatsAndObserverAgree(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		var mu sync.Mutex
		var events []string
		note := func(what string) { mu.Lock(); events = append(events, what); mu.Unlock() }
		c := latchkey.New(env.Redis, latchkey.WithObserver(latchkey.Observer{
			WaitStarted: func(_ context.Context, kind, name string) { note("wait " + kind + " " + name) },
			Acquired: func(_ context.Context, a latchkey.Acquisition) {
				note("acquired " + a.Wait.String() + map[bool]string{true: " contended"}[a.Contended])
			},
			AcquireFailed: func(_ context.Context, a latchkey.Acquisition, err error) {
				note("failed " + a.Wait.String() + " " + err.Error())
			},
			Released: func(_, _ string, held time.Duration) { note("released " + held.String()) },
			Renewed:  func(_, _ string, lag time.Duration) { note("renewed " + lag.String()) },
			Lost: func(_, _ string, held time.Duration, why latchkey.LossReason) {
				note("lost " + held.String() + " " + string(why))
			},
		}))
		defer c.Close()
		l := rlock.New(c, "a")
		ctx := t.Context()
		h, err := l.Lock(ctx)
		require.NoError(t, err)
		_, err = l.TryLock(ctx, latchkey.Wait(time.Second))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		time.AfterFunc(18*time.Second, func() { _ = h.Unlock(ctx) })
		h, err = l.Lock(ctx, latchkey.Lease(time.Second))
		require.NoError(t, err)
		require.Equal(t, 1, c.Stats().Held, "Held")
		<-h.Lost()
		synctest.Wait() // the Observer hears of it after the holder
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{
			"acquired 0s", "wait rlock a", "failed 1s not acquired",
			"wait rlock a", "renewed 0s", "released 19s", "acquired 18s contended", "lost 988ms limit",
		}, sortedAt(events, 5, 6))
		st := c.Stats()
		require.EqualValues(t, 1, st.Renewals, "Renewals")
		require.EqualValues(t, 1, st.Losses, "Losses")
		require.Zero(t, st.Held, "Held")
		require.Zero(t, st.Waiting, "Waiting")
	})
}

// sortedAt sorts events[i] and events[j], which may come in either order, as
// "released", "acquired".
func sortedAt(events []string, i, j int) []string {
	if j < len(events) && strings.HasPrefix(events[j], "released") {
		events[i], events[j] = events[j], events[i]
	}
	return events
}

// TestLoggerHearsOfFailedRenewals: no call could return the error.
func TestLoggerHearsOfFailedRenewals(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		var log bytes.Buffer
		c := latchkey.New(env.Redis, latchkey.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), latchkey.WithUnlockTimeout(time.Millisecond))
		h, err := rlock.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		env.Partition()
		<-h.Lost()
		_ = c.Close()
		require.Contains(t, log.String(), "level=WARN")
		require.Contains(t, log.String(), "a renewal failed and will be tried again")
	})
}
