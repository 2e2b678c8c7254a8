package latchkey_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// A dialHook dials by itself.
type dialHook func(ctx context.Context, network, addr string) (net.Conn, error)

func (h dialHook) DialHook(redis.DialHook) redis.DialHook { return redis.DialHook(h) }

func (dialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (dialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Waiters are woken whatever the Dialer, with and without deadlines on
// connections, and Check reports that.
func TestWaitersOfOwnDials(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Allow(t, forCheck...)
	dial := dialHook(func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.Addr)
	})
	for name, use := range map[string]func(o *redis.Options){
		"a hook that dials":             func(o *redis.Options) { o.Addr = "nowhere:1" },
		"connections without deadlines": redistest.NoDeadlines,
	} {
		for _, enabled := range []bool{false, true} {
			rdb := s.Client(t, use, func(o *redis.Options) { o.ContextTimeoutEnabled = enabled })
			if rdb.Options().Addr != s.Addr {
				rdb.AddHook(dial)
			}
			c := latchkey.New(redistest.User(t, rdb), latchkey.WithRecheck(time.Hour))
			t.Cleanup(func() { _ = c.Close() })
			r := check(t, c)
			assert.Equal(t, latchkey.LevelOK, finding(t, r, "pubsub").Level, "%s: %+v", name, r.Findings)

			l := rlock.New(c, name)
			held, err := rlock.New(newClient(t, s.Client(t)), name).Lock(t.Context())
			require.NoError(t, err, name)
			got := make(chan error, 1)
			go func() {
				h, err := l.Lock(t.Context())
				if err == nil {
					err = h.Unlock(t.Context())
				}
				got <- err
			}()
			redistest.Until(t, "somebody to listen", func() bool {
				info, err := c.Info(t.Context(), name)
				return err == nil && info.Listeners > 0
			})
			require.NoError(t, held.Unlock(t.Context()), name)
			require.NoError(t, <-got, name)
			assert.Zero(t, c.Stats().Rechecked, name)
		}
	}
}
