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

// op is a command that awaits its answer: one frame for each part, one frame
// for a PING, or a single error.
type op struct {
	verb  string
	parts []*part
	at    int // number of parts answered
}

// command is the part of an op that the writer needs.
type command struct {
	verb  string
	names []string
}

// conn is one redis.PubSub. Its writer creates, uses and closes it.
type conn struct {
	n         *Notifier
	link      *link
	ctx       context.Context // ends the dial
	cancel    context.CancelFunc
	cmds      chan []command // closed to end the connection
	lastFrame atomic.Int64   // a time of Notifier.elapsed
	frames    atomic.Uint64

	// Owned by the control goroutine.
	fifo       []*op // written, but not answered
	writing    bool  // the writer has not finished its commands
	up         bool  // the first command was sent
	ping       bool  // a PING is to be written
	openedAt   time.Time
	bound      time.Duration // time limit for becoming up
	upAt       time.Time
	pingAt     time.Time // when the last PING was requested
	pingFrames uint64    // frames at that time
	progressAt time.Time // when the last answer came, or the present wait for one began
}

// hand passes commands to the writer. It does not block, because it is called
// only after the writer has reported the previous commands.
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
// does not await it. Redis answers in the order of the names; other servers
// need not.
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

// pinged reports whether a PING was sent since the last frame. It compares
// frame counts, because on a coarse clock a PONG may have the time of its PING.
func (c *conn) pinged() bool {
	return !c.pingAt.IsZero() && c.frames.Load() == c.pingFrames
}

// silentAt returns when the present silence becomes too long: for sending a
// PING, or, if one was sent, for keeping the connection.
func (c *conn) silentAt(hb time.Duration) time.Time {
	if c.pinged() {
		return c.pingAt.Add(c.n.cfg.answerBound())
	}
	return c.n.at(c.lastFrame.Load()).Add(hb)
}

// write is the connection's first goroutine. It opens the PubSub, writes, and
// closes the PubSub when the control goroutine has closed cmds.
func (c *conn) write(sharded bool, node *redis.Client) {
	defer c.n.wg.Done()
	defer c.n.post(event{kind: evExit, conn: c})
	defer c.cancel()

	var ps *redis.PubSub
	rdb := c.n.answering(node)
	readTimeout := time.Duration(0) // no timeout
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

// answering returns node, or rdb if node is nil. If that client has no read
// timeout, answering returns a copy with one: no context ends a handshake,
// which would otherwise wait for ever. Connections without deadlines stay
// without one.
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

// NoDeadlines reports whether go-redis sets no deadlines on the connections of
// rdb: its ReadTimeout is -2, for connections without deadlines, such as those
// through an SSH tunnel.
func NoDeadlines(rdb redis.UniversalClient) bool {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return rdb.Options().ReadTimeout < 0
	case *redis.ClusterClient:
		return rdb.Options().ReadTimeout < 0
	}
	return false
}

// writeOne writes a command. The first command dials, under the context of the
// connection. Later commands get a cancelled context: go-redis takes only the
// deadline from it, and a cancelled context stops go-redis's own reconnect,
// which would dial while holding the mutex of the PubSub.
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
		// go-redis would take no names for all names.
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
	// The context is cancelled for the same reason as in writeOne. Without a
	// deadline it does not limit the read. The control goroutine watches for
	// silence.
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

// A frame is a message from Redis to a subscriber.
type frame struct {
	kind    string // "message", "subscribe", "pong" and so on, or "" for an error
	channel string
	payload string // of a message
	err     error  // error reply to a command
}

// receive reads one frame through go-redis, which panics on a frame of
// unexpected shape. Such a frame costs the connection, not the process.
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

// unknownPush reports whether go-redis has read a frame of a type that it does
// not know, such as a push of a newer server. The connection is still usable.
func unknownPush(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "redis: unsupported pubsub message")
}

func isReply(err error) bool {
	var re redis.Error
	return errors.As(err, &re)
}
