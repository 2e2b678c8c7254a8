package pubsub

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// closeWait bounds Notifier.Close.
const closeWait = time.Second

// Notifier keeps the subscriptions of one client. It is safe for concurrent
// use.
type Notifier struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // nil if rdb is no cluster client
	cfg     Config

	wake      chan struct{} // capacity 1: the control goroutine has work
	closing   chan struct{}
	done      chan struct{} // closed at the end of Close
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	epoch     time.Time     // for monotonic times in atomics
	mode      atomic.Int32  // Auto until it is known
	modeFound chan struct{} // closed when the mode is known
	lastFrame atomic.Int64  // a time of elapsed; 0 for never
	lost      atomic.Uint64 // see Lost

	// mu guards the fields below, and those fields of channels and
	// subscriptions that say so. Nothing blocks while mu is held; the longest
	// work under it is one non-blocking send for each subscription of one
	// channel.
	mu        sync.Mutex
	table     map[string]*channel
	idle      idleList
	fresh     []*channel // added to the table, not yet seen by the control goroutine
	dropped   []*channel // removed from the table, not yet seen by the control goroutine
	late      lateFuncs
	inbox     []event
	started   bool
	asked     bool // a caller needs the mode
	closed    bool
	off       error // the error of every subscription, if set
	denied    int   // denied channels in the table
	conns     int
	resubs    uint64
	callbacks []func()
	calling   bool

	control control
}

// New returns a Notifier over rdb. It does no I/O and starts nothing; the first
// Subscribe does. The caller keeps rdb and closes it after the Notifier.
//
// In a cluster the modes Sharded and Both require rdb to be a
// *redis.ClusterClient itself. A wrapper hides the slot owners, and channels
// end up Denied with the server's MOVED.
func New(rdb redis.UniversalClient, cfg Config) *Notifier {
	n := &Notifier{
		rdb:     rdb,
		cfg:     cfg.withDefaults(),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),

		modeFound: make(chan struct{}),
		epoch:     time.Now(),
		table:     make(map[string]*channel),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.cluster, _ = rdb.(*redis.ClusterClient)
	n.control = control{
		n:     n,
		links: make(map[linkKey]*link),
		told:  make(map[string]struct{}),
	}
	n.mode.Store(int32(n.cfg.Mode))
	if n.cfg.Mode == Auto && n.cluster == nil {
		n.mode.Store(int32(Plain))
	}
	if n.cfg.Mode == Off {
		n.off = ErrPolling
	} else if _, ok := rdb.(*redis.Ring); ok {
		n.off = fmt.Errorf("%w: a Ring has no subscriber connection", ErrPolling)
	}
	return n
}

// Subscribe subscribes to a channel. It never blocks and never fails: the
// subscription's hints and state report the result. If the channel is live
// already, the subscription is live and has one hint waiting.
func (n *Notifier) Subscribe(name string) *Subscription { return n.SubscribeFunc(name, nil) }

// SubscribeFunc is Subscribe with a function that sees each message first and
// returns true if nobody needs a hint for it. The function is called on a
// goroutine of the notifier and must not block. It also sees messages that
// Redis sends before it learns that nobody listens any more. If several
// subscriptions to one channel have functions, one of them is called.
func (n *Notifier) SubscribeFunc(name string, first func(payload string) bool) *Subscription {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.subscribeLocked(name, first)
}

// SubscribeBoth is SubscribeFunc for one channel and Subscribe for another,
// with one command if possible. If both are on one connection, the first is
// live when the second is.
func (n *Notifier) SubscribeBoth(name string, first func(payload string) bool, other string) (a, b *Subscription) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.subscribeLocked(name, first), n.subscribeLocked(other, nil)
}

func (n *Notifier) subscribeLocked(name string, first func(payload string) bool) *Subscription {
	s := &Subscription{n: n, hint: make(chan struct{}, 1), first: first}
	if n.closed || n.off != nil {
		reason := n.off
		if n.closed {
			reason = ErrClosed
		}
		s.ch = &channel{name: name}
		s.ch.addLocked(s)
		s.ch.denyLocked(reason)
		return s
	}

	ch := n.table[name]
	if ch == nil {
		ch = &channel{name: name}
		n.table[name] = ch
		n.fresh = append(n.fresh, ch)
		n.wakeLocked()
	}
	n.idle.removeLocked(ch)
	s.ch = ch
	ch.addLocked(s)
	if s.State() != Pending {
		s.notify()
	}
	n.startLocked()
	return s
}

// Live reports whether this client is subscribed to a channel. A channel that
// lingers without subscriptions counts.
func (n *Notifier) Live(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	ch := n.table[name]
	return ch != nil && State(ch.state.Load()) == Live
}

// Lost returns how many connections have been given up, because they failed or
// were silent. A connection is counted before the next one is opened.
func (n *Notifier) Lost() uint64 { return n.lost.Load() }

