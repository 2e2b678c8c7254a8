package pubsub

import (
	"sync/atomic"
	"time"
)

// State is the state of a Subscription.
type State int32

const (
	// Pending is not confirmed yet, or no longer because the connection is
	// being replaced. Messages may be missed.
	Pending State = iota
	// Live is confirmed by Redis.
	Live
	// Denied is refused: no message will come; see Subscription.Err.
	Denied
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Live:
		return "live"
	case Denied:
		return "denied"
	}
	return "unknown"
}

// Subscription is one waiter's subscription to a channel. It is safe for
// concurrent use.
type Subscription struct {
	n    *Notifier
	ch   *channel
	hint chan struct{}
	// first sees each message before the hints are sent; nil for none.
	first func(payload string) bool

	// Guarded by n.mu.
	prev, next *Subscription
	closed     bool
}

// C returns the channel that delivers the hints. It has room for one hint;
// further hints are dropped until that one is received. A hint comes with every
// message, when the subscription becomes live, when it is live again after a
// reconnect or a slot move, and when it is denied. C is never closed.
func (s *Subscription) C() <-chan struct{} { return s.hint }

// State returns the present state.
func (s *Subscription) State() State { return State(s.ch.state.Load()) }

// Err returns a *DeniedError if the subscription is Denied, otherwise nil.
func (s *Subscription) Err() error {
	if s.State() != Denied {
		return nil
	}
	return s.ch.err.Load()
}

// Close ends the subscription. It may be called more than once and never blocks.
func (s *Subscription) Close() {
	n := s.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.ch.removeLocked(s)
	if s.ch.count > 0 || n.table[s.ch.name] != s.ch {
		return
	}
	if s.State() == Denied {
		// A denied channel does not linger: the next Subscribe tries again.
		n.dropLocked(s.ch)
		n.wakeLocked()
		return
	}
	s.ch.idleSince = time.Now()
	// If the list was not empty, the timer of the control goroutine is set
	// already.
	if n.idle.pushLocked(s.ch) {
		n.wakeLocked()
	}
}

func (s *Subscription) notify() {
	select {
	case s.hint <- struct{}{}:
	default:
	}
}

// channel is one generation of a channel name in the table. After it is
// dropped, a new Subscribe makes a new channel; answers that are still under
// way find the old one by its pointer.
type channel struct {
	name string

	// Written under Notifier.mu, read anywhere. err is set before Denied.
	state atomic.Int32
	err   atomic.Pointer[DeniedError]

	// Guarded by Notifier.mu.
	subs               *Subscription
	first              func(payload string) bool // of the last subscription with a function
	count              int
	idleSince          time.Time
	idlePrev, idleNext *channel
	inIdle             bool

	// Owned by the control goroutine.
	parts []*part
	left  bool // dropped from the table
}

func (c *channel) addLocked(s *Subscription) {
	s.next = c.subs
	if c.subs != nil {
		c.subs.prev = s
	}
	c.subs = s
	c.count++
	if s.first != nil {
		c.first = s.first
	}
}

func (c *channel) removeLocked(s *Subscription) {
	if s.prev != nil {
		s.prev.next = s.next
	} else if c.subs == s {
		c.subs = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	c.count--
}

func (c *channel) notifyLocked() {
	for s := c.subs; s != nil; s = s.next {
		s.notify()
	}
}

// firstLocked returns the function of a subscription that has one, or else of
// the last one that had: a message that was published while it was subscribed
// may arrive later.
func (c *channel) firstLocked() func(string) bool {
	for s := c.subs; s != nil; s = s.next {
		if s.first != nil {
			return s.first
		}
	}
	return c.first
}

// denyLocked makes the channel Denied and hints its subscriptions.
func (c *channel) denyLocked(err error) {
	c.err.Store(&DeniedError{Channel: c.name, Err: err})
	c.state.Store(int32(Denied))
	c.notifyLocked()
}

// idleList holds the lingering channels, oldest first. Linger is the same for
// all, so the order of arrival is the order of expiry.
type idleList struct {
	head, tail *channel
}

// pushLocked appends c and reports whether the list was empty.
func (l *idleList) pushLocked(c *channel) bool {
	c.inIdle = true
	c.idlePrev = l.tail
	if l.tail != nil {
		l.tail.idleNext = c
	} else {
		l.head = c
	}
	l.tail = c
	return c.idlePrev == nil
}

func (l *idleList) removeLocked(c *channel) {
	if !c.inIdle {
		return
	}
	if c.idlePrev != nil {
		c.idlePrev.idleNext = c.idleNext
	} else {
		l.head = c.idleNext
	}
	if c.idleNext != nil {
		c.idleNext.idlePrev = c.idlePrev
	} else {
		l.tail = c.idlePrev
	}
	c.idlePrev, c.idleNext, c.inIdle = nil, nil, false
}
