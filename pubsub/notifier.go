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

// Notifier keeps the subscriptions of one client. Its methods may be called from
// any goroutine.
type Notifier struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // nil if rdb is no cluster client
	cfg     Config

	wake      chan struct{} // capacity 1: the control goroutine has something to do
	closing   chan struct{}
	done      chan struct{} // closed when Close is through
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	epoch     time.Time     // for monotonic times in atomics
	mode      atomic.Int32  // Auto until it is known
	modeFound chan struct{} // closed when the servers have told the mode
	lastFrame atomic.Int64  // since epoch, 0 for never
	lost      atomic.Uint64 // see Lost

	// mu guards the fields below, and those of channels and subscriptions that
	// say so. Nothing blocks while it is held; the longest thing done under it is
	// one non-blocking send per subscription of one channel.
	mu        sync.Mutex
	table     map[string]*channel
	idle      idleList
	fresh     []*channel // added to the table, not yet seen by the control goroutine
	dropped   []*channel // taken out of the table, likewise
	late      lateFuncs
	inbox     []event
	started   bool
	asked     bool // somebody wants to know the mode
	closed    bool
	off       error // if set, every subscription is denied with it
	denied    int   // denied channels in the table
	conns     int
	resubs    uint64
	callbacks []func()
	calling   bool

	control control
}

// New returns a Notifier over rdb. It does no I/O and starts nothing; that
// begins with the first Subscribe. The caller keeps rdb and closes it after the
// Notifier.
//
// In a cluster the modes Sharded and Both need rdb to be a *redis.ClusterClient
// itself: through a wrapper the slot owners cannot be found, and channels end up
// Denied with the server's MOVED.
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

// Subscribe registers interest in a channel. It never blocks and never fails:
// what becomes of it is told by the subscription's hints and state. If the
// channel is live already, so is the subscription, with one hint waiting.
func (n *Notifier) Subscribe(name string) *Subscription { return n.SubscribeFunc(name, nil) }

// SubscribeFunc is Subscribe with a function that sees each message first, and
// returns true for one of which nobody needs a hint. It is called on a goroutine
// of the notifier and must not block; also for what Redis has sent before it heard
// that nobody listens any more. Of several subscriptions to one channel
// that have such functions, one is called.
func (n *Notifier) SubscribeFunc(name string, first func(payload string) bool) *Subscription {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.subscribeLocked(name, first)
}

// SubscribeBoth is SubscribeFunc for one channel and Subscribe for another, with one
// command where that can be. If they are on one connection, the first is live when the
// second is.
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

// Live reports whether this client is subscribed to a channel, be it that nobody
// wants it any more and it lingers.
func (n *Notifier) Live(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	ch := n.table[name]
	return ch != nil && State(ch.state.Load()) == Live
}

// Lost returns how many connections have been given up so far, because they failed or were
// silent. It is counted before the next one is opened.
func (n *Notifier) Lost() uint64 { return n.lost.Load() }

// Close denies every subscription with ErrClosed, with a hint, ends the
// goroutines and waits for them. It may be called more than once, and returns
// nil.
//
// It takes a second at most, whatever Redis does: a goroutine that go-redis
// blocks for longer (the handshake of a new connection to a frozen server, a
// dial that ignores its context) is left behind, and ends by itself, with its
// connection closed, as soon as go-redis returns.
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

// elapsed is now for an atomic, never 0. Wall-clock times would not do: set back
// by an hour, they would keep a dead connection for an hour.
func (n *Notifier) elapsed() int64 { return int64(time.Since(n.epoch)) + 1 }

func (n *Notifier) at(elapsed int64) time.Time { return n.epoch.Add(time.Duration(elapsed - 1)) }

// wakeLocked makes the control goroutine look at the fields it shares.
func (n *Notifier) wakeLocked() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// post hands an event to the control goroutine.
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

// dropLocked takes a channel without subscriptions out of the table. From here
// on a Subscribe makes a new one, whose SUBSCRIBE is written after the
// UNSUBSCRIBE of this one.
func (n *Notifier) dropLocked(ch *channel) {
	n.idle.removeLocked(ch)
	delete(n.table, ch.name)
	if len(n.table) == 0 {
		n.table = make(map[string]*channel) // the old one keeps the room that many once took
	}
	if State(ch.state.Load()) == Denied {
		n.denied--
	}
	n.dropped = append(n.dropped, ch)
	if ch.first != nil {
		n.late.add(ch.name, ch.first)
	}
}

// lateFuncs are the functions of channels that nobody wants any more, for messages
// that Redis sends before it hears of that. They lie in two generations, and each goes
// as a whole, because a map gives back no memory of what is deleted in it.
type lateFuncs struct {
	next map[string]func(payload string) bool // the younger
	m    map[string]func(payload string) bool
	turn time.Time // when the younger one began; zero while both are empty
}

// lateFor is for how long such a function is kept at least; at most twice as long.
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

// expire lets the older generation go when its time is over.
func (l *lateFuncs) expire(now time.Time) {
	if l.turn.IsZero() || now.Before(l.due()) {
		return
	}
	l.m, l.next, l.turn = l.next, nil, now
	if l.m == nil {
		l.turn = time.Time{}
	}
}

// due returns when a generation goes, zero for never.
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
		// The control goroutine is the only caller and is counted itself, so this
		// Add never meets a Wait at zero.
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
