package main

import (
	"context"
	"net"
	"sync/atomic"
)

// A wire counts what the connections of a process send.
type wire struct {
	commands atomic.Int64
	open     atomic.Int64
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.open.Add(1)
	return &counted{TCPConn: c.(*net.TCPConn), wire: w}, nil
}

// A counted is a connection that counts the commands in what is written. It
// embeds the TCP connection because go-redis looks for its file descriptor.
type counted struct {
	*net.TCPConn
	wire   *wire
	parser parser
	closed atomic.Bool
}

func (c *counted) Write(b []byte) (int, error) {
	if n := c.parser.feed(b); n > 0 {
		c.wire.commands.Add(n)
	}
	return c.TCPConn.Write(b)
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.wire.open.Add(-1)
	}
	return c.TCPConn.Close()
}

// A parser finds where the requests in a stream end: arrays of bulk strings.
type parser struct {
	args   int  // of the present request, still to come
	skip   int  // bytes of the present argument, with its end of line
	number int  // the one in the present line, so far
	head   byte // '*' or '$' of the present line, 0 at its start
}

// feed returns how many requests end in b.
func (p *parser) feed(b []byte) (n int64) {
	for len(b) > 0 {
		if p.skip > 0 {
			k := min(p.skip, len(b))
			p.skip -= k
			b = b[k:]
			if p.skip == 0 {
				if p.args--; p.args == 0 {
					n++
				}
			}
			continue
		}
		c := b[0]
		b = b[1:]
		switch {
		case p.head == 0:
			p.head, p.number = c, 0
		case c >= '0' && c <= '9':
			p.number = p.number*10 + int(c-'0')
		case c == '\n' && p.head == '*':
			p.args, p.head = p.number, 0
		case c == '\n':
			p.skip, p.head = p.number+2, 0
		}
	}
	return n
}