// Close denies every subscription with ErrClosed, gives each a hint, ends the
// goroutines and waits for them. It may be called more than once, and returns
// nil.
//
// Close takes at most a second, whatever Redis does. It leaves behind a
// goroutine that is blocked in go-redis for longer, in the handshake with a
// frozen server or a dial that ignores its context. That goroutine closes its
// connection and ends as soon as go-redis returns.
func (n *Notifier) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		<-n.done
		return nil
	}
	n.closed = true
	for _, ch := range n.table {
		ch.denyLocked(ErrClosed)
	}
	clear(n.table)
	n.idle = idleList{}
	n.fresh, n.dropped, n.callbacks, n.denied = nil, nil, nil, 0
	n.mu.Unlock()

	defer close(n.done)
	close(n.closing)
	n.cancel()
	ended := make(chan struct{})
	go func() {
		n.wg.Wait()
		close(ended)
	}()
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
	return nil
}

// Stats returns a snapshot.
func (n *Notifier) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Stats{
		Channels:     len(n.table) - n.denied,
		Connections:  n.conns,
		Resubscribes: n.resubs,
		Denied:       n.denied,
	}
	if d := n.lastFrame.Load(); d != 0 {
		s.LastFrame = n.at(d)
	}
	return s
}

// elapsed returns the time since epoch for an atomic, never 0. Wall-clock times
// are unsuitable: if the clock were set back by an hour, a dead connection
// would stay for an hour.
func (n *Notifier) elapsed() int64 { return int64(time.Since(n.epoch)) + 1 }

func (n *Notifier) at(elapsed int64) time.Time { return n.epoch.Add(time.Duration(elapsed - 1)) }

// wakeLocked makes the control goroutine read the fields that it shares.
func (n *Notifier) wakeLocked() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// post sends an event to the control goroutine.
func (n *Notifier) post(e event) {
	n.mu.Lock()
	n.inbox = append(n.inbox, e)
	n.wakeLocked()
	n.mu.Unlock()
}

// message gives a hint to all subscriptions of a channel. It runs on the reader
// of a connection.
func (n *Notifier) message(name, payload string) {
	n.mu.Lock()
	var first func(string) bool
	if ch := n.table[name]; ch != nil {
		first = ch.firstLocked()
	} else {
		first = n.late.find(name)
	}
	n.mu.Unlock()
	if first != nil && first(payload) {
		return
	}
	n.mu.Lock()
	if ch := n.table[name]; ch != nil {
		ch.notifyLocked()
	}
	n.mu.Unlock()
}

// dropLocked removes a channel without subscriptions from the table. From then
// on a Subscribe makes a new channel, whose SUBSCRIBE is written after the
// UNSUBSCRIBE of the old one.
func (n *Notifier) dropLocked(ch *channel) {
	n.idle.removeLocked(ch)
	delete(n.table, ch.name)
	if len(n.table) == 0 {
		n.table = make(map[string]*channel) // an emptied map keeps its memory
	}
	if State(ch.state.Load()) == Denied {
		n.denied--
	}
	n.dropped = append(n.dropped, ch)
	if ch.first != nil {
		n.late.add(ch.name, ch.first)
	}
}

// lateFuncs are the functions of dropped channels, for messages that Redis
// sends before it sees the UNSUBSCRIBE. They are kept in two generations that
// are dropped as a whole, because a map does not return the memory of deleted
// entries.
type lateFuncs struct {
	next map[string]func(payload string) bool // the younger generation
	m    map[string]func(payload string) bool
	turn time.Time // when the younger generation began; zero while both are empty
}

// lateFor is how long such a function is kept at least; it is kept at most
// twice as long.
const lateFor = 10 * time.Second

func (l *lateFuncs) add(name string, f func(string) bool) {
	if l.next == nil {
		l.next = make(map[string]func(string) bool)
	}
	if l.turn.IsZero() {
		l.turn = time.Now()
	}
	l.next[name] = f
}

// expire drops the older generation when its time is over.
func (l *lateFuncs) expire(now time.Time) {
	if l.turn.IsZero() || now.Before(l.due()) {
		return
	}
	l.m, l.next, l.turn = l.next, nil, now
	if l.m == nil {
		l.turn = time.Time{}
	}
}

// due returns when a generation expires; zero for never.
func (l *lateFuncs) due() time.Time {
	if l.turn.IsZero() {
		return time.Time{}
	}
	return l.turn.Add(lateFor)
}

func (l *lateFuncs) find(name string) func(string) bool {
	if f := l.next[name]; f != nil {
		return f
	}
	return l.m[name]
}

// callback queues a call of a user function.
func (n *Notifier) callback(fn func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.callbacks = append(n.callbacks, fn)
	if !n.calling {
		// The control goroutine, which is counted in wg itself, is the only
		// caller, so this Add never meets a Wait at zero.
		n.calling = true
		n.wg.Add(1)
		go n.runCallbacks()
	}
}

func (n *Notifier) runCallbacks() {
	defer n.wg.Done()
	for {
		n.mu.Lock()
		if len(n.callbacks) == 0 {
			n.calling = false
			n.mu.Unlock()
			return
		}
		fn := n.callbacks[0]
		n.callbacks = n.callbacks[1:]
		n.mu.Unlock()
		fn()
	}
}
