package pubsub

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// routed is the answer of a look-up.
type routed struct {
	p      *part
	client *redis.Client
	err    error
}

// lookUp finds the slot owners of the parts that wait for it. It runs apart,
// because it may have to load the cluster's state; one look-up at a time.
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
	c.routing = true
	c.n.wg.Add(1)
	go func() {
		defer c.n.wg.Done()
		ctx, cancel := context.WithTimeout(c.n.ctx, c.n.cfg.dialBound())
		defer cancel()
		routes := make([]routed, len(parts))
		var err error
		for i, p := range parts {
			routes[i].p = p
			// One failure stands for all: without a state each name would try anew to
			// load it.
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

// reload makes go-redis read the cluster's slots again. It returns at once.
func (c *control) reload() {
	if c.n.cluster != nil {
		c.n.cluster.ReloadState(c.n.ctx)
	}
}
