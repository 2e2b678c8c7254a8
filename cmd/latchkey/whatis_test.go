package main

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/internal/text"
)

// A command that meets something else says what that is, and leaves it alone.
func TestSaysWhatItIs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "RPUSH", "list", "x")
	s.Do(t, "SET", "text", "x")
	s.Do(t, "HSET", "hash", "a", "b")
	s.Do(t, "SADD", "set", "x")
	s.Do(t, "ZADD", "zset", "1", "x")
	s.Do(t, "HSET", "lock", "0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51:17", "1")
	token := "redisson_lock_token:{job}"
	s.Do(t, "SET", token, "41")
	s.Do(t, "RPUSH", "redisson_lock_queue:{job}", "x")
	const counter = "redisson_lock_token:{job} is the counter of the fencing tokens of job\n"
	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"show list", exit.Failed, "list: the key is a list\n"},
		{"waiters set", exit.Failed, "set: the key is a set\n"},
		{"show text", exit.Failed, "text: the key is a string that is no integer\n"},
		{"sem show hash", exit.Failed, "hash: the key is a hash that is no lock\n"},
		{"show redisson_lock_queue:{job}", exit.Failed, "redisson_lock_queue:{job}: the key is a part of the queue of job\n"},
		{"sem set lock 3", exit.Failed, "lock: the key is a lock\n"},
		{"sem add zset 3", exit.Failed, "zset: the key is a zset\n"},
		{"sem release list", exit.Failed, "list: the key is a list\n"},
		{"sem release text --id 0123456789abcdef0123456789abcdef", exit.Failed, "text: the key is a string that is no integer\n"},
		{"latch set lock 3", exit.Failed, "lock: the key is a lock\n"},
		{"latch await list --nonblock", exit.Failed, "list: the key is a list\n"},
		{"force-unlock list --yes --id a:1", exit.Failed, "list: the key is a list\n"},
		{"run -n list true", exit.Unavailable, "the lock \"list\" cannot be had: the key is a list\n"},
		{"run -n --permits 2 lock true", exit.Unavailable, "the permits of \"lock\" cannot be had: the key is a lock\n"},
		{"sem set TOKEN 3", exit.Usage, counter},
		{"sem add TOKEN 3", exit.Usage, counter},
		{"sem acquire TOKEN", exit.Usage, counter},
		{"sem release TOKEN", exit.Usage, counter},
		{"sem delete TOKEN --yes", exit.Usage, counter},
		{"latch set TOKEN 3", exit.Usage, counter},
		{"latch count-down TOKEN", exit.Usage, counter},
		{"latch await TOKEN", exit.Usage, counter},
		{"latch delete TOKEN --yes", exit.Usage, counter},
		{"force-unlock TOKEN --yes --id a:1", exit.Usage, counter},
		{"run -n TOKEN true", exit.Usage, counter},
		{"run -n --permits 2 TOKEN true", exit.Usage, counter},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, "TOKEN", token))
		code, stdout, stderr := execute(t, at(s, args...)...)
		assert.Equal(t, c.code, code, c.args)
		assert.Empty(t, stdout, c.args)
		assert.Contains(t, stderr, c.stderr, c.args)
	}
	assert.Equal(t, "41", s.Do(t, "GET", token)[0])
	for _, args := range []string{"show", "sem show", "latch show"} {
		code, stdout, _ := execute(t, at(s, append(strings.Fields(args), token)...)...)
		assert.Zero(t, code)
		assert.Regexp(t, `counter\n  this is    the counter of the fencing tokens of job\n  value      41\n`, stdout, args)
	}
}

// What a server says, or a name does, moves no cursor.
func TestServerTextsAreHarmless(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if !strings.HasPrefix(lines.Text(), "*") {
						continue
					}
					if _, err := conn.Write([]byte("-ERR \x1b]0;owned\x07\x1b[2J\u202e\u009b31m you\r\n")); err != nil {
						return
					}
				}
			}()
		}
	}()
	for _, args := range [][]string{
		{"show", "x"},
		{"ls"},
		{"run", "-n", "x", "true"},
		{"run", "-n", "--permits", "2", "x", "true"},
		{"doctor"},
		{"sem", "set", "x", "1"},
		{"latch", "await", "x"},
		{"bench"},
		{"demo", "--duration", "1ms"},
		{"top", "--count", "1"},
		{"force-unlock", "x", "--yes", "--id", "a:1"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) { // each tries again for a while
			t.Parallel()
			_, stdout, stderr := execute(t, append([]string{"-u", "redis://" + l.Addr().String()}, args...)...)
			assert.NotEmpty(t, stderr+stdout)
			for _, text := range []string{stdout, stderr} {
				assert.Equal(t, text, linewise(text))
			}
		})
	}
	// What the caller says is no better.
	for _, args := range [][]string{{"\x1b[2J"}, {"--\x1b[2J"}, {"show", "a", "\x1b[2J"}, {"run", "x", "/\x1b[2J"}, {"show", "x", "--url", "redis://\x1b[2J:1"}} {
		_, _, stderr := execute(t, args...)
		assert.Equal(t, stderr, linewise(stderr), args)
	}
}

func linewise(output string) string {
	lines := strings.Split(output, "\n")
	for i := range lines {
		lines[i] = text.Harmless(lines[i])
	}
	return strings.Join(lines, "\n")
}
