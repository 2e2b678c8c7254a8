package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	verbSubscribe    = "subscribe"
	verbUnsubscribe  = "unsubscribe"
	verbSSubscribe   = "ssubscribe"
	verbSUnsubscribe = "sunsubscribe"
	verbPing         = "ping"
)

// op is a command that awaits its answer: one frame per part, one for a PING, or
// a single error.
type op struct {
	verb  string
	parts []*part
	at    int // parts answered
}

// command is what the writer needs of an op.
type command struct {
	verb  string
	names []string
}

// conn is one redis.PubSub. Its writer makes, uses and closes it.
type conn struct {
	n         *Notifier
	link      *link
	ctx       context.Context // ends the dial
	cancel    context.CancelFunc
	cmds      chan []command // closed to end the connection
	lastFrame atomic.Int64   // as Notifier.elapsed
	frames    atomic.Uint64

	// Owned by the control goroutine.
	fifo       []*op // written, not answered
	writing    bool  // the writer has commands in hand
	up         bool  // the first command went out
	ping       bool  // a PING is to be written
	openedAt   time.Time
	bound      time.Duration // how long it may take to be up
	upAt       time.Time
	pingAt     time.Time // when the last PING was decided on
	pingFrames uint64    // frames at that time
	progressAt time.Time // when the last answer came, or the wait for one began
}

// hand gives commands to the writer. There is room: it is called only when the
// writer has reported the last ones.
func (c *conn) hand(ops []*op, now time.Time) {
	if len(c.fifo) == 0 {
		c.progressAt = now
	}
	cmds := make([]command, len(ops))
	for i, o := range ops {
		cmds[i].verb = o.verb
		for _, p := range o.parts {
			cmds[i].names = append(cmds[i].names, p.ch.name)
		}
	}
	c.fifo = append(c.fifo, ops...)
	c.writing = true
	c.cmds <- cmds
}

func (c *conn) head() *op {
	if len(c.fifo) == 0 {
		return nil
	}
	return c.fifo[0]
}

func (c *conn) answered(now time.Time) {
	c.fifo[0] = nil
	c.fifo = c.fifo[1:]
	c.progressAt = now
}

// take marks the answer for a name and returns its part, or nil if the command
// does not await it. Redis answers in the order of the names; others need not.
func (o *op) take(verb, name string) *part {
	if o == nil || o.verb != verb {
		return nil
	}
	for i := o.at; i < len(o.parts); i++ {
		if p := o.parts[i]; p.ch.name == name {
			o.parts[i], o.parts[o.at] = o.parts[o.at], p
			o.at++
			return p
		}
	}
	return nil
}

func (c *conn) wantPing(now time.Time) {
	c.ping, c.pingAt, c.pingFrames = true, now, c.frames.Load()
}

// pinged reports whether a PING was sent since the last frame. It counts frames,
// since on a coarse clock a PONG may come at the time of its PING.
func (c *conn) pinged() bool {
	return !c.pingAt.IsZero() && c.frames.Load() == c.pingFrames
}

// silentAt returns when the present silence has lasted too long: for a PING, and
// with one sent, for the connection.
func (c *conn) silentAt(hb time.Duration) time.Time {
	if c.pinged() {
		return c.pingAt.Add(c.n.cfg.answerBound())
	}
	return c.n.at(c.lastFrame.Load()).Add(hb)
}

// write is the connection's first goroutine: it opens the PubSub, writes, and
// closes it when the control goroutine has closed cmds.
func (c *conn) write(sharded bool, node *redis.Client) {
	defer c.n.wg.Done()
	defer c.n.post(event{kind: evExit, conn: c})
	defer c.cancel()

	var ps *redis.PubSub
	rdb := c.n.answering(node)
	readTimeout := time.Duration(0) // none
	if NoDeadlines(rdb) {
		readTimeout = -1 // nor is it set to none
	}
	switch {
	case sharded:
		ps = rdb.SSubscribe(c.ctx)
	default:
		ps = rdb.Subscribe(c.ctx)
	}
	defer func() { _ = ps.Close() }()

	up := false
	for cmds := range c.cmds {
		var err error
		for _, cmd := range cmds {
			if up && c.ctx.Err() != nil {
				break // given up in the meantime
			}
			if err = c.writeOne(ps, cmd, up); err != nil {
				break
			}
			if !up {
				up = true
				c.lastFrame.Store(c.n.elapsed())
				c.n.wg.Add(1)
				go c.read(ps, readTimeout)
			}
		}
		c.n.post(event{kind: evWritten, conn: c, err: err})
	}
}

