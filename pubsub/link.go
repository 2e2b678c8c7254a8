package pubsub

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// batchMax is how many names one SUBSCRIBE carries.
	batchMax = 64
	// handMax is how many commands a connection is handed at a time. It bounds
	// what a connection that was given up may still write.
	handMax = 32
	// runningMax is how many connections of one link may be in go-redis's hands
	// at once: those given up whose dial or write has not returned yet count.
	runningMax = 4

	// impatient is how often a connection is tried for the same short time, before
	// that is doubled.
	impatient = 8

	backoffMin = 10 * time.Millisecond
	// backoffMax is also what a connection must last for the next loss to cost
	// backoffMin again: waiters of a subscriber that is killed over and over must
	// not wait much longer each time.
	backoffMax = 250 * time.Millisecond
)

type linkKey struct {
	sharded bool
	addr    string // of the slot owner; empty where there is only one link
}

// link is one place to subscribe at, and outlives its connections. It is owned
// by the control goroutine.
type link struct {
	c         *control
	key       linkKey
	client    *redis.Client // the node, nil where Notifier.rdb is used
	conn      *conn
	running   int              // connections whose goroutines have not ended
	parts     map[string]*part // wanted here
	queue     []item
	fails     int
	took      time.Duration // how long the last connection took to be up; 0: none was
	retryAt   time.Time
	idleSince time.Time // when the last part went
}

// item is an entry of a link's queue. One queue holds both directions: the order
// in it is the order at the server, so an UNSUBSCRIBE never overtakes the
// SUBSCRIBE of a later generation of the same name, or the reverse.
type item struct {
	p     *part
	unsub bool
}

// link returns the link for a key.
func (c *control) link(key linkKey, client *redis.Client, now time.Time) *link {
	l := c.links[key]
	if l == nil {
		l = &link{c: c, key: key, parts: make(map[string]*part), idleSince: now}
		c.links[key] = l
	}
	l.client = client
	return l
}

func (l *link) verb() string {
	if l.key.sharded {
		return verbSSubscribe
	}
	return verbSubscribe
}

func (l *link) unverb() string {
	if l.key.sharded {
		return verbSUnsubscribe
	}
	return verbUnsubscribe
}

func (l *link) adopt(p *part) {
	p.link = l
	l.parts[p.ch.name] = p
}

// release parts a link from one of its parts.
func (l *link) release(p *part, now time.Time) {
	if p.link != l {
		return
	}
	p.link = nil
	if l.parts[p.ch.name] == p {
		delete(l.parts, p.ch.name)
		if len(l.parts) == 0 {
			l.idleSince = now
		}
	}
}

func (l *link) find(name string) *part { return l.parts[name] }

func (l *link) enqueue(p *part, unsub bool) {
	if unsub && l.conn == nil {
		return // a new connection starts with nothing
	}
	l.queue = append(l.queue, item{p, unsub})
}

// command takes the next command off the queue: a run of entries of one kind.
func (l *link) command() *op {
	for len(l.queue) > 0 {
		first := l.queue[0]
		if l.stale(first) {
			l.queue = l.queue[1:]
			continue
		}
		limit := batchMax
		if l.key.sharded || first.p.single && !first.unsub {
			limit = 1
		}
		o := &op{verb: l.verb()}
		if first.unsub {
			o.verb = l.unverb()
		}
		for len(l.queue) > 0 && len(o.parts) < limit {
			it := l.queue[0]
			if !l.stale(it) {
				if it.unsub != first.unsub || it.p.single && !it.unsub && len(o.parts) > 0 {
					break
				}
				if !it.unsub {
					it.p.state = partSent
				}
				o.parts = append(o.parts, it.p)
			}
			l.queue = l.queue[1:]
		}
		return o
	}
	l.queue = nil
	return nil
}

// stale reports a SUBSCRIBE that is no longer wanted here. What was never sent
// needs no UNSUBSCRIBE either, so such a pair leaves no trace at the server.
func (l *link) stale(it item) bool {
	return !it.unsub && (it.p.gone || it.p.link != l || it.p.state != partQueued)
}

// deadlines reports when the link has to be tended again.
func (l *link) deadlines(sooner func(time.Time)) {
	cn, hb := l.conn, l.c.n.cfg.Heartbeat
	if cn == nil {
		if len(l.queue) > 0 && l.running < runningMax {
			sooner(l.retryAt)
		}
		return
	}
	if len(l.parts) == 0 {
		sooner(l.idleSince.Add(l.c.n.cfg.IdleClose))
	}
	if !cn.up {
		sooner(cn.openedAt.Add(cn.bound))
		return
	}
	sooner(cn.silentAt(hb))
	if cn.head() != nil {
		sooner(cn.progressAt.Add(2 * hb))
	}
}

