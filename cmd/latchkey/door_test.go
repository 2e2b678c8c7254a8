package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// nobody returns an address where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// What refuses, and would refuse again, is told at the first time, and once.
func TestRefusedAtOnce(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t)
	secure := redistest.StartTLS(t)
	gone, gone2 := nobody(t), nobody(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-u", "redis://" + gone}, "connection refused by " + gone},
		{[]string{"-u", "redis://" + gone + "?addr=" + gone2, "--cluster"}, "connection refused by "},
		{[]string{"-u", "redis://" + gone, "--sentinel-master", "m"}, "connection refused by " + gone},
		{[]string{"-h", "no-such-host.invalid"}, "the host no-such-host.invalid|there is no host no-such-host.invalid"},
		{[]string{"-u", "rediss://" + plain.Addr}, "the server does not speak TLS"},
		{[]string{"-u", "redis://" + secure.TLSAddr}, `the server speaks TLS only \(--tls\)`},
		{[]string{"-u", "rediss://" + secure.TLSAddr}, `nobody who is trusted here has signed its certificate`},
		{[]string{"-u", "rediss://" + secure.TLSAddr, "--insecure"}, `it ends TLS: .*certificate required`},
		{[]string{"-u", "unix:///nowhere/redis.sock"}, "no such file or directory"},
	} {
		conn, flags := new(connection), pflag.NewFlagSet("", pflag.ContinueOnError)
		conn.Register(flags)
		require.NoError(t, flags.Parse(c.args))
		err := conn.session(func(ctx context.Context, s *session) error {
			go func() { _ = s.rdb.Ping(ctx).Err() }()
			select {
			case <-ctx.Done():
			case <-time.After(30 * time.Second):
				return errors.New("nothing is told")
			}
			return ctx.Err()
		})
		require.Error(t, err)
		assert.Regexp(t, "^Redis at .*: ("+c.want+")", err.Error(), c.args)
	}
}

// All commands say it, in one line.
func TestRefusedInWords(t *testing.T) {
	t.Parallel()
	gone := nobody(t)
	want := "latchkey: Redis at " + gone + ": connection refused by " + gone + "\n"
	for _, args := range []string{
		"show x", "waiters x", "ls", "jobs", "jobs x", "leaders", "leaders x", "top --count 1", "doctor", "run x true", "run -n x true", "run --permits 2 x true", "sem show x", "sem set x 1",
		"latch await x", "force-unlock x --yes --id a:1", "demo", "bench",
	} {
		code, stdout, stderr := execute(t, append([]string{"-u", "redis://" + gone}, strings.Fields(args)...)...)
		assert.Equal(t, exit.Unavailable, code, args)
		assert.Empty(t, stdout, args)
		assert.Equal(t, want, stderr, args)
	}
}
