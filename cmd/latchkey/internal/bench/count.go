package bench

import (
	"bytes"
	"net"
	"strconv"
	"sync/atomic"
)

// A countedConn is a connection to Redis that counts the commands sent on it.
// (A hook of go-redis would not see those of clients that share the connections
// but have other timeouts.)
type countedConn struct {
	net.Conn
	sent *atomic.Uint64

	args int    // remaining arguments of the present command
	skip int    // remaining bytes of an argument
	line []byte // the beginning of a line
}

// Write counts the commands that begin in p.
func (c *countedConn) Write(p []byte) (int, error) {
	c.count(p)
	return c.Conn.Write(p)
}

// count parses commands as Redis does: "*2\r\n$3\r\nGET\r\n$1\r\na\r\n".
func (c *countedConn) count(p []byte) {
	for len(p) > 0 {
		if n := min(c.skip, len(p)); n > 0 {
			c.skip, p = c.skip-n, p[n:]
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			c.line = append(c.line, p...)
			return
		}
		line := bytes.TrimSuffix(append(c.line, p[:end]...), []byte("\r"))
		c.line, p = c.line[:0], p[end+1:]
		if len(line) == 0 {
			continue
		}
		n, _ := strconv.Atoi(string(line[1:]))
		switch {
		case line[0] == '*':
			c.sent.Add(1)
			c.args = n
		case line[0] == '$' && c.args > 0:
			c.args--
			c.skip = n + len("\r\n")
		}
	}
}
