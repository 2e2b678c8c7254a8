package engine

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// An ASK names a node by an IPv6 address without brackets.
func TestAskedAtIPv6(t *testing.T) {
	for named, want := range map[string]string{
		"127.0.0.1:7000": "127.0.0.1:7000", "node.example:7000": "node.example:7000",
		"::1:7000": "[::1]:7000", "fd00::a:7000": "[fd00::a]:7000", "[fd00::a]:7000": "[fd00::a]:7000",
	} {
		dialed := make(chan string, 1)
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "[::1]:6999"}}}}, nil
			},
			Dialer: func(_ context.Context, _, addr string) (net.Conn, error) {
				select {
				case dialed <- addr:
				default: // the first is enough
				}
				c, other := net.Pipe()
				_ = other.Close()
				return c, nil
			},
		})
		e := New(rdb, Config{Acks: Acks{Min: 1, Timeout: time.Second}})
		cmd := redis.NewCmd(t.Context(), "evalsha", "x", 1, "key")
		cmd.SetErr(errors.New("ASK 3999 " + named))
		e.sendAsked(t.Context(), rdb, cmd)
		require.Equal(t, want, <-dialed)
		_ = e.Close()
		_ = rdb.Close()
	}
}
