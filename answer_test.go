package latchkey_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// nobodyAt returns an address at which nobody listens.
func nobodyAt(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// everyCall returns calls of all kinds of primitive.
func everyCall(c *latchkey.Client) map[string]func(ctx context.Context) error {
	lock := func(l latchkey.Locker) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := l.Lock(ctx)
			return err
		}
	}
	sem, permits, latch := semaphore.New(c, "s"), permitsemaphore.New(c, "p"), countdownlatch.New(c, "c")
	return map[string]func(ctx context.Context) error{
		"Lock":       lock(rlock.New(c, "a")),
		"fair":       lock(fairlock.New(c, "f")),
		"read":       lock(rwlock.New(c, "rw").ReadLock()),
		"write":      lock(rwlock.New(c, "rw").WriteLock()),
		"group":      lock(multilock.NewGroup(c, "g", "x")),
		"multi-lock": lock(multilock.New(rlock.New(c, "a"), rlock.New(c, "b"))),
		"TryLock": func(ctx context.Context) error {
			_, err := rlock.New(c, "a").TryLock(ctx)
			return err
		},
		"bounded": func(ctx context.Context) error {
			_, err := rlock.New(c, "a").TryLock(ctx, latchkey.Wait(time.Minute))
			return err
		},
		"IsLocked": func(ctx context.Context) error {
			_, err := rlock.New(c, "a").IsLocked(ctx)
			return err
		},
		"Info": func(ctx context.Context) error {
			_, err := c.Info(ctx, "a")
			return err
		},
		"semaphore": func(ctx context.Context) error { return sem.Acquire(ctx, 1) },
		"set":       func(ctx context.Context) error { return sem.AddPermits(ctx, 1) },
		"permit": func(ctx context.Context) error {
			_, err := permits.Acquire(ctx)
			return err
		},
		"await": latch.Await,
	}
}

const long = 30 * time.Second // the answer timeout of calls that take less

// A client that was never answered gets a refusal at once, whatever it calls.
func TestRefusalIsToldAtOnce(t *testing.T) {
	t.Parallel()
	gone, gone2, gone3 := nobodyAt(t), nobodyAt(t), nobodyAt(t)
	for name, rdb := range map[string]redis.UniversalClient{
		"single":         redis.NewClient(&redis.Options{Addr: gone, DialerRetries: 1}),
		"cluster":        redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{gone, gone2}, DialerRetries: 1}),
		"sentinel":       redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{gone, gone2}, DialerRetries: 1}),
		"with deadlines": redis.NewClient(&redis.Options{Addr: gone, DialerRetries: 1, ContextTimeoutEnabled: true}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() { _ = rdb.Close() })
			c := latchkey.New(rdb, latchkey.WithAnswerTimeout(long))
			t.Cleanup(func() { _ = c.Close() })
			for what, call := range everyCall(c) {
				start := time.Now()
				err := call(context.Background())
				require.ErrorIs(t, err, syscall.ECONNREFUSED, what)
				require.Less(t, time.Since(start), long/2, what)
			}
		})
	}
	t.Run("RedLock", func(t *testing.T) {
		t.Parallel()
		var members []latchkey.Locker
		for _, addr := range []string{gone, gone2, gone3} {
			rdb := redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1})
			t.Cleanup(func() { _ = rdb.Close() })
			c := latchkey.New(rdb, latchkey.WithAnswerTimeout(long))
			t.Cleanup(func() { _ = c.Close() })
			members = append(members, rlock.New(c, "a"))
		}
		start := time.Now()
		_, err := multilock.NewRed(members...).Lock(context.Background())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Less(t, time.Since(start), long/2)
	})
}

// An unknown host, a missing socket and a server without TLS are refusals, too.
func TestOtherRefusals(t *testing.T) {
	t.Parallel()
	secure := redistest.StartTLS(t)
	for name, o := range map[string]*redis.Options{
		"no socket": {Network: "unix", Addr: t.TempDir() + "/none.sock"},
		"no trust": func() *redis.Options {
			o := new(redis.Options)
			secure.Over(true)(o)
			o.TLSConfig.RootCAs = nil
			return o
		}(),
		"no certificate": func() *redis.Options { o := new(redis.Options); secure.Over(false)(o); return o }(),
	} {
		o.DialerRetries = 1
		rdb := redis.NewClient(o)
		t.Cleanup(func() { _ = rdb.Close() })
		c := latchkey.New(rdb, latchkey.WithAnswerTimeout(long))
		t.Cleanup(func() { _ = c.Close() })
		start := time.Now()
		_, err := rlock.New(c, "a").TryLock(context.Background())
		require.Error(t, err, name)
		require.Less(t, time.Since(start), long/2, "%s: %v", name, err)
	}
}

// A server that has answered may restart during a Lock.
func TestRestartIsOutlived(t *testing.T) {
	t.Parallel()
	for _, known := range []string{"to this client", "to another one"} {
		s := redistest.Start(t)
		rdb := redistest.User(t, s.Client(t, func(o *redis.Options) { o.DialerRetries = 1 }))
		c := latchkey.New(redistest.User(t, rdb), latchkey.WithAnswerTimeout(long))
		t.Cleanup(func() { _ = c.Close() })
		if known == "to this client" {
			_, err := rlock.New(c, "a").IsLocked(t.Context())
			require.NoError(t, err)
		} else {
			for range 2 { // the second by the connection of the first
				require.NoError(t, rdb.Ping(t.Context()).Err())
			}
		}
		s.Kill()
		time.AfterFunc(500*time.Millisecond, func() { s.Restart(t) })
		h, err := rlock.New(c, "a").Lock(t.Context())
		require.NoError(t, err, known)
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// A call takes no longer than the answer timeout, however long go-redis would read.
func TestAnswerTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Allow(t, "wait")
	const short = 200 * time.Millisecond
	for name, opts := range map[string][]latchkey.Option{"plain": nil, "acked": {latchkey.WithReplicaAck(1, time.Second)}} {
		for _, deadlines := range []bool{false, true} {
			for _, known := range []bool{false, true} {
				t.Run(fmt.Sprint(name, deadlines, known), func(t *testing.T) {
					t.Parallel()
					p := redistest.NewProxy(t, s.Addr)
					rdb := redistest.User(t, s.Client(t, func(o *redis.Options) {
						o.Addr, o.ReadTimeout, o.ContextTimeoutEnabled = p.Addr(), 30*time.Second, deadlines
					}))
					c := latchkey.New(redistest.User(t, rdb), append(opts, latchkey.WithAnswerTimeout(short), latchkey.WithUnlockTimeout(time.Millisecond))...)
					t.Cleanup(func() { _ = c.Close() })
					if known {
						_, _ = rlock.New(c, "a").IsLocked(t.Context())
					}
					p.Mute(true)
					for what, call := range everyCall(c) {
						start := time.Now()
						err := call(context.Background())
						assert.Error(t, err, what)
						assert.NotErrorIs(t, err, context.DeadlineExceeded, what)
						assert.GreaterOrEqual(t, time.Since(start), short, "%s: %v", what, err)
						require.Less(t, time.Since(start), 20*time.Second, "%s: %v", what, err)
					}
				})
			}
		}
	}
}
