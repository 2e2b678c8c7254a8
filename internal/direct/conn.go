package direct

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// Soon is how long Do waits for an answer at most, and half of it what it waits
	// at least: an answer takes far less, and whoever cancels is told within 100 ms.
	Soon = 50 * time.Millisecond
	// kept is how large a buffer may be that is kept.
	kept = 16 << 10
)

// ErrPending is what Do returns when the answer has not come yet.
var ErrPending = errors.New("no answer yet")

// ErrArgument is what Do returns when it has sent nothing, since it cannot send an
// argument of that kind.
var ErrArgument = errors.New("an argument that cannot be sent")

// errNothing is that there is nothing to be read yet.
var errNothing = errors.New("nothing has come")

// errAnswer is what a server says that does not speak Redis's protocol, or speaks out
// of turn.
var errAnswer = errors.New("the answer is not one of Redis")

// A Conn is a connection that one caller at a time has for one command.
type Conn struct {
	net  net.Conn
	shut func() // closes it, and what made it
	pool *Pool

	born   time.Time
	used   time.Time // when it was put back
	sent   time.Time // when the command was
	until  time.Time // the deadline that is set; zero: unknown
	out    []byte    // the command
	in     []byte    // what has been read of the answer
	ahead  bool      // the answer to a PING comes before it
	broken bool
}

// ping is sent before a command whose answer may come last.
const ping = "*1\r\n$4\r\nPING\r\n"

// Do sends a command and reads its answer. An error of Redis's is a redis.Error. With
// ErrPending the answer has not come yet, and the caller has somebody Finish. After
// any other error but those two the connection is of no use.
func (c *Conn) Do(args []any) (Answer, error) { return c.do(args, false) }

// DoLast is Do for a command by which Redis tells others something for which they wait:
// they come before the caller. Redis writes to one connection after another, first to the
// one that was last to get something to be written: for a command alone that is the
// caller's. A PING ahead makes it the first to get something.
func (c *Conn) DoLast(args []any) (Answer, error) { return c.do(args, true) }

func (c *Conn) do(args []any, last bool) (Answer, error) {
	out := c.out[:0]
	if last {
		out = append(out, ping...)
	}
	out, ok := encode(out, args)
	c.out = out
	if !ok {
		return Answer{}, ErrArgument
	}
	n := offer(c.net, c.out) // Redis has it before anything else is seen to
	c.sent, c.ahead = time.Now(), last
	if left := c.until.Sub(c.sent); left < Soon/2 || left > Soon {
		// One deadline serves the commands of a while: to set it is not free.
		c.until = c.sent.Add(Soon)
		if err := c.net.SetDeadline(c.until); err != nil {
			return Answer{}, c.fail(err)
		}
	}
	if n < len(c.out) {
		if _, err := c.net.Write(c.out[n:]); err != nil {
			return Answer{}, c.fail(err)
		}
	}
	a, err := c.read(true)
	if err != nil && timedOut(err) {
		err = ErrPending
	}
	return a, err
}

// Finish goes on reading an answer, until so long after the command was sent at most.
func (c *Conn) Finish(most time.Duration) (Answer, error) {
	c.until = c.sent.Add(most)
	if err := c.net.SetDeadline(c.until); err != nil {
		return Answer{}, c.fail(err)
	}
	a, err := c.read(false)
	if err != nil && timedOut(err) {
		c.broken = true
	}
	return a, err
}

// timedOut reports whether a deadline was over.
func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// read reads what there is of an answer until it is whole. When the command has just
// been sent it may begin by polling for it.
func (c *Conn) read(sent bool) (Answer, error) {
	for polls := sent; ; {
		if bytes.HasSuffix(c.in, lineEnd) { // else it is not whole, or none
			a, n, err := parse(c.in)
			if c.ahead && n > 0 { // also when it is an error
				c.ahead, c.in = false, slices.Delete(c.in, 0, n)
				continue
			}
			if !errors.Is(err, errMore) {
				return c.answer(a, n, err)
			}
		}
		if len(c.in) == cap(c.in) {
			c.in = slices.Grow(c.in, max(512, len(c.in)))
		}
		b := c.in[len(c.in):cap(c.in)]
		n, err := 0, errNothing
		if polls {
			polls = false
			n, err = c.poll(b)
		}
		if errors.Is(err, errNothing) {
			n, err = c.sleep(b, sent)
		}
		c.in = c.in[:len(c.in)+n]
		switch {
		case n > 0:
		case err != nil && timedOut(err):
			return Answer{}, err
		case err != nil:
			return Answer{}, c.fail(err)
		}
	}
}

// poll reads what comes very soon; errNothing says that it has to be waited for.
func (c *Conn) poll(b []byte) (int, error) {
	q, ok := c.net.(*quick)
	if !ok || !c.pool.polling.begin() {
		return 0, errNothing
	}
	n, err := q.poll(b, c.sent)
	c.pool.polling.end(!errors.Is(err, errNothing), time.Since(c.sent))
	return n, err
}

// sleep waits for something to be read. It counts as one beside whom others may not poll,
// unless the command was sent a while ago: its answer may be long in coming.
func (c *Conn) sleep(b []byte, sent bool) (int, error) {
	if sent {
		c.pool.polling.sleepers.Add(1)
		defer c.pool.polling.sleepers.Add(-1)
	}
	return c.net.Read(b)
}

// answer returns what has been read, of which an answer is n bytes long.
func (c *Conn) answer(a Answer, n int, err error) (Answer, error) {
	rest := len(c.in) - n
	c.in = c.in[:0]
	switch {
	case n == 0:
		return Answer{}, c.fail(err)
	case rest > 0: // nothing more was asked for
		return Answer{}, c.fail(fmt.Errorf("%w: there are %d bytes behind it", errAnswer, rest))
	}
	if err != nil && strings.HasPrefix(err.Error(), "READONLY") {
		c.broken = true // the next connection may be one to the primary
	}
	return a, err
}

var lineEnd = []byte("\r\n")

// fail notes that the connection is of no use any more.
func (c *Conn) fail(err error) error {
	c.broken = true
	return err
}

// usable reports whether the server has not closed the connection since it was
// used, as far as can be told. One that is trusted is not looked at just after its use.
func (c *Conn) usable(now time.Time, trusted bool) bool {
	since := now.Sub(c.used)
	if since <= sure && trusted {
		return true
	}
	sys, ok := c.net.(syscall.Conn)
	if !ok {
		return since <= blind
	}
	return since <= idle && alive(sys)
}

// Put gives the connection back, or closes it when it is of no use.
func (c *Conn) Put() { c.pool.put(c) }
