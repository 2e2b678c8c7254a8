package direct

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// Who sends a command at a silent server has somebody else wait, soon.
func TestNoAnswerSoon(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		p := newPool(t, env.Redis)
		c := warm(t, p)
		link := env.Link(env.Redis)
		for range 100 { // deadlines are not set each time
			require.Equal(t, "PONG", do(t, c, "ping").Any)
			time.Sleep(7 * time.Millisecond)
		}
		link.OnNext(1, "ping", redistest.Hold)
		start := time.Now()
		_, err := c.Do([]any{"ping"})
		require.ErrorIs(t, err, ErrPending)
		require.LessOrEqual(t, time.Since(start), Soon)
		require.GreaterOrEqual(t, time.Since(start), Soon/2)
		time.AfterFunc(time.Second, link.Release)
		start = time.Now()
		a, err := c.Finish(time.Minute)
		require.NoError(t, err)
		require.Equal(t, "PONG", a.Any)
		require.Equal(t, time.Second, time.Since(start))
		c.Put()
		require.Same(t, c, p.Get(), "it is as good as before")
		require.Equal(t, "PONG", do(t, c, "ping").Any)

		time.Sleep(10 * time.Millisecond) // the deadline is that of the command before
		link.OnNext(1, "ping", redistest.Swallow)
		start = time.Now()
		_, err = c.Do([]any{"ping"})
		require.ErrorIs(t, err, ErrPending)
		require.Equal(t, Soon-10*time.Millisecond, time.Since(start), "though it may have had longer before")
		_, err = c.Finish(time.Minute)
		require.True(t, timedOut(err), "%v", err)
		require.Equal(t, time.Minute, time.Since(start), "since it was sent: not less, or it is asked again too soon")
		c.Put()
		require.Empty(t, p.all, "the next answer might be that one")
	})
}

// What cannot be sent leaves the connection as it was.
func TestDoRefusesArguments(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := warm(t, newPool(t, env.Redis))
		_, err := c.Do([]any{"set", "a", 1.5})
		require.ErrorIs(t, err, ErrArgument)
		require.Equal(t, "PONG", do(t, c, "ping").Any)
		_, err = c.Do([]any{"nonsense"})
		require.True(t, wasSent(err), "%v", err)
		require.Equal(t, "PONG", do(t, c, "ping").Any, "an error is an answer")
		a, err := c.DoLast([]any{"echo", "a"})
		require.NoError(t, err)
		require.Equal(t, "a", a.Any)
		_, err = c.DoLast([]any{"set", "a", 1.5})
		require.ErrorIs(t, err, ErrArgument)
		require.Equal(t, "PONG", do(t, c, "ping").Any)
	})
}

// script lets a Conn talk to whom answers with these pieces, one by one.
func script(t *testing.T, pieces ...string) (*Conn, *Pool) {
	client, server := net.Pipe()
	p := &Pool{all: map[*Conn]struct{}{}}
	c := &Conn{net: client, pool: p, shut: func() { _ = client.Close() }}
	p.all[c] = struct{}{}
	t.Cleanup(func() { _ = client.Close() })
	go func() {
		defer func() { _ = server.Close() }()
		if _, err := server.Read(make([]byte, 1024)); err != nil {
			return
		}
		for _, piece := range pieces {
			if _, err := io.WriteString(server, piece); err != nil {
				return
			}
		}
		_, _ = server.Read(make([]byte, 1)) // until the client closes it
	}()
	return c, p
}

func TestAnswers(t *testing.T) {
	long := strings.Repeat("x\r\n", 50_000)
	for name, c := range map[string]struct {
		pieces []string
		want   Answer
		err    string
		broken bool
	}{
		"in pieces":           {[]string{"*2\r", "\n:1\r\n:", "2", "\r\n"}, Answer{Ints: []int64{1, 2}}, "", false},
		"long":                {[]string{"$150000\r\n", long, "\r\n"}, Answer{Any: long, Other: true}, "", false},
		"an error":            {[]string{"-ERR no\r\n"}, Answer{}, "ERR no", false},
		"of a replica":        {[]string{"-READONLY You can't\r\n"}, Answer{}, "READONLY You can't", true},
		"no Redis":            {[]string{"HTTP/1.1 400 Bad Request\r\n"}, Answer{}, "the answer is not one of Redis: it begins with 'H'", true},
		"more than one":       {[]string{":1\r\n:2\r\n"}, Answer{}, "the answer is not one of Redis: there are 4 bytes behind it", true},
		"an error and more":   {[]string{"-ERR no\r\n:2\r\n"}, Answer{}, "the answer is not one of Redis: there are 4 bytes behind it", true},
		"the end in between":  {[]string{"*2\r\n:1\r\n", "end"}, Answer{}, "", true},
		"a push of RESP3":     {[]string{">2\r\n+a\r\n+b\r\n"}, Answer{}, "the answer is not one of Redis: it begins with '>'", true},
		"a number that is no": {[]string{":x\r\n"}, Answer{}, `the answer is not one of Redis: ":x\r"`, true},

		"last":                     {[]string{"+PONG\r\n:1\r\n"}, Answer{Int: 1}, "", false},
		"last, in pieces":          {[]string{"+PONG\r", "\n", ":1\r\n"}, Answer{Int: 1}, "", false},
		"last, without rights":     {[]string{"-NOPERM no\r\n*1\r\n:1\r\n"}, Answer{Ints: []int64{1}}, "", false},
		"last, an error":           {[]string{"+PONG\r\n-ERR no\r\n"}, Answer{}, "ERR no", false},
		"last, more than one":      {[]string{"+PONG\r\n:1\r\n:2\r\n"}, Answer{}, "the answer is not one of Redis: there are 4 bytes behind it", true},
		"last, no Redis":           {[]string{"HTTP/1.1 400 Bad Request\r\n"}, Answer{}, "the answer is not one of Redis: it begins with 'H'", true},
		"last, the end in between": {[]string{"+PONG\r\n", "end"}, Answer{}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, p := script(t, c.pieces...)
				do := conn.Do
				if strings.HasPrefix(name, "last") {
					do = conn.DoLast
				}
				a, err := do([]any{"x"})
				switch {
				case c.pieces[len(c.pieces)-1] == "end":
					require.ErrorIs(t, err, ErrPending)
					time.AfterFunc(time.Second, func() { _ = conn.net.Close() })
					_, err = conn.Finish(time.Minute)
					require.ErrorIs(t, err, io.ErrClosedPipe)
				case c.err != "":
					require.EqualError(t, err, c.err)
				default:
					require.NoError(t, err)
				}
				require.Equal(t, c.want, a)
				require.Equal(t, c.broken, conn.broken)
				conn.Put()
				require.Equal(t, c.broken, len(p.all) == 0)
				require.LessOrEqual(t, cap(conn.in), kept)
			})
		})
	}
}