// answering returns node, or rdb for nil. Where that would wait for ever for the
// answers of a handshake, which no context ends, it is the same with a bound; but not on
// connections that know no deadlines.
func (n *Notifier) answering(node *redis.Client) redis.UniversalClient {
	if node == nil {
		var one bool
		if node, one = n.rdb.(*redis.Client); !one {
			return n.rdb
		}
	}
	if node.Options().ReadTimeout == 0 {
		return node.WithTimeout(n.cfg.dialBound())
	}
	return node
}

// NoDeadlines reports whether go-redis sets no deadlines on the connections of rdb: its
// ReadTimeout is -2, for connections that know none, such as those of an SSH tunnel.
func NoDeadlines(rdb redis.UniversalClient) bool {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return rdb.Options().ReadTimeout < 0
	case *redis.ClusterClient:
		return rdb.Options().ReadTimeout < 0
	}
	return false
}

// writeOne writes a command. The first one dials, within the life of the
// connection. The later ones get a context that is cancelled already: go-redis
// takes only the deadline from it, and a cancelled one keeps its hidden
// reconnect after an error from dialling while it holds the PubSub's mutex.
func (c *conn) writeOne(ps *redis.PubSub, cmd command, up bool) error {
	var ctx context.Context
	var cancel context.CancelFunc
	if up {
		ctx, cancel = context.WithTimeout(context.Background(), c.n.cfg.Heartbeat)
		cancel()
	} else {
		ctx, cancel = context.WithTimeout(c.ctx, c.bound)
		defer cancel()
	}
	if cmd.verb == verbPing {
		return ps.Ping(ctx)
	}
	if len(cmd.names) == 0 {
		// go-redis would take it for "all".
		return errors.New("pubsub: command without names")
	}
	switch cmd.verb {
	case verbSubscribe:
		return ps.Subscribe(ctx, cmd.names...)
	case verbUnsubscribe:
		return ps.Unsubscribe(ctx, cmd.names...)
	case verbSSubscribe:
		return ps.SSubscribe(ctx, cmd.names...)
	default:
		return ps.SUnsubscribe(ctx, cmd.names...)
	}
}

// read is the connection's second goroutine. It ends when the connection fails
// or is closed by the writer.
func (c *conn) read(ps *redis.PubSub, timeout time.Duration) {
	defer c.n.wg.Done()
	// Cancelled for the same reason as in writeOne; without a deadline it does
	// not limit the read. Silence is the control goroutine's business.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		f, err := receive(ctx, ps, timeout)
		if err != nil {
			c.n.post(event{kind: evLost, conn: c, err: err})
			return
		}
		now := c.n.elapsed()
		c.lastFrame.Store(now)
		c.frames.Add(1)
		c.n.lastFrame.Store(now)
		switch f.kind {
		case "message", "smessage":
			c.n.message(f.channel, f.payload)
		case verbSubscribe, verbUnsubscribe, verbSSubscribe, verbSUnsubscribe:
			c.n.post(event{kind: evConfirm, conn: c, verb: f.kind, name: f.channel})
		case "pong":
			c.n.post(event{kind: evPong, conn: c})
		case "":
			c.n.post(event{kind: evReply, conn: c, err: f.err})
		}
	}
}

// A frame is what Redis says to a subscriber.
type frame struct {
	kind    string // "message", "subscribe", "pong" and so on, or "" for an error
	channel string
	payload string // of a message
	err     error  // one that Redis has sent: the answer to a command
}

// receive has go-redis read one frame. It asserts types on what the server sends; a
// frame of an unexpected shape is to cost the connection, not the process.
func receive(ctx context.Context, ps *redis.PubSub, timeout time.Duration) (f frame, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("pubsub: malformed frame: %v", r)
		}
	}()
	msg, err := ps.ReceiveTimeout(ctx, timeout)
	switch m := msg.(type) {
	case *redis.Message:
		return frame{kind: "message", channel: m.Channel, payload: m.Payload}, nil
	case *redis.Subscription:
		return frame{kind: m.Kind, channel: m.Channel}, nil
	case *redis.Pong:
		return frame{kind: "pong"}, nil
	}
	switch {
	case isReply(err):
		return frame{err: err}, nil
	case unknownPush(err):
		return frame{kind: "unknown"}, nil
	}
	return frame{}, err
}

// unknownPush reports a frame that go-redis read but has no type for, such as a
// push of a newer server. The connection is fine.
func unknownPush(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "redis: unsupported pubsub message")
}

func isReply(err error) bool {
	var re redis.Error
	return errors.As(err, &re)
}
