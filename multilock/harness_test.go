package multilock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// window returns how long a lease is trusted.
func window(lease time.Duration) time.Duration { return lease - lease/100 - 2*time.Millisecond }

// newClient returns a client on a connection of its own.
func newClient(t testing.TB, rdb redis.UniversalClient, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	c := latchkey.New(redistest.User(t, rdb), opts...)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// rlocks returns a reentrant lock of that name on each client.
func rlocks(name string, cs ...*latchkey.Client) []latchkey.Locker {
	out := make([]latchkey.Locker, len(cs))
	for i, c := range cs {
		out[i] = rlock.New(c, name)
	}
	return out
}

// refused checks that l cannot be taken now.
func refused(t testing.TB, l latchkey.Locker) {
	t.Helper()
	h, err := l.TryLock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	require.Nil(t, h)
}

// free checks that l can be taken now.
func free(t testing.TB, l latchkey.Locker) {
	t.Helper()
	h, err := l.TryLock(t.Context())
	require.NoError(t, err)
	locktest.MustUnlock(t, h)
}

func isLost(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, latchkey.ErrNotHeld)
	require.ErrorIs(t, err, latchkey.ErrLeaseLost)
}

// ended checks that h has ended with a cause, and whether that was a loss.
func ended(t testing.TB, h *latchkey.Hold, cause error) {
	t.Helper()
	require.ErrorIs(t, h.Context().Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(h.Context()), cause)
	require.Zero(t, h.Remaining())
	isClosed := false
	select {
	case <-h.Lost():
		isClosed = true
	default:
	}
	require.Equal(t, errors.Is(cause, latchkey.ErrLeaseLost), isClosed, "Lost is closed")
}

// clean checks that no key is left after requests of callers that gave up have
// been undone.
func clean(t testing.TB, servers ...*redistest.Env) {
	t.Helper()
	time.Sleep(3 * time.Second)
	synctest.Wait()
	for i, s := range servers {
		require.Empty(t, s.Mini.Keys(), "keys on server %d", i)
	}
}

// fleet is some servers in a bubble, with a client on each.
type fleet struct {
	envs    []*redistest.Env
	clients []*latchkey.Client
}

// inFleet runs f in a bubble with n servers.
func inFleet(t *testing.T, n int, f func(t *testing.T, fl *fleet)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		fl := &fleet{envs: env.Fleet(n)}
		fl.clients = fl.more(t)
		f(t, fl)
	})
}

// more returns one more client on each server.
func (fl *fleet) more(t testing.TB, opts ...latchkey.Option) []*latchkey.Client {
	t.Helper()
	cs := make([]*latchkey.Client, len(fl.envs))
	for i, e := range fl.envs {
		cs[i] = newClient(t, e.Client(), opts...)
	}
	return cs
}

// cut cuts servers off, or back on.
func (fl *fleet) cut(on bool, servers ...int) {
	for _, i := range servers {
		if on {
			fl.envs[i].Partition()
		} else {
			fl.envs[i].Heal()
		}
	}
}

// holding returns the number of servers on which a key exists.
func (fl *fleet) holding(key string) int {
	n := 0
	for _, e := range fl.envs {
		if e.Mini.Exists(key) {
			n++
		}
	}
	return n
}

func panics(t testing.TB, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		got, _ := recover().(string)
		require.True(t, strings.Contains(got, want), "panic: got %q, want one with %q", got, want)
	}()
	f()
}
