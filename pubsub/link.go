package pubsub

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// batchMax is the number of names in one SUBSCRIBE.
	batchMax = 64
	// handMax is how many commands a connection gets at a time. It bounds what
	// an abandoned connection may still write.
	handMax = 32
	// runningMax is how many connections of one link may exist at once.
	// Abandoned connections whose dial or write has not returned yet count.
	runningMax = 4

	// impatient is how many attempts have the same short time limit before it
	// doubles.
	impatient = 8

	backoffMin = 10 * time.Millisecond
	// backoffMax is also how long a connection must last for the next loss to
	// cost only backoffMin. If a subscriber is killed again and again, its
	// waiters must not wait much longer each time.
	backoffMax = 250 * time.Millisecond
)

type linkKey struct {
	sharded bool
	addr    string // address of the slot owner; empty if there is only one link
}

// link is one place to subscribe at. It outlives its connections. Only the
// control goroutine uses it.
type link struct {
	c         *control
	key       linkKey
	client    *redis.Client // the node; nil if Notifier.rdb is used
	conn      *conn
	running   int              // connections whose goroutines have not ended
	parts     map[string]*part // the parts that are subscribed here, or are to be
	queue     []item
	fails     int
	took      time.Duration // how long the last connection took to be up; 0 if none ever was
	retryAt   time.Time
	idleSince time.Time // when the last part left
}

// item is an entry of a link's queue. One queue holds both kinds of entries, so
// their order is the order at the server: an UNSUBSCRIBE never overtakes the
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

// release removes a part from the link.
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
		return // a new connection has no subscriptions
	}
	l.queue = append(l.queue, item{p, unsub})
}

// command removes the next command from the queue: a run of entries of one
// kind.
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

// stale reports whether an entry is a SUBSCRIBE that is no longer wanted here.
// A SUBSCRIBE that was never sent needs no UNSUBSCRIBE either, so the server
// sees neither.
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

// tend does what is due on a link: it opens a connection, sends a PING, gives
// the connection up, or passes commands to it.
func (c *control) tend(l *link, now time.Time) {
	hb := c.n.cfg.Heartbeat
	if cn := l.conn; cn != nil {
		switch {
		case !cn.up && !now.Before(cn.openedAt.Add(cn.bound)):
			c.lose(cn, now)
		case cn.up && cn.head() != nil && !now.Before(cn.progressAt.Add(2*hb)):
			// Frames arrive, but not the answer. Asking again on this
			// connection would put answers and commands out of step, so the
			// connection is replaced.
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

// spent reports whether nothing was wanted here for a long time. While a node
// is down, its channels leave for a look-up again and again, and the link has
// to remember the failures.
func (l *link) spent(now time.Time) bool {
	return len(l.parts) == 0 && !now.Before(l.idleSince.Add(l.c.n.cfg.IdleClose+2*backoffMax))
}

// lose discards a connection and puts its channels back to the start. The new
// connection is opened after the back-off.
func (c *control) lose(cn *conn, now time.Time) {
	l := cn.link
	if l.conn != cn {
		return
	}
	c.n.lost.Add(1)
	if cn.up && now.Sub(cn.upAt) >= backoffMax {
		l.fails = 0 // it was good for a while: back to the shortest back-off
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

// discard discards the connection. Its writer closes it, which can take as long
// as go-redis is busy with a dial or a write. Nobody waits for that here.
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

// open starts a connection. Its first command dials.
func (l *link) open(now time.Time) {
	cn := &conn{n: l.c.n, link: l, cmds: make(chan []command, 1), openedAt: now, bound: l.bound()}
	cn.ctx, cn.cancel = context.WithCancel(l.c.n.ctx)
	l.conn = cn
	l.running++
	l.c.n.wg.Add(1)
	go cn.write(l.key.sharded, l.client)
}

// bound returns how long the next connection may take to be up. If an earlier
// connection was up, the bound is not much longer than that connection took: a
// frozen server accepts and says nothing, and meanwhile another server may be
// the primary. The bound grows with the failures, because the server may have
// become slow.
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
