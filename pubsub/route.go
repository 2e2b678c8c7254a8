package pubsub

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// routed is the result of a look-up.
type routed struct {
	p      *part
	from   *link // the link where p is subscribed; nil if it is to be subscribed
	client *redis.Client
	err    error
}

// lookUp finds the slot owners of the parts in route. It runs on a goroutine of
// its own, because it may have to load the cluster's state. There is one
// look-up at a time.
func (c *control) lookUp() {
	if c.routing || len(c.route) == 0 {
		return
	}
	parts := make([]*part, 0, len(c.route))
	for _, p := range c.route {
		if !p.gone {
			parts = append(parts, p)
		}
	}
	c.route = nil
	if len(parts) == 0 {
		return
	}
	from := make([]*link, len(parts))
	for i, p := range parts {
		from[i] = p.link
	}
	c.routing = true
	c.n.wg.Add(1)
	go func() {
		defer c.n.wg.Done()
		ctx, cancel := context.WithTimeout(c.n.ctx, c.n.cfg.dialBound())
		defer cancel()
		routes := make([]routed, len(parts))
		var err error
		for i, p := range parts {
			routes[i].p, routes[i].from = p, from[i]
			// One failure stands for all: without the state, each name would
			// try to load it again.
			if err == nil {
				routes[i].client, err = c.n.cluster.MasterForKey(ctx, p.ch.name)
			}
			routes[i].err = err
		}
		c.n.post(event{kind: evRouted, routes: routes})
	}()
}

func (c *control) routed(routes []routed, now time.Time) {
	c.routing = false
	for _, r := range routes {
		p := r.p
		if p.gone {
			continue
		}
		if l := r.from; l != nil { // a review
			if r.err != nil || p.link != l || p.state != partAcked || l.key.addr == r.client.Options().Addr {
				continue
			}
			c.unlive(p)
			p.again = true
			c.carry++
			l.enqueue(p, true)
			l.release(p, now)
		}
		if r.err != nil {
			c.delay(p, now.Add(backoff(p.tries)))
			p.tries++
			continue
		}
		l := c.link(linkKey{sharded: true, addr: r.client.Options().Addr}, r.client, now)
		l.adopt(p)
		p.state = partQueued
		l.enqueue(p, false)
	}
}

// reviews are the times after a change in the cluster at which every sharded
// channel is looked up again. go-redis learns of a change late, and a master
// that has stepped down accepts subscriptions that may never receive a message.
var reviews = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second}

// reload makes go-redis read the cluster's slots again after a change. It
// returns at once.
func (c *control) reload(now time.Time) {
	if c.n.cluster != nil {
		c.n.cluster.ReloadState(c.n.ctx)
		c.changed, c.reviewed = now, 0
	}
}

// reviewAt returns when the next review is due; zero for never.
func (c *control) reviewAt() time.Time {
	if c.changed.IsZero() || c.reviewed == len(reviews) {
		return time.Time{}
	}
	return c.changed.Add(reviews[c.reviewed])
}

// review looks up every subscribed sharded channel, when it is time.
func (c *control) review(now time.Time) {
	if at := c.reviewAt(); at.IsZero() || now.Before(at) || c.routing {
		return
	}
	c.reviewed++
	for _, l := range c.links {
		if !l.key.sharded {
			continue
		}
		for _, p := range l.parts {
			if p.state == partAcked {
				c.route = append(c.route, p)
			}
		}
	}
	c.n.cluster.ReloadState(c.n.ctx) // for the next review
}
