package latchkey_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// maybeApplied returns MaybeApplied of an *Error in err.
func maybeApplied(t *testing.T, err error) bool {
	t.Helper()
	var e *latchkey.Error
	require.ErrorAs(t, err, &e)
	return e.MaybeApplied()
}

// TestErrorMessages checks the one line that says what was done to what, and
// why it failed.
func TestErrorMessages(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		ctx := t.Context()
		c := latchkey.New(env.Redis)
		defer c.Close()
		l := rlock.New(c, "orders:42")
		holder := latchkey.WithHolder(ctx)
		h, err := l.Lock(holder)
		require.NoError(t, err)
		second := func(_ any, err error) error { return err }
		ended, cancel := context.WithCancel(ctx)
		cancel()
		late, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		require.NoError(t, env.Mini.Set("text", "x"))

		for want, err := range map[string]error{
			`rlock: trylock "orders:42": not acquired`:                                                                       second(l.TryLock(ctx)),
			`rlock: trylock "orders:42": not acquired `:                                                                      second(l.TryLock(ctx, latchkey.Wait(time.Second))),
			`rlock: lock "orders:42": context canceled`:                                                                      second(l.Lock(ended)),
			`rlock: lock "orders:42": context deadline exceeded`:                                                             second(l.Lock(late)),
			`rlock: unlock "orders:42": not held`:                                                                            l.Unlock(ctx),
			`rlock: lock "orders:42": already held by this holder, and the lock is not reentrant`:                            second(rlock.New(c, "orders:42", rlock.NonReentrant()).Lock(holder)),
			`rlock: lock "orders:42": a lease of -1s: must be positive`:                                                      second(l.Lock(ctx, latchkey.Lease(-time.Second))),
			`rlock: extend "orders:42": a lease of 1µs: the least is 3ms, less is over within the margin for clocks`:         h.Extend(ctx, time.Microsecond),
			`rlock: extend "orders:42": a lease of 2ms: the least is 3ms, less is over within the margin for clocks`:         h.Extend(ctx, 2*time.Millisecond),
			`rlock: lock "orders:42": MaxHold of 2ms: the least is 3ms, less is over within the margin for clocks`:           second(l.Lock(ctx, latchkey.MaxHold(2*time.Millisecond))),
			`rlock: lock "orders:42": HoldAtLeast of 1µs: Redis counts in milliseconds, the least is 1ms`:                    second(l.Lock(ctx, latchkey.HoldAtLeast(time.Microsecond))),
			`latchkey: unlock: not held`:                                                                                     (*latchkey.Hold)(nil).Unlock(ctx),
			`latchkey: extend: not held`:                                                                                     (*latchkey.Hold)(nil).Extend(ctx, time.Second),
			`rlock: trylock "tab\there and a \"quote\"\n": a lease of 0s: must be positive`:                                  second(rlock.New(c, "tab\there and a \"quote\"\n").TryLock(ctx, latchkey.Lease(0))),
			`rlock: trylock "` + strings.Repeat("n", 128) + `"…: a lease of 0s: must be positive`:                            second(rlock.New(c, strings.Repeat("n", 129)).TryLock(ctx, latchkey.Lease(0))),
			`rlock: lock "orders:42": the label has 2000 bytes, the most is 1024`:                                            second(l.Lock(ctx, latchkey.Label(strings.Repeat("x", 2000)))),
			`rlock: lock "orders:42": HoldAtLeast of 1m0s is longer than the lease of 1s`:                                    second(l.Lock(ctx, latchkey.Lease(time.Second), latchkey.HoldAtLeast(time.Minute))),
			`rlock: lock "orders:42": a fixed Lease and MaxHold exclude each other: MaxHold bounds what the watchdog renews`: second(l.Lock(ctx, latchkey.Lease(time.Second), latchkey.MaxHold(time.Second))),
		} {
			require.EqualError(t, err, strings.TrimSpace(want))
			require.False(t, maybeApplied(t, err), "MaybeApplied of %v", err)
		}

		err = second(rlock.New(c, "text").Lock(ctx))
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		require.ErrorContains(t, err, `rlock: lock "text": the key holds another kind of value: `)
		require.ErrorContains(t, err, "WRONGTYPE")
		var reply redis.Error
		require.ErrorAs(t, err, &reply, "Redis's own error is there")

		_, err = l.ForceUnlock(ctx)
		require.NoError(t, err)
		err = h.Unlock(ctx)
		require.EqualError(t, err, `rlock: unlock "orders:42": lease lost: not held`)
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
		require.ErrorIs(t, err, latchkey.ErrNotHeld)

		require.NoError(t, c.Close())
		require.EqualError(t, second(l.Lock(ctx)), `rlock: lock "orders:42": client closed`)
		require.EqualError(t, l.Unlock(ctx), `rlock: unlock "orders:42": client closed`)
		_, err = l.ForceUnlock(ctx)
		require.EqualError(t, err, `rlock: force-unlock "orders:42": client closed`)
	})
}

// TestErrorFieldsTellWhatFailed checks the fields, for structured logs.
func TestErrorFieldsTellWhatFailed(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis, latchkey.WithKeyPrefix("app:"))
		defer c.Close()
		l := rlock.New(c, "a")
		_, err := l.TryLock(t.Context(), latchkey.Lease(0))
		var e *latchkey.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "trylock", e.Op)
		require.Equal(t, "rlock", e.Kind)
		require.Equal(t, "a", e.Name, "Name is as the user gave it")
		require.Equal(t, e.Err, errors.Unwrap(err))
	})
}

// TestConditionsAreDistinct checks that no condition matches another.
func TestConditionsAreDistinct(t *testing.T) {
	all := []error{
		latchkey.ErrNotAcquired, latchkey.ErrNotHeld, latchkey.ErrLeaseLost, latchkey.ErrClosed,
		latchkey.ErrReentry, latchkey.ErrKeyConflict, latchkey.ErrUnsupported, latchkey.ErrChannelDenied,
		context.Canceled, context.DeadlineExceeded, redis.ErrClosed, io.EOF,
	}
	for i, a := range all {
		for j, b := range all {
			require.Equal(t, i == j, errors.Is(&latchkey.Error{Err: a}, b), "errors.Is(%v, %v)", a, b)
		}
	}
}

// TestMaybeApplied checks that MaybeApplied follows from whether Redis may have
// run the script.
func TestMaybeApplied(t *testing.T) {
	tests := []struct {
		rule string
		act  redistest.Act
		want bool
		won  bool // it was granted all the same
	}{
		{"the answer is lost", redistest.Swallow, true, true},
		{"the script never arrived", redistest.Drop, true, false}, // nobody can tell
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
				c := latchkey.New(env.Redis)
				defer c.Close()
				l := rlock.New(c, "a")
				link := env.Link(env.Redis)
				link.OnNext(1, "evalsha", redistest.Pass)
				h, err := l.Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, h.Unlock(t.Context()))

				link.OnNext(1, "evalsha", tt.act)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				start := time.Now()
				h, err = l.Lock(ctx)
				require.Nil(t, h)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, 100*time.Millisecond, time.Since(start), "time waited")
				require.Equal(t, tt.want, maybeApplied(t, err), "MaybeApplied")
				env.Advance(10 * time.Second)
				require.False(t, env.Mini.Exists("a"), "what it left is taken back")
				require.Equal(t, tt.won, c.Stats().Undone == 1, "Undone is %d", c.Stats().Undone)
			})
		})
	}
}
