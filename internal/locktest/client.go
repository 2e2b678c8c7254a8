package locktest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// Helpers for the tests of all primitives, locks or not.

// NewClient returns a client on a connection, closed at the end of the test.
func NewClient(t testing.TB, rdb redis.UniversalClient, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	c := latchkey.New(redistest.User(t, rdb), opts...)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// InFakeTime runs f in a bubble, with a client on its first connection.
func InFakeTime(t *testing.T, f func(t *testing.T, env *redistest.Env, c *latchkey.Client)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) { f(t, env, NewClient(t, env.Redis)) })
}

// Receive returns the next value of ch, which must come.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(t, what+" did not come")
		panic("not reached")
	}
}
