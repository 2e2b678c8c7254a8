package latchkey_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// An error of a proxy that has lost its server says nothing about the command
// before: the command may have been executed. An acquire reports that, and what
// it has taken is taken back.
func TestErrorOfAProxy(t *testing.T) {
	type unlocker interface{ Unlock(context.Context) error }
	undo := func(h unlocker, err error) (func(context.Context) error, error) {
		if err != nil {
			return nil, err
		}
		return h.Unlock, nil
	}
	kinds := []struct {
		name    string
		acquire func(ctx context.Context, c *latchkey.Client, name string) (func(context.Context) error, error)
	}{
		{"rlock", func(ctx context.Context, c *latchkey.Client, name string) (func(context.Context) error, error) {
			return undo(rlock.New(c, name).Lock(ctx))
		}},
		{"fenced", func(ctx context.Context, c *latchkey.Client, name string) (func(context.Context) error, error) {
			return undo(rlock.New(c, name, rlock.Fenced()).Lock(ctx))
		}},
		{"fairlock", func(ctx context.Context, c *latchkey.Client, name string) (func(context.Context) error, error) {
			return undo(fairlock.New(c, name).Lock(ctx))
		}},
		{"read", func(ctx context.Context, c *latchkey.Client, name string) (func(context.Context) error, error) {
			return undo(rwlock.New(c, name).ReadLock().Lock(ctx))
		}},
		{"write", func(ctx context.Context, c *latchkey.Client, name string) (func(context.Context) error, error) {
			return undo(rwlock.New(c, name).WriteLock().Lock(ctx))
		}},
		{"semaphore", func(ctx context.Context, c *latchkey.Client, name string) (func(context.Context) error, error) {
			s := semaphore.New(c, name)
			return func(ctx context.Context) error { return s.Release(ctx, 1) }, s.Acquire(ctx, 1)
		}},
		{"permit", func(ctx context.Context, c *latchkey.Client, name string) (func(context.Context) error, error) {
			p, err := permitsemaphore.New(c, name).Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return p.Release, nil
		}},
	}
	s := redistest.Start(t)
	direct := s.Client(t)
	other := latchkey.New(redistest.User(t, direct))
	t.Cleanup(func() { require.NoError(t, other.Close()) })

	client := func(t *testing.T, text string) (*latchkey.Client, *redistest.Proxy) {
		p := redistest.NewProxy(t, s.Addr)
		p.FailWith(text)
		rdb := s.Client(t, func(o *redis.Options) { o.Addr = p.Addr() })
		c := latchkey.New(redistest.User(t, rdb), latchkey.WithPubSub(latchkey.Polling))
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c, p
	}
	for _, text := range []string{"upstream failure", "ERR handle response, backend conn reset"} {
		for _, k := range kinds {
			name := k.name + "/" + strings.Fields(text)[0]
			t.Run(name, func(t *testing.T) {
				t.Parallel() // most of it is waiting
				c, p := client(t, text)
				ctx := t.Context()
				switch k.name {
				case "semaphore":
					_, err := semaphore.New(c, name).TrySetPermits(ctx, 1)
					require.NoError(t, err)
				case "permit":
					require.NoError(t, permitsemaphore.New(c, name).SetPermits(ctx, 1))
				}
				release, err := k.acquire(ctx, c, name) // Redis knows the scripts now
				require.NoError(t, err)
				p.OnNext(1, "evalsha", redistest.Fail)
				require.NoError(t, release(ctx), "it is asked for again")

				short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
				p.OnCommand(failScripts(short))
				_, err = k.acquire(short, c, name)
				require.Error(t, err)
				require.NotZero(t, p.Count(redistest.Fail))
				var e *latchkey.Error
				require.ErrorAs(t, err, &e)
				require.True(t, e.MaybeApplied(), "%v", err)
				p.OnCommand(nil)

				long, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				release, err = k.acquire(long, other, name)
				require.NoError(t, err, "it has been taken back")
				require.NoError(t, release(ctx))
			})
		}
	}

	t.Run("latch", func(t *testing.T) {
		c, p := client(t, "upstream failure")
		l := countdownlatch.New(c, "latch")
		_, err := l.TrySetCount(t.Context(), 3)
		require.NoError(t, err)
		require.NoError(t, l.CountDown(t.Context()))
		p.OnNext(1, "evalsha", redistest.Fail)
		require.NoError(t, l.CountDown(t.Context()), "it is asked for again")
		n, err := l.Count(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, n, "and counted once")
	})
}

// failScripts fails scripts until ctx ends.
func failScripts(ctx context.Context) func([]string) redistest.Act {
	return func(args []string) redistest.Act {
		if ctx.Err() == nil && slices.Contains([]string{"eval", "evalsha"}, strings.ToLower(args[0])) {
			return redistest.Fail
		}
		return redistest.Pass
	}
}
