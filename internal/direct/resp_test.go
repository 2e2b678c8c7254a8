package direct

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestEncode(t *testing.T) {
	out, ok := encode([]byte("x"), []any{"evalsha", 2, int64(-30), "", "a\r\nb"})
	require.True(t, ok)
	require.Equal(t, "x*5\r\n$7\r\nevalsha\r\n$1\r\n2\r\n$3\r\n-30\r\n$0\r\n\r\n$4\r\na\r\nb\r\n", string(out))
	for _, arg := range []any{nil, 1.5, uint64(1), []byte("x"), true} {
		_, ok := encode(nil, []any{"get", arg})
		require.False(t, ok, "%T", arg)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Answer
		err  error
	}{
		{":0\r\n", Answer{}, nil},
		{":-12\r\n", Answer{Int: -12}, nil},
		{":9223372036854775807\r\n", Answer{Int: 1<<63 - 1}, nil},
		{":-9223372036854775808\r\n", Answer{Int: -1 << 63}, nil},
		{"*0\r\n", Answer{Ints: []int64{}}, nil},
		{"*3\r\n:1\r\n:-2\r\n:1795553540269788\r\n", Answer{Ints: []int64{1, -2, 1795553540269788}}, nil},
		{"*2\r\n:1\r\n$1\r\na\r\n", Answer{Any: []any{int64(1), "a"}, Other: true}, nil},
		{"*3\r\n$-1\r\n*-1\r\n*1\r\n+b\r\n", Answer{Any: []any{nil, nil, []any{"b"}}, Other: true}, nil},
		{"*1\r\n-ERR in it\r\n", Answer{Any: []any{sent("ERR in it")}, Other: true}, nil},
		{"$6\r\na\r\nb\r\n\r\n", Answer{Any: "a\r\nb\r\n", Other: true}, nil},
		{"$-1\r\n", Answer{Other: true}, nil},
		{"+OK\r\n", Answer{Any: "OK", Other: true}, nil},
		{"+\r\n", Answer{Any: "", Other: true}, nil},
		{"-NOSCRIPT No matching script.\r\n", Answer{}, sent("NOSCRIPT No matching script.")},
	} {
		a, n, err := parse([]byte(c.in))
		require.Equal(t, c.err, err, "%q", c.in)
		require.Equal(t, c.want, a, "%q", c.in)
		require.Equal(t, len(c.in), n, "%q", c.in)
		for i := 1; i < len(c.in); i++ {
			_, n, err := parse([]byte(c.in[:i]))
			require.ErrorIs(t, err, errMore, "%q", c.in[:i])
			require.Zero(t, n)
		}
	}
}

func TestParseRubbish(t *testing.T) {
	for _, in := range []string{
		"HTTP/1.1 400\r\n", ":\r\n", ":1a\r\n", ":-\r\n", ":1\n", ":99999999999999999999\r\n", "+\n", "$1\r\nabc\r\n",
		"$536870913\r\n", "$9223372036854775807\r\n", ">1\r\n:1\r\n", "*1\r\n!\r\n", strings.Repeat("*1\r\n", 20) + ":1\r\n",
	} {
		_, n, err := parse([]byte(in))
		require.ErrorIs(t, err, errAnswer, "%q", in)
		require.Zero(t, n, "%q", in)
	}
}

// An error is one that go-redis and those who look for its errors know.
func TestError(t *testing.T) {
	for text, is := range map[string]func(error) bool{
		"READONLY You can't write":                 redis.IsReadOnlyError,
		"OOM command not allowed":                  redis.IsOOMError,
		"LOADING Redis is loading":                 redis.IsLoadingError,
		"NOPERM this user has no permissions":      redis.IsPermissionError,
		"NOAUTH Authentication required.":          redis.IsAuthError,
		"MASTERDOWN Link with MASTER is down":      redis.IsMasterDownError,
		"CLUSTERDOWN The cluster is down":          redis.IsClusterDownError,
		"TRYAGAIN Multiple keys request":           redis.IsTryAgainError,
		"ERR max number of clients reached":        redis.IsMaxClientsError,
		"NOREPLICAS Not enough good replicas here": redis.IsNoReplicasError,
	} {
		_, _, err := parse([]byte("-" + text + "\r\n"))
		require.EqualError(t, err, text)
		var reply redis.Error
		require.ErrorAs(t, err, &reply)
		require.True(t, wasSent(err))
		require.True(t, is(err), text)
		require.True(t, is(fmt.Errorf("around it: %w", err)), text)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{":1\r\n", "*2\r\n:1\r\n:2\r\n", "*2\r\n$3\r\nabc\r\n*0\r\n", "-ERR x\r\n", "$-1\r\n", "*1000000000\r\n", "$0\r\n\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		a, n, err := parse(in)
		if n < 0 || n > len(in) || (n == 0) != (err != nil && !wasSent(err)) {
			t.Fatalf("%q: n = %d, %v", in, n, err)
		}
		if n == 0 {
			return
		}
		// What is behind an answer has nothing to do with it.
		b, m, again := parse(append(bytes.Clone(in[:n]), ":1\r\n"...))
		require.Equal(t, a, b)
		require.Equal(t, n, m)
		require.Equal(t, err, again)
	})
}
