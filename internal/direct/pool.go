package direct

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// most is how many connections a Pool has at most. With more commands under way
	// they had better share pipelines.
	most = 8
	// often is how many callers must have asked for a connection within a span, and
	// have found none, for another to be made.
	often = 16
	span  = time.Second
	// idle is after how much time a connection is not used any more, sure after how
	// much it is looked at first, since the server may have closed it, and blind after how
	// much it is not used any more where that cannot be seen, as with TLS.
	idle  = 2 * time.Second
	sure  = 100 * time.Millisecond
	blind = time.Second
	// dialBound is how long it may take to make one, and dialPause how long none is
	// made after one that could not be.
	dialBound = 5 * time.Second
	dialPause = time.Second
)

// Eager makes every Get that finds none wait for a connection to be made. It is for
// tests, which send little, and is set before any Pool is made.
var Eager bool

// eagerly is how long it waits.
const eagerly = 100 * time.Millisecond

// A Pool is what one client has of connections.
type Pool struct {
	options redis.Options
	ctx     context.Context // ends what is being made
	end     context.CancelFunc
	making  sync.WaitGroup
	polling polling

	// mu guards the fields below.
	mu     sync.Mutex
	free   []*Conn            // the last one was used last
	all    map[*Conn]struct{} // with those that somebody has
	makes  chan struct{}      // closed when the one that is being made is; nil: none is
	new    net.Conn           // that one, as soon as it is connected
	asked  int                // how many have found none
	since  time.Time          // since then
	until  time.Time          // until then none is made
	failed time.Time          // when one was last found to be of no use
	closed bool
}

// New returns a Pool of connections to the server of rdb; nil where only go-redis may
// have one. It does no I/O.
func New(rdb *redis.Client) *Pool {
	o, ok := options(rdb)
	if !ok {
		return nil
	}
	if o.ReadTimeout <= 0 || o.ReadTimeout > dialBound {
		o.ReadTimeout = dialBound
	}
	o.WriteTimeout, o.ContextTimeoutEnabled = o.ReadTimeout, true
	o.PoolSize, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials = 1, 0, 0, 0
	o.MaxRetries, o.DialerRetries = -1, 1
	o.Protocol = 2 // in which a server says nothing that it was not asked for
	p := &Pool{options: o, all: map[*Conn]struct{}{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// Get returns a connection that nobody uses; nil when there is none. The caller
// gives it back with Put.
func (p *Pool) Get() *Conn {
	c, makes := p.get()
	if c == nil && makes != nil && Eager {
		timer := time.NewTimer(eagerly)
		defer timer.Stop()
		select {
		case <-makes:
			c, _ = p.get()
		case <-timer.C:
		}
	}
	return c
}

// get returns a connection, or, if one is being made, a channel that is closed
// when it is.
func (p *Pool) get() (c *Conn, makes <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for n := len(p.free); n > 0; n = len(p.free) {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		if !p.old(c, now) && c.usable(now, c.used.After(p.failed)) {
			return c, nil
		}
		p.drop(c)
	}
	if now.Sub(p.since) >= span {
		p.asked, p.since = 0, now
	}
	if p.asked++; (p.asked >= often || Eager) && !p.closed && p.makes == nil && len(p.all) < most && !now.Before(p.until) {
		p.asked, p.makes = 0, make(chan struct{})
		p.making.Add(1)
		go p.add()
	}
	return nil, p.makes
}

// old reports whether c has come of age.
func (p *Pool) old(c *Conn, now time.Time) bool {
	return p.options.ConnMaxLifetime > 0 && now.Sub(c.born) > p.options.ConnMaxLifetime
}

// put takes a connection back.
func (p *Pool) put(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.used = time.Now()
	if c.broken {
		p.failed = c.used // and what ended it may have ended others
	}
	if c.broken || p.closed || p.old(c, c.used) {
		p.drop(c)
		return
	}
	if cap(c.in) > kept || cap(c.out) > kept {
		c.in, c.out = nil, nil
	}
	if len(p.free) > 0 && c.used.Sub(p.free[0].used) > idle {
		p.drop(p.free[0])
		p.free = slices.Delete(p.free, 0, 1)
	}
	p.free = append(p.free, c)
}

// drop closes c, which nobody uses. The caller has mu.
func (p *Pool) drop(c *Conn) {
	delete(p.all, c)
	c.shut()
}

// add makes another connection.
func (p *Pool) add() {
	defer p.making.Done()
	ctx, cancel := context.WithTimeout(p.ctx, dialBound)
	defer cancel()
	shut, err := connect(ctx, p.options, p.made)
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.makes)
	conn := p.new
	p.makes, p.new = nil, nil
	now := time.Now()
	switch {
	case err != nil:
		p.until = now.Add(dialPause)
	case p.closed:
		shut()
	default:
		c := &Conn{net: conn, shut: shut, pool: p, born: now, used: now}
		p.all[c] = struct{}{}
		p.free = append(p.free, c)
	}
}

// made notes the connection that is being made.
func (p *Pool) made(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.new = conn; p.closed {
		_ = conn.Close()
	}
}

// Close closes all connections, also those that somebody reads from, and waits for
// one that is being made.
func (p *Pool) Close() {
	p.end()
	p.mu.Lock()
	p.closed = true
	for c := range p.all {
		_ = c.net.Close()
	}
	for _, c := range p.free {
		p.drop(c)
	}
	p.free = nil
	if p.new != nil { // go-redis would wait for the answers of a silent server
		_ = p.new.Close()
	}
	p.mu.Unlock()
	p.making.Wait()
}
