package latchkey_test

import (
	"context"
	"errors"
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

// A noDeadlines is a connection such as one through an SSH tunnel.
type noDeadlines struct{ net.Conn }

func (noDeadlines) SetDeadline(time.Time) error      { return errNoDeadlines }
func (noDeadlines) SetReadDeadline(time.Time) error  { return errNoDeadlines }
func (noDeadlines) SetWriteDeadline(time.Time) error { return errNoDeadlines }

var errNoDeadlines = errors.New("deadlines are not supported")

// Whoever dials, and whether connections have deadlines or not: waiters are woken, and
// Check says so.
func TestWaitersOfOwnDials(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Allow(t, forCheck...)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.Addr)
	}
	for name, own := range map[string]func(o *redis.Options) redis.Hook{
		"a hook": func(o *redis.Options) redis.Hook {
			o.Addr = "nowhere:1"
			return dialHook(dial)
		},
		"a dialer of connections without deadlines": func(o *redis.Options) redis.Hook {
			o.ReadTimeout, o.WriteTimeout = -2, -2
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := dial(ctx, network, addr)
				return noDeadlines{c}, err
			}
			return nil
		},
	} {
		for _, enabled := range []bool{false, true} {
			var hook redis.Hook
			rdb := s.Client(t, func(o *redis.Options) {
				o.ContextTimeoutEnabled = enabled
				hook = own(o)
			})
			if hook != nil {
				rdb.AddHook(hook)
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
