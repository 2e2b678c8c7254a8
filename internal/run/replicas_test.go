package run

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
		rn := New(rdb, Config{Acks: Acks{Min: 1, Timeout: time.Second}})
		cmd := redis.NewCmd(t.Context(), "evalsha", "x", 1, "key")
		cmd.SetErr(errors.New("ASK 3999 " + named))
		rn.sendAsked(t.Context(), rdb, cmd)
		require.Equal(t, want, <-dialed)
		_ = rdb.Close()
	}
}

// What is said of a WAIT without an answer to count by does not depend on its words.
func TestReplicasNotCounted(t *testing.T) {
	for _, text := range []string{
		"ERR unknown command 'WAITAOF', with args beginning with: '1' '0' '100' ",
		"ERR unknown command `WAIT`, with args beginning with: `1`, `100`, ",
		"ERR WAIT cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.",
		"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
		"NOPERM User x has no permissions to run the 'wait' command",
		"NOPERM this user has no permissions to run the 'waitaof' command or its subcommand",
		"ERR 'wait' is not supported by this proxy",
		"upstream failure",
	} {
		for _, disk := range []bool{false, true} {
			rn := &Runner{cfg: Config{Acks: Acks{Min: 1, Disk: disk}}}
			err := rn.Short(&Replicas{err: refusal(text)})
			require.ErrorIs(t, err, ErrNotReplicated)
			require.ErrorContains(t, err, text)
			if disk {
				require.ErrorContains(t, err, "AckDisk needs WAITAOF, of Redis 7.2")
			} else {
				require.ErrorContains(t, err, "replicas cannot be counted")
			}
			gone := rn.Short(&Replicas{err: net.ErrClosed})
			require.ErrorIs(t, gone, ErrNotReplicated)
			require.ErrorIs(t, gone, net.ErrClosed)
			require.NotContains(t, gone.Error(), "WAIT")
		}
	}
}

type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}
