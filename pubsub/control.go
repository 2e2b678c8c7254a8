package pubsub

import "time"

// toldMax bounds how many reports of OnDenied are remembered. Beyond it the
// memory starts anew, and a name may be reported once more.
const toldMax = 4096

// control is the state of the control goroutine, which alone uses it.
type control struct {
	n       *Notifier
	links   map[linkKey]*link
	delayed []*part   // waiting for part.due
	due     time.Time // the earliest of them
	route   []*part   // sharded parts whose node is not known yet
	routing bool      // a look-up is under way
	carry   int       // channels of lost connections that are not subscribed again yet

	changed  time.Time // when the cluster was last seen to change
	reviewed int       // reviews made since that change
	told     map[string]struct{}

	early     []*channel // channels that came before the mode was known
	searching bool       // a search for the mode is running
	searches  int        // searches without a result
	searchAt  time.Time  // when to search again

	events []event // spare buffer, swapped with Notifier.inbox
}

// part is one channel on one kind of pub/sub. A channel has one part, or two in
// Mode Both.
type part struct {
	ch      *channel
	sharded bool
	link    *link // nil until routed
	state   partState
	gone    bool // the channel was dropped
	single  bool // its batch was refused: subscribe to it alone
	again   bool // its connection was lost
	tries   int
	due     time.Time // end of a delay
}

type partState int

const (
	partWaiting partState = iota // delayed, or on its way to a node
	partQueued                   // in the queue of its link
	partSent                     // its command was handed to the connection
	partAcked                    // confirmed
	partRefused                  // never subscribed to again
)

type eventKind int

const (
	evWritten eventKind = iota // commands were written, or err
	evConfirm                  // a subscription frame: verb, name
	evPong
	evReply // an error reply: err
	evLost  // the connection is unusable: err
	evExit  // the goroutines of a connection have ended
	evRouted
	evMode // a search for the mode has ended: mode
)

type event struct {
	kind   eventKind
	conn   *conn
	verb   string
	name   string
	err    error
	routes []routed
	mode   Mode
}

func (c *control) run() {
	defer c.n.wg.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-c.n.closing:
			for _, l := range c.links {
				l.discard()
			}
			return
		default:
		}
		now := time.Now()
		c.step(now)
		if next := c.next(); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(0, time.Until(next)))
		}
		select {
		case <-c.n.wake:
		case <-timer.C:
		case <-c.n.closing:
		}
	}
}

func (c *control) step(now time.Time) {
	n := c.n
	n.mu.Lock()
	for ch := n.idle.head; ch != nil && !now.Before(ch.idleSince.Add(n.cfg.Linger)); ch = n.idle.head {
		n.dropLocked(ch)
	}
	n.late.expire(now)
	events, fresh, dropped := n.inbox, n.fresh, n.dropped
	n.inbox, n.fresh, n.dropped = c.events[:0], nil, nil
	n.mu.Unlock()

	// Dropped generations of a name come first: their UNSUBSCRIBE would end the
	// subscription of a newer generation.
	for _, ch := range dropped {
		c.leave(ch, now)
	}
	for _, ch := range fresh {
		if !ch.left { // fresh and dropped at once
			c.admit(ch, now)
		}
	}
	for i := range events {
		c.handle(&events[i], now)
		events[i] = event{}
	}
	if cap(events) <= 4096 {
		c.events = events[:0]
	} else {
		c.events = nil
	}
	c.release(now)
	c.search(now)
	c.review(now)
	c.lookUp()
	for _, l := range c.links {
		c.tend(l, now)
	}
}

// next returns when the control goroutine has to act without being woken.
func (c *control) next() time.Time {
	var next time.Time
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	c.n.mu.Lock()
	if ch := c.n.idle.head; ch != nil {
		sooner(ch.idleSince.Add(c.n.cfg.Linger))
	}
	if at := c.n.late.due(); !at.IsZero() {
		sooner(at)
	}
	c.n.mu.Unlock()
	if len(c.delayed) > 0 {
		sooner(c.due)
	}
	if c.searches > 0 && !c.searching && Mode(c.n.mode.Load()) == Auto {
		sooner(c.searchAt)
	}
	if at := c.reviewAt(); !at.IsZero() && !c.routing {
		sooner(at)
	}
	for _, l := range c.links {
		l.deadlines(sooner)
	}
	return next
}

func (c *control) admit(ch *channel, now time.Time) {
	mode := Mode(c.n.mode.Load())
	if mode == Auto {
		c.early = append(c.early, ch)
		return
	}
	if mode != Sharded {
		ch.parts = append(ch.parts, &part{ch: ch})
	}
	if mode != Plain {
		ch.parts = append(ch.parts, &part{ch: ch, sharded: true})
	}
	for _, p := range ch.parts {
		c.place(p, now)
	}
}

// place puts a part into the queue of a link, or into the look-up of its node.
func (c *control) place(p *part, now time.Time) {
	if p.link == nil && p.sharded && c.n.cluster != nil {
		p.state = partWaiting
		c.route = append(c.route, p)
		return
	}
	if p.link == nil {
		c.link(linkKey{sharded: p.sharded}, nil, now).adopt(p)
	}
	p.state = partQueued
	p.link.enqueue(p, false)
}

// delay places a part again later.
func (c *control) delay(p *part, until time.Time) {
	p.state = partWaiting
	p.due = until
	if len(c.delayed) == 0 || until.Before(c.due) {
		c.due = until
	}
	c.delayed = append(c.delayed, p)
}

// release places the delayed parts whose time has come.
func (c *control) release(now time.Time) {
	if len(c.delayed) == 0 || now.Before(c.due) {
		return
	}
	all := c.delayed
	c.delayed = nil
	for _, p := range all {
		switch {
		case p.gone:
		case now.Before(p.due):
			c.delay(p, p.due)
		default:
			c.place(p, now)
		}
	}
}

// leave gives up a channel that was dropped from the table.
func (c *control) leave(ch *channel, now time.Time) {
	ch.left = true
	for _, p := range ch.parts {
		if p.gone {
			continue
		}
		p.gone = true
		if p.again && c.carry > 0 {
			c.carry--
		}
		if p.link == nil {
			continue
		}
		if p.state == partSent || p.state == partAcked {
			p.link.enqueue(p, true)
		}
		p.link.release(p, now)
	}
}

func (c *control) handle(e *event, now time.Time) {
	switch e.kind {
	case evRouted:
		c.routed(e.routes, now)
		return
	case evMode:
		c.found(e.mode, now)
		return
	}
	cn := e.conn
	if e.kind == evExit {
		cn.link.running--
		return
	}
	if cn.link.conn != cn {
		return // discarded already
	}
	switch e.kind {
	case evWritten:
		cn.writing = false
		if e.err != nil {
			c.lose(cn, now)
		} else if !cn.up {
			cn.up, cn.upAt = true, now
			l := cn.link
			l.took = max(now.Sub(cn.openedAt), 1)
			c.countConns(+1)
		}
	case evLost:
		c.lose(cn, now)
	case evPong:
		if op := cn.head(); op == nil || op.verb != verbPing {
			c.lose(cn, now)
		} else {
			cn.answered(now)
		}
	case evConfirm:
		c.frame(cn, e.verb, e.name, now)
	case evReply:
		c.reply(cn, e.err, now)
	}
}

func (c *control) countConns(d int) {
	c.n.mu.Lock()
	c.n.conns += d
	c.n.mu.Unlock()
}
