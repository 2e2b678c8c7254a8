package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// A Frame is what Redis says to who has subscribed.
type Frame struct {
	Kind    string // "message", "subscribe", "pong" and so on, or "" for an error
	Channel string
	Payload string // of a message
	Err     error  // one that Redis has sent: the answer to a command
}

// A Listener reads what comes over a connection that go-redis has dialled, says who the
// user is on, subscribes on and closes. Its zero value knows of none.
type Listener struct {
	mu   sync.Mutex // guards conn until Listens has been called
	conn net.Conn
	in   []byte
	at   int    // of in, so much has been returned
	last string // the channel of the last message
}

type listenerKey struct{}

// Listening returns a context in which a [Subscriber] tells l of the connection that it
// dials.
func Listening(ctx context.Context, l *Listener) context.Context {
	return context.WithValue(ctx, listenerKey{}, l)
}

// dialled tells who listens in ctx of conn.
func dialled(ctx context.Context, conn net.Conn) {
	if l, ok := ctx.Value(listenerKey{}).(*Listener); ok {
		l.mu.Lock()
		l.conn = conn // the last one is that which go-redis goes on with
		l.mu.Unlock()
	}
}

// Listens says whether there is a connection, to be read by Next and by nobody else.
// It is called once go-redis has written the first command that subscribes: until then
// go-redis reads.
func (l *Listener) Listens() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil && l.conn.SetReadDeadline(time.Time{}) == nil // that of the last answer which go-redis has read
}

// Next waits for a frame and returns it. After an error the connection is of no use.
func (l *Listener) Next() (Frame, error) {
	for {
		if l.at < len(l.in) {
			f, n, err := l.frame(l.in[l.at:])
			if !errors.Is(err, errMore) {
				l.at += n
				return f, err
			}
		}
		if err := l.read(); err != nil {
			return Frame{}, err
		}
	}
}

// read reads more of a frame.
func (l *Listener) read() error {
	switch rest := len(l.in) - l.at; {
	case rest == 0 && cap(l.in) > kept:
		l.in = nil
	default:
		l.in = slices.Delete(l.in, 0, l.at)
	}
	l.at = 0
	if len(l.in) == cap(l.in) {
		l.in = slices.Grow(l.in, max(512, len(l.in)))
	}
	n, err := l.conn.Read(l.in[len(l.in):cap(l.in)])
	l.in = l.in[:len(l.in)+n]
	if n > 0 {
		return nil
	}
	return err
}

var messageHead = []byte("*3\r\n$7\r\nmessage\r\n")

// frame reads a frame from the beginning of in, of which it is n bytes long.
func (l *Listener) frame(in []byte) (f Frame, n int, err error) {
	if rest, ok := bytes.CutPrefix(in, messageHead); ok { // nearly all are messages
		channel, n, err := bulk(rest)
		if err != nil {
			return Frame{}, 0, err
		}
		payload, m, err := bulk(rest[n:])
		if err != nil {
			return Frame{}, 0, err
		}
		if string(channel) != l.last {
			l.last = string(channel)
		}
		return Frame{Kind: "message", Channel: l.last, Payload: string(payload)}, len(messageHead) + n + m, nil
	}
	parse := parseAny
	if in[0] == '>' { // of a server that speaks RESP3, whatever it is asked for
		parse = parseArray
	}
	v, n, err := parse(in, 0)
	if err != nil {
		return Frame{}, 0, err
	}
	switch v := v.(type) {
	case error:
		return Frame{Err: v}, n, nil
	case string:
		if v == "PONG" { // of one that is subscribed to nothing
			return Frame{Kind: "pong"}, n, nil
		}
	case []any:
		var text [3]string
		for i := range min(len(v), len(text)) {
			text[i], _ = v[i].(string)
		}
		if text[0] != "" {
			return Frame{Kind: text[0], Channel: text[1], Payload: text[2]}, n, nil
		}
	}
	return Frame{}, 0, fmt.Errorf("%w: %.100q is nothing to who has subscribed", errAnswer, fmt.Sprint(v))
}