// tend does what is due on a link: opens a connection, pings it, gives it up,
// hands it commands.
func (c *control) tend(l *link, now time.Time) {
	hb := c.n.cfg.Heartbeat
	if cn := l.conn; cn != nil {
		switch {
		case !cn.up && !now.Before(cn.openedAt.Add(cn.bound)):
			c.lose(cn, now)
		case cn.up && cn.head() != nil && !now.Before(cn.progressAt.Add(2*hb)):
			// Frames come in, but not the answer. Asking again on this connection
			// would put answers and commands out of step, so it is replaced too.
			c.lose(cn, now)
		case cn.up && !now.Before(cn.silentAt(hb)):
			if cn.pinged() {
				c.lose(cn, now)
			} else {
				cn.wantPing(now)
			}
		case len(l.parts) == 0 && !now.Before(l.idleSince.Add(c.n.cfg.IdleClose)):
			l.discard()
		}
	}
	if l.conn == nil && (now.Before(l.retryAt) || l.running >= runningMax) {
		return
	}
	if l.conn != nil && l.conn.writing {
		return
	}
	var ops []*op
	if l.conn != nil && l.conn.ping {
		l.conn.ping = false
		ops = append(ops, &op{verb: verbPing})
	}
	for len(ops) < handMax {
		o := l.command()
		if o == nil {
			break
		}
		ops = append(ops, o)
	}
	switch {
	case len(ops) > 0:
		if l.conn == nil {
			l.open(now)
		}
		l.conn.hand(ops, now)
	case l.conn == nil && l.running == 0 && l.spent(now):
		delete(c.links, l.key)
	}
}

// spent reports that nothing was wanted here for long. While a node is down its
// channels are away for a look-up again and again, and the link has to remember
// the failures.
func (l *link) spent(now time.Time) bool {
	return len(l.parts) == 0 && !now.Before(l.idleSince.Add(l.c.n.cfg.IdleClose+2*backoffMax))
}

// lose replaces a connection: throws it away and puts its channels back to the
// start. The new one is opened after the backoff.
func (c *control) lose(cn *conn, now time.Time) {
	l := cn.link
	if l.conn != cn {
		return
	}
	c.n.lost.Add(1)
	if cn.up && now.Sub(cn.upAt) >= backoffMax {
		l.fails = 0 // it was good for a while: no reason to hurry slowly
	}
	l.retryAt = now.Add(backoff(l.fails))
	l.fails++
	l.discard()
	if c.n.cluster != nil {
		c.reload(now)
	}
	for _, p := range l.parts {
		switch p.state {
		case partAcked:
			p.again = true
			c.carry++
			c.unlive(p)
		case partQueued, partSent:
		default:
			continue // delayed already
		}
		if p.sharded && c.n.cluster != nil {
			l.release(p, now)
			c.delay(p, l.retryAt)
		} else {
			p.state = partQueued
			l.enqueue(p, false)
		}
	}
}

// discard throws the connection away. Its writer closes it; that can take as
// long as go-redis holds on to a dial or a write, and nobody waits for it here.
func (l *link) discard() {
	cn := l.conn
	if cn == nil {
		return
	}
	l.conn, l.queue = nil, nil
	if cn.up {
		l.c.countConns(-1)
	}
	cn.cancel()
	close(cn.cmds)
}

// open starts a connection; its first command dials.
func (l *link) open(now time.Time) {
	cn := &conn{n: l.c.n, link: l, cmds: make(chan []command, 1), openedAt: now, bound: l.bound()}
	cn.ctx, cn.cancel = context.WithCancel(l.c.n.ctx)
	l.conn = cn
	l.running++
	l.c.n.wg.Add(1)
	go cn.write(l.key.sharded, l.client)
}

// bound returns how long the next connection may take to be up. Where one has been,
// it is not much longer than that took: a server that is frozen accepts and says
// nothing, and meanwhile another one may be the primary. It grows with the failures,
// as the server may have become slow.
func (l *link) bound() time.Duration {
	cfg := l.c.n.cfg
	if l.took == 0 {
		return cfg.dialBound()
	}
	return min(max(cfg.answerBound(), 4*l.took)<<min(l.fails/impatient, 10), cfg.dialBound())
}

func backoff(fails int) time.Duration {
	d := backoffMin << min(fails, 10)
	d = min(d, backoffMax)
	return d/2 + rand.N(d/2+1)
}
