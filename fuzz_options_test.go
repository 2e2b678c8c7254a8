package latchkey_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// panicsClearly runs a constructor and reports whether it returned. If the
// constructor panics, the text must begin with the package.
func panicsClearly(t testing.TB, pkg string, f func()) (ok bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			text := fmt.Sprint(r)
			require.True(t, strings.HasPrefix(text, pkg+": "), "panic: %v", r)
		}
	}()
	f()
	return true
}

// Constructors panic with a clear text, and calls return an error, or work.
func FuzzOptions(f *testing.F) {
	for _, d := range []int64{0, 1, -1, 1e6, 1e9, 30e9, 1 << 62, -1 << 63} {
		f.Add(d, int64(1e9), 3, 1.5, "name", "label")
		f.Add(int64(30e9), d, int(d), float64(d), "{", strings.Repeat("x", 1025))
	}
	f.Fuzz(func(t *testing.T, a, b int64, n int, x float64, name, label string) {
		redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
			rdb := env.Client()
			d, d2 := time.Duration(a), time.Duration(b)
			var opts []latchkey.Option
			for _, o := range []func() latchkey.Option{
				func() latchkey.Option { return latchkey.WithID(name) },
				func() latchkey.Option { return latchkey.WithWatchdogTimeout(d) },
				func() latchkey.Option { return latchkey.WithUnlockTimeout(d2) },
				func() latchkey.Option { return latchkey.WithKeyPrefix(label) },
				func() latchkey.Option { return latchkey.WithPubSub(latchkey.PubSubMode(n)) },
				func() latchkey.Option { return latchkey.WithRecheck(d) },
				func() latchkey.Option { return latchkey.WithHandOver(d2) },
			} {
				panicsClearly(t, "latchkey", func() { opts = append(opts, o()) })
			}
			panicsClearly(t, "latchkey", func() { latchkey.WithReplicaAck(n, d, latchkey.AckOption(b)) })
			c := latchkey.New(rdb, opts...)
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()

			var locks []latchkey.Locker
			panicsClearly(t, "rlock", func() {
				locks = append(locks, rlock.New(c, name, rlock.Spin(rlock.Backoff{Initial: d, Max: d2, Multiplier: x})))
			})
			panicsClearly(t, "rlock", func() { locks = append(locks, rlock.New(c, name+"1", rlock.Fenced())) })
			panicsClearly(t, "fairlock", func() { locks = append(locks, fairlock.New(c, name+"2", fairlock.QueueTimeout(d))) })
			panicsClearly(t, "rwlock", func() {
				locks = append(locks, rwlock.New(c, name+"3", rwlock.WriterPreference(d2)).WriteLock())
			})
			panicsClearly(t, "multilock", func() { locks = append(locks, multilock.NewGroup(c, name+"4", label, label)) })
			for _, l := range locks {
				for _, o := range [][]latchkey.LockOption{
					{latchkey.Lease(d)},
					{latchkey.Wait(d), latchkey.MaxHold(d2)},
					{latchkey.HoldAtLeast(d), latchkey.Lease(d2), latchkey.Label(label)},
				} {
					if h, err := l.TryLock(ctx, o...); err == nil {
						_ = h.Extend(ctx, d2)
						_ = h.Unlock(ctx)
					} else {
						require.NotEmpty(t, err.Error())
					}
				}
			}
			panicsClearly(t, "permitsemaphore", func() {
				s := permitsemaphore.New(c, name+"5")
				_, _ = s.TrySetPermits(ctx, n)
				if ps, err := s.TryAcquireN(ctx, min(n, 100), latchkey.Lease(d), latchkey.Label(label)); err == nil && n != 0 {
					require.Positive(t, n)
					_ = ps[0].Extend(ctx, d2)
					_ = ps[0].Release(ctx)
				}
				_, _ = s.UpdateLease(ctx, label, d)
				_ = s.Release(ctx, label)
			})
			panicsClearly(t, "semaphore", func() {
				s := semaphore.New(c, name+"6")
				_, _ = s.TrySetPermits(ctx, n, semaphore.TTL(d))
				if s.TryAcquire(ctx, n, latchkey.Wait(d)) == nil {
					require.GreaterOrEqual(t, n, 0)
					_ = s.Release(ctx, n)
				}
				_ = s.AddPermits(ctx, n)
			})
			for _, k := range env.Mini.Keys() {
				require.Contains(t, k, name)
			}
		})
	})
}

// No message, whoever sends it, makes a waiter of any kind believe that it has
// what another holder has.
func FuzzMessages(f *testing.F) {
	for _, m := range []string{"", "0", "1", "+", "+1 15000", "+2 15000 da39a3ee5e6b4b0d3255bfef95601890afd80709", "\x00", "9223372036854775808"} {
		f.Add(m, "0")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
			holder, waiter := newClient(t, env.Client()), newClient(t, env.Client())
			kinds := func(c *latchkey.Client) []latchkey.Locker {
				return []latchkey.Locker{
					rlock.New(c, "a"), rlock.New(c, "b", rlock.Fenced()), fairlock.New(c, "c"),
					rwlock.New(c, "d").WriteLock(), multilock.NewGroup(c, "e", "x"),
				}
			}
			var held []*latchkey.Hold
			got := make(chan *latchkey.Hold, 8)
			for i, l := range kinds(holder) {
				h, err := l.Lock(t.Context())
				require.NoError(t, err)
				held = append(held, h)
				go func() {
					if h, err := kinds(waiter)[i].Lock(t.Context()); err == nil {
						got <- h
					}
				}()
			}
			env.Advance(time.Second)
			channels := env.Redis.PubSubChannels(t.Context(), "*").Val()
			require.GreaterOrEqual(t, len(channels), len(held))
			for _, m := range []string{first, second, first} {
				for _, ch := range channels {
					env.Redis.Publish(t.Context(), ch, m)
				}
				env.Advance(time.Millisecond)
			}
			require.Empty(t, got)
			for _, h := range held {
				require.NoError(t, h.Unlock(t.Context()))
			}
			for range held {
				require.NoError(t, (<-got).Unlock(t.Context()))
			}
		})
	})
}
