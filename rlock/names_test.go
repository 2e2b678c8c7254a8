package rlock_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// oddNames are names that users and attackers invent.
var oddNames = map[string]string{
	"one byte":    "a",
	"space":       "a b",
	"blank":       " ",
	"quotes":      `it's "quoted" and \escaped`,
	"newline":     "a\r\nDEL a\r\n",
	"NUL":         "a\x00b",
	"percent":     "100%s%d%n",
	"colon":       "orders:42:",
	"glob":        "a*[b]?",
	"tag":         "a{b}c",
	"empty tag":   "a{}b",
	"open brace":  "a{b",
	"close brace": "a}b",
	"both":        "}{",
	"unicode":     "Zähler/日本/🔑",
	"not UTF-8":   "\xff\xfe\x80",
	"10 KB":       strings.Repeat("0123456789", 1024),
	"lua":         `"]] .. redis.call('FLUSHALL') .. [["`,
	"side key":    "redisson_lock__channel:{a}",
}

// TestAnyNameWorks checks odd names from end to end: hash, refusal, message,
// token, label.
func TestAnyNameWorks(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	for what, name := range oddNames {
		t.Run(what, func(t *testing.T) {
			ctx := t.Context()
			c := newClient(t, s)
			l := rlock.New(c, name, rlock.Fenced())
			h := locktest.MustLock(t, rlock.New(newClient(t, s), name, rlock.Fenced()), latchkey.Label("label of "+name[:1]))
			require.Equal(t, name, l.Name())
			require.Equal(t, name, h.Name())
			require.Equal(t, map[string]string{h.HolderID(): "1"}, rdb.HGetAll(ctx, name).Val(), "the hash")
			require.Positive(t, h.Token(), "Token")
			_, err := l.TryLock(ctx)
			require.ErrorIs(t, err, latchkey.ErrNotAcquired)
			require.Less(t, len(err.Error()), 1000, "an error stays readable")
			require.NotContains(t, err.Error(), "\n", "an error stays on one line")

			got := make(chan error, 1)
			var second *latchkey.Hold
			go func() {
				var err error
				second, err = l.Lock(ctx)
				got <- err
			}()
			untilWaiting(t, c)
			freed := time.Now()
			locktest.MustUnlock(t, h)
			require.NoError(t, <-got)
			require.Less(t, time.Since(freed), 2*time.Second, "its Redis channel works too")
			require.Greater(t, second.Token(), h.Token(), "Token")
			locktest.MustUnlock(t, second)
			require.Zero(t, rdb.Exists(ctx, name).Val(), "the key after Unlock")
		})
	}
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		require.True(t, strings.HasPrefix(key, "redisson_lock_token:"), "left behind: %q", key)
	}
}

func TestConstructorPanics(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s)
	for want, f := range map[string]func(){
		"the name is empty":    func() { rlock.New(c, "") },
		"the client is nil":    func() { rlock.New(nil, "a") },
		"from -1ns to":         func() { rlock.Spin(rlock.Backoff{Initial: -1}) },
		"from 1s to 1ms":       func() { rlock.Spin(rlock.Backoff{Initial: time.Second, Max: time.Millisecond}) },
		"by 0.5 makes no":      func() { rlock.Spin(rlock.Backoff{Multiplier: 0.5}) },
		"by -Inf makes":        func() { rlock.Spin(rlock.Backoff{Multiplier: math.Inf(-1)}) },
		"by NaN makes no":      func() { rlock.Spin(rlock.Backoff{Multiplier: math.NaN()}) },
		"to -1ns by 2 makes n": func() { rlock.Spin(rlock.Backoff{Max: -1}) },
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				r := recover()
				text, ok := r.(string)
				require.True(t, ok, "panicked with %v, want a text", r)
				require.Contains(t, text, want)
				require.True(t, strings.HasPrefix(text, "rlock: "), "%q tells who panics", text)
			}()
			f()
		})
	}
}

