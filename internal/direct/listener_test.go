package direct

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// listener returns a Listener to what is written to the other end.
func listener(t *testing.T) (*Listener, net.Conn) {
	t.Helper()
	l := new(Listener)
	require.False(t, l.Listens(), "to nobody")
	client, server := net.Pipe()
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	dialled(Listening(t.Context(), l), client)
	require.True(t, l.Listens())
	return l, server
}

const message = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$7\r\nhello\r\n\r\n"

func TestListenerReadsFrames(t *testing.T) {
	long := strings.Repeat("x\r\n", 50_000)
	frames := []struct {
		sent string
		want Frame
	}{
		{message, Frame{Kind: "message", Channel: "c", Payload: "hello\r\n"}},
		{"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", Frame{Kind: "subscribe", Channel: "c"}},
		{"*2\r\n$4\r\npong\r\n$0\r\n\r\n", Frame{Kind: "pong"}},
		{">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", Frame{Kind: "message", Channel: "c", Payload: "x"}},
		{"+PONG\r\n", Frame{Kind: "pong"}},
		{"-NOPERM no\r\n", Frame{Err: sent("NOPERM no")}},
		{"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$1\r\nx\r\n", Frame{Kind: "pmessage", Channel: "*", Payload: "c"}},
		{"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", Frame{Kind: "unsubscribe"}},
		{fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n", len(long), long), Frame{Kind: "message", Channel: "c", Payload: long}},
		{message, Frame{Kind: "message", Channel: "c", Payload: "hello\r\n"}},
	}
	var all strings.Builder
	for _, f := range frames {
		all.WriteString(f.sent)
	}
	for _, size := range []int{1, 2, 3, 7, 100, 1 << 20} { // pieces of one write
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			l, server := listener(t)
			go func() {
				for rest := all.String(); rest != ""; {
					n := min(size, len(rest))
					if len(rest) > 150_000/2 { // most of the long one at once
						n = min(max(size, 4096), len(rest))
					}
					if _, err := io.WriteString(server, rest[:n]); err != nil {
						return
					}
					rest = rest[n:]
				}
				_ = server.Close()
			}()
			for _, f := range frames {
				got, err := l.Next()
				require.NoError(t, err)
				require.Equal(t, f.want, got)
			}
			_, err := l.Next()
			require.ErrorIs(t, err, io.EOF)
			require.LessOrEqual(t, cap(l.in), kept, "what a long one took is not kept")
		})
	}
}

func TestListenerRefusesWhatIsNoFrame(t *testing.T) {
	for _, bad := range []string{":1\r\n", "+OK\r\n", "$-1\r\n", "*0\r\n", "*1\r\n:1\r\n", "HTTP/1.1 400 Bad Request\r\n", "*3\r\n$x\r\n", "*3\r\n$7\r\nmessage\r\n:1\r\n"} {
		t.Run(bad, func(t *testing.T) {
			l, server := listener(t)
			go func() { _, _ = io.WriteString(server, message+bad) }()
			_, err := l.Next()
			require.NoError(t, err)
			_, err = l.Next()
			require.ErrorIs(t, err, errAnswer)
		})
	}
}

// The deadline that go-redis has set for an answer of the handshake ends nothing.
func TestListenerHasNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer func() { _, _ = client.Close(), server.Close() }()
		require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Second)))
		l := new(Listener)
		dialled(Listening(t.Context(), l), client)
		require.True(t, l.Listens())
		time.AfterFunc(time.Hour, func() { _, _ = io.WriteString(server, message) })
		got, err := l.Next()
		require.NoError(t, err)
		require.Equal(t, "message", got.Kind)
	})
}

// A Subscriber tells of the connection that go-redis subscribes on, and nobody else's
// client does.
func TestSubscriberIsListenedTo(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		var l Listener
		other := env.Redis.Subscribe(Listening(t.Context(), &l), "c")
		require.False(t, l.Listens())
		require.NoError(t, other.Close())

		sub := Subscriber(env.Redis)
		defer func() { require.NoError(t, sub.Close()) }()
		ps := sub.Subscribe(Listening(t.Context(), &l), "c")
		require.True(t, l.Listens())
		got, err := l.Next()
		require.NoError(t, err)
		require.Equal(t, Frame{Kind: "subscribe", Channel: "c"}, got)
		require.NoError(t, env.Redis.Publish(t.Context(), "c", "hello").Err())
		got, err = l.Next()
		require.NoError(t, err)
		require.Equal(t, Frame{Kind: "message", Channel: "c", Payload: "hello"}, got)
		require.NoError(t, ps.Ping(context.Background()))
		got, err = l.Next()
		require.NoError(t, err)
		require.Equal(t, "pong", got.Kind)
		require.NoError(t, ps.Close())
		_, err = l.Next()
		require.Error(t, err, "closed by go-redis")
	})
}
