package pubsub

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// frame handles a frame that confirms or ends a subscription.
func (c *control) frame(cn *conn, verb, name string, now time.Time) {
	op := cn.head()
	if p := op.take(verb, name); p != nil {
		if op.at == len(op.parts) {
			cn.answered(now)
		} else {
			cn.progressAt = now
		}
		if verb == cn.link.verb() && !p.gone {
			c.confirm(p)
		}
		return
	}
	if verb != cn.link.unverb() {
		c.lose(cn, now) // an unrequested confirmation: frames and commands are out of step
		return
	}
	// The server has taken the subscription away, as it does when a slot moves.
	// A subscription whose command has only been sent is not meant: its own
	// answer is still to come.
	p := cn.link.find(name)
	if p == nil || p.state != partAcked {
		return
	}
	p.again = true
	c.carry++
	c.unlive(p)
	if p.sharded && c.n.cluster != nil {
		c.reload(now)
		cn.link.release(p, now)
	}
	c.place(p, now)
}

func (c *control) confirm(p *part) {
	p.state, p.tries, p.single = partAcked, 0, false
	c.counted(p) // before the hint, so that whoever receives the hint finds the loss counted
	n := c.n
	live := true
	for _, q := range p.ch.parts {
		live = live && q.state == partAcked
	}
	n.mu.Lock()
	switch s := State(p.ch.state.Load()); {
	case live && s == Pending:
		p.ch.state.Store(int32(Live))
		p.ch.notifyLocked()
	case s == Denied && !n.closed:
		p.ch.notifyLocked() // the other half is refused; this half may have missed a message
	}
	n.mu.Unlock()
}

// unlive returns a channel from Live to Pending.
func (c *control) unlive(p *part) {
	c.n.mu.Lock()
	if State(p.ch.state.Load()) == Live {
		p.ch.state.Store(int32(Pending))
	}
	c.n.mu.Unlock()
}

// counted counts a lost connection as replaced, at the first answer for one of
// its channels. A subscription that the server took away counts too.
func (c *control) counted(p *part) {
	if !p.again {
		return
	}
	p.again = false
	if c.carry == 0 {
		return
	}
	channels := c.carry
	c.carry = 0
	c.n.mu.Lock()
	c.n.resubs++
	c.n.mu.Unlock()
	if fn := c.n.cfg.OnResubscribe; fn != nil {
		c.n.callback(func() { fn(channels) })
	}
}

// reply handles an error reply, which answers the oldest command.
func (c *control) reply(cn *conn, err error, now time.Time) {
	op := cn.head()
	if op == nil || redis.HasErrorPrefix(err, "NOAUTH") {
		c.lose(cn, now)
		return
	}
	cn.answered(now)
	if op.verb != cn.link.verb() {
		return // a refused PING is a sign of life; a refused UNSUBSCRIBE does no harm
	}
	parts := op.parts[op.at:]
	routed := cn.link.key.sharded && c.n.cluster != nil
	moved := redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
	retry := transient(err) || moved && routed
	if retry && routed {
		c.reload(now)
	}
	for _, p := range parts {
		switch {
		case p.gone:
		case retry:
			if routed {
				p.link.release(p, now)
			}
			c.delay(p, now.Add(backoff(p.tries)))
			p.tries++
		case len(parts) > 1:
			p.single = true
			c.place(p, now)
		default:
			c.deny(p, err, now)
		}
	}
}

// deny gives up a part for good.
func (c *control) deny(p *part, err error, now time.Time) {
	p.state = partRefused
	p.link.release(p, now)
	c.counted(p)
	n, ch := c.n, p.ch
	n.mu.Lock()
	if !n.closed && State(ch.state.Load()) != Denied {
		ch.denyLocked(err)
		if n.table[ch.name] == ch {
			n.denied++
			if ch.count == 0 {
				n.dropLocked(ch)
				n.wakeLocked()
			}
		}
	}
	n.mu.Unlock()

	key := ch.name + "\x00" + err.Error()
	if _, ok := c.told[key]; ok || n.cfg.OnDenied == nil {
		return
	}
	if len(c.told) >= toldMax {
		clear(c.told)
	}
	c.told[key] = struct{}{}
	n.callback(func() { n.cfg.OnDenied(ch.name, &DeniedError{Channel: ch.name, Err: err}) })
}

// transient reports whether a refusal is temporary and independent of the name.
func transient(err error) bool {
	for _, p := range []string{"LOADING", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN"} {
		if redis.HasErrorPrefix(err, p) {
			return true
		}
	}
	return false
}