// TestBadOptionsSendNothing checks that the error names the option and that
// nothing is sent to Redis.
func TestBadOptionsSendNothing(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s)
	l := rlock.New(c, "a")
	h := locktest.MustLock(t, rlock.New(c, "b"))
	s.Commands(t)
	before := s.Commands(t)
	bad := map[string]time.Duration{
		"0s: must be positive":               0,
		"-1s: must be positive":              -time.Second,
		"1ns: ":                              1,
		"999.999µs: ":                        time.Millisecond - 1,
		"2562047h47m16.854775807s: the most": math.MaxInt64,
		"-2562047h47m16.854775808s: must be": math.MinInt64,
	}
	acquires := map[string]func(context.Context, ...latchkey.LockOption) (*latchkey.Hold, error){
		"lock": l.Lock, "trylock": l.TryLock,
	}
	for reason, d := range bad {
		for what, opt := range map[string]latchkey.LockOption{
			"lease": latchkey.Lease(d), "MaxHold": latchkey.MaxHold(d), "HoldAtLeast": latchkey.HoldAtLeast(d),
		} {
			for op, acquire := range acquires {
				got, err := acquire(t.Context(), opt)
				require.ErrorContains(t, err, what+" of "+reason)
				require.Nil(t, got)
				var e *latchkey.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, op, e.Op, "Op")
				require.False(t, e.MaybeApplied(), "MaybeApplied")
			}
			// A later option does not hide it, nor does a good one before.
			_, err := l.Lock(t.Context(), latchkey.Lease(time.Second), opt, latchkey.Label("x"))
			require.ErrorContains(t, err, reason)
		}
		require.ErrorContains(t, h.Extend(t.Context(), d), "a lease of "+reason)
	}
	for _, d := range []time.Duration{time.Millisecond, 2 * time.Millisecond} { // over within the margin for clocks
		_, err := l.Lock(t.Context(), latchkey.Lease(d))
		require.ErrorContains(t, err, fmt.Sprintf("lease of %v: the least is 3ms", d))
		_, err = l.TryLock(t.Context(), latchkey.MaxHold(d))
		require.ErrorContains(t, err, fmt.Sprintf("MaxHold of %v: the least is 3ms", d))
		require.ErrorContains(t, h.Extend(t.Context(), d), fmt.Sprintf("a lease of %v: the least is 3ms", d))
	}
	for want, opts := range map[string][]latchkey.LockOption{
		"HoldAtLeast of 1m0s is longer than the lease of 1s": {latchkey.Lease(time.Second), latchkey.HoldAtLeast(time.Minute)},
		"HoldAtLeast of 1m0s is longer than MaxHold of 1s":   {latchkey.MaxHold(time.Second), latchkey.HoldAtLeast(time.Minute)},
		"a fixed Lease and MaxHold exclude each other":       {latchkey.MaxHold(time.Second), latchkey.Lease(time.Minute)},
		"the label has 1025 bytes, the most is 1024":         {latchkey.Label(strings.Repeat("x", 1025))},
	} {
		_, err := l.Lock(t.Context(), opts...)
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, before, s.Commands(t), "commands sent")

	// Just good enough.
	for _, opts := range [][]latchkey.LockOption{
		{latchkey.Lease(10 * 365 * 24 * time.Hour)},
		{latchkey.MaxHold(10 * 365 * 24 * time.Hour)},
		{latchkey.Lease(time.Second), latchkey.HoldAtLeast(time.Second)},
		{latchkey.Label(strings.Repeat("x", 1024))},
	} {
		l := rlock.New(c, t.Name()+strings.Repeat("x", len(opts)))
		locktest.MustUnlock(t, locktest.MustLock(t, l, opts...))
		_, err := l.ForceUnlock(t.Context())
		require.NoError(t, err)
	}
	locktest.MustUnlock(t, h)
}

// TestNamesInCluster checks that a name whose keys are in different slots is
// refused with an explanation before anything is sent.
func TestNamesInCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	rdb := cluster.Client(t)
	c := latchkey.New(redistest.User(t, rdb))
	defer c.Close()
	ctx := t.Context()
	for _, name := range []string{"a", "orders:42", "a{b}", "{b}a", "{user1000}.following", "x{y}z{", "日本", "a b\n"} {
		t.Run(name, func(t *testing.T) {
			l := rlock.New(c, name, rlock.Fenced())
			h, err := l.Lock(ctx, latchkey.Label("who"))
			require.NoError(t, err)
			require.Equal(t, map[string]string{h.HolderID(): "1"}, rdb.HGetAll(ctx, name).Val(), "the hash")
			_, err = l.TryLock(ctx)
			require.ErrorIs(t, err, latchkey.ErrNotAcquired)
			got := make(chan error, 1)
			go func() { got <- latchkey.Do(ctx, l, func(context.Context) error { return nil }) }()
			redistest.Until(t, "the waiter to listen", func() bool { return c.Stats().Waiting == 1 && c.Stats().Subscriptions > 0 })
			locktest.MustUnlock(t, h)
			require.NoError(t, <-got)
		})
	}
	var monitors []*redistest.Monitor
	for _, n := range cluster.Nodes {
		monitors = append(monitors, n.Monitor(t))
	}
	for _, name := range []string{"a{b", "a}b", "{}a", "a{}{b}"} {
		for form, l := range map[string]*rlock.Lock{"fenced": rlock.New(c, name, rlock.Fenced()), "plain": rlock.New(c, name)} {
			_, err := l.Lock(ctx)
			require.ErrorContains(t, err, "cannot be used in a Redis Cluster", "%s %q", form, name)
			require.ErrorContains(t, err, "do not make a hash tag", "%s %q", form, name)
			require.NotContains(t, err.Error(), "CROSSSLOT", "%s %q: our error, not the server's", form, name)
			_, err = l.TryLock(ctx)
			require.Error(t, err)
			_, err = l.ForceUnlock(ctx)
			require.Error(t, err)
			_, err = l.IsLocked(ctx)
			require.Error(t, err)
			_, err = l.TTL(ctx)
			require.Error(t, err)
		}
	}
	for _, m := range monitors {
		require.Zero(t, m.Count("evalsha")+m.Count("eval"), "scripts sent")
	}
}

// TestSpinWithAnyMultiplier checks that no pause is longer than Max, however
// fast the pauses grow.
func TestSpinWithAnyMultiplier(t *testing.T) {
	for _, m := range []float64{1, 1.5, 1e300, math.MaxFloat64, math.Inf(1)} {
		redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
			c := latchkey.New(env.Redis)
			defer c.Close()
			l := rlock.New(c, "a", rlock.Spin(rlock.Backoff{Max: 10 * time.Millisecond, Multiplier: m}))
			h := locktest.MustLock(t, l)
			start := time.Now()
			time.AfterFunc(300*time.Millisecond, func() { _ = h.Unlock(context.Background()) })
			locktest.MustUnlock(t, locktest.MustLock(t, l))
			require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond, "time waited, multiplier %v", m)
			require.LessOrEqual(t, time.Since(start), 300*time.Millisecond+10*time.Millisecond, "time waited, multiplier %v", m)
		})
	}
}
