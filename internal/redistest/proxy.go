package redistest

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Act is what a [Proxy] does with one command.
type Act int

// The acts. The server runs the command in all of them except RefuseRST and
// Drop.
const (
	// Pass forwards the command and its reply.
	Pass Act = iota
	// LoseRST runs the command, then resets the connection instead of
	// delivering the reply.
	LoseRST
	// LoseFIN runs the command, then closes the connection in an orderly way
	// instead of delivering the reply.
	LoseFIN
	// Swallow runs the command and drops the reply. The connection stays open
	// and works. A client that continues to use it takes the next reply for
	// this one, as in reality; go-redis closes the connection after the
	// timeout.
	Swallow
	// Hold runs the command at once and delivers the reply after
	// [Proxy.Release], or after the time set by [Proxy.HoldFor]. Later replies
	// on the connection wait behind it.
	Hold
	// RefuseRST resets the connection and does not run the command. Replies
	// still under way on the connection are lost.
	RefuseRST
	// Twice runs the command two times in a row, like a client that resends
	// it, and delivers the second reply only.
	Twice
	// Drop does not run the command; the connection stays open, but the
	// command is never answered.
	Drop
	// Late runs the command after [Proxy.Release], or after the time set by
	// [Proxy.HoldFor], even if the client has given up and gone by then: a
	// packet that was delayed for long. Later commands on the connection wait
	// behind it.
	Late
	// Fail runs the command and replies with the error of [Proxy.FailWith], as
	// a proxy does that has lost its server after the command.
	Fail

	actCount
)

var actNames = [actCount]string{"Pass", "LoseRST", "LoseFIN", "Swallow", "Hold", "RefuseRST", "Twice", "Drop", "Late", "Fail"}

// String returns the name of the act.
func (a Act) String() string { return actNames[a] }

// Proxy sits between clients and a server. It knows where a command ends and
// which reply answers it, under RESP2 and RESP3. So it can lose exactly one
// reply after the command has run, which no packet filter can.
//
// Its methods are safe for concurrent use. It does not understand CLIENT REPLY
// and the stream of MONITOR.
type Proxy struct {
	dial  func() (net.Conn, error)
	ln    net.Listener        // nil inside a bubble
	watch func(args []string) // sees all commands; may be nil

	onCommand atomic.Pointer[func([]string) Act]
	onMessage atomic.Pointer[func(kind, channel, payload string) bool]
	hooks     sync.Mutex // held during a call of a hook

	mute, stall gate
	delay       atomic.Int64
	holdFor     atomic.Int64
	failure     atomic.Pointer[string] // nil for "ERR upstream failure"
	acts        [actCount]atomic.Int64
	done        chan struct{} // closed with the proxy
	wg          sync.WaitGroup

	mu     sync.Mutex
	closed bool
	held   chan struct{}      // closed by Release
	links  map[*link]struct{} // until both sides are gone
	seen   map[string]int64   // commands by lower-case name
}

// NewProxy returns a proxy in front of the server at upstream, host:port. It
// is closed at the end of the test.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	Long(t, "faults of the network")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	p := newProxy(func() (net.Conn, error) { return net.DialTimeout("tcp", upstream, 5*time.Second) })
	p.ln = ln
	t.Cleanup(p.close)
	if _, ok := served.Load(upstream); ok {
		served.Store(p.Addr(), true)
	}
	p.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.serve(c)
		}
	})
	return p
}

func newProxy(dial func() (net.Conn, error)) *Proxy {
	return &Proxy{
		dial:  dial,
		done:  make(chan struct{}),
		held:  make(chan struct{}),
		links: map[*link]struct{}{},
		seen:  map[string]int64{},
	}
}

// serve handles the proxy's end of a client's connection.
func (p *Proxy) serve(c net.Conn) {
	l := &link{p: p, c: c, out: make(chan delivery, 1024)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return
	}
	p.links[l] = struct{}{}
	p.wg.Go(l.run)
}

func (p *Proxy) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.done)
	for l := range p.links {
		l.closeAll()
	}
	p.mu.Unlock()
	if p.ln != nil {
		_ = p.ln.Close()
	}
	p.wg.Wait()
}

// Addr returns the address clients connect to, "" inside a bubble.
func (p *Proxy) Addr() string {
	if p.ln == nil {
		return ""
	}
	return p.ln.Addr().String()
}

// OnCommand sets the function that decides on each command, which it sees as
// the client wrote it; with nil all commands pass. Calls are never concurrent,
// even for several connections, so f needs no lock unless the test reads the
// same variables meanwhile. f must not block. It also sees the commands that
// set up a connection (HELLO, CLIENT).
func (p *Proxy) OnCommand(f func(args []string) Act) {
	if f == nil {
		p.onCommand.Store(nil)
		return
	}
	p.onCommand.Store(&f)
}

// OnNext applies act to the next n commands called name, in any case, and
// passes all others. It replaces the function set by OnCommand.
func (p *Proxy) OnNext(n int, name string, act Act) {
	p.OnCommand(func(args []string) Act {
		if n > 0 && strings.EqualFold(args[0], name) {
			n--
			return act
		}
		return Pass
	})
}

// OnMessage sets the function that decides on each pub/sub message; with nil
// all messages pass. false drops the message. kind is as in the protocol:
// "message", "pmessage", "smessage", or, for confirmations, "subscribe",
// "unsubscribe" and so on, whose payload is the number of subscriptions. The
// function is called under the same rules as that of [Proxy.OnCommand].
func (p *Proxy) OnMessage(f func(kind, channel, payload string) bool) {
	if f == nil {
		p.onMessage.Store(nil)
		return
	}
	p.onMessage.Store(&f)
}

// Mute turns the proxy into a black hole, or back. While muted, it discards
// everything that arrives from either side and hides the end of a connection.
// Old and new connections stay open. What was discarded never arrives.
func (p *Proxy) Mute(on bool) { p.mute.set(on) }

// Stall holds everything back, in both directions, while on is true, and then
// delivers it in order: a network that is slow but loses nothing.
func (p *Proxy) Stall(on bool) { p.stall.set(on) }

// Delay makes each reply and message arrive d later. The delays of the replies
// of a pipeline do not add up.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// HoldFor sets how long [Hold] and [Late] hold commands that arrive from now
// on. Zero, the default, means until [Proxy.Release].
func (p *Proxy) HoldFor(d time.Duration) { p.holdFor.Store(int64(d)) }

// FailWith sets the error with which [Fail] replies, without the leading dash.
func (p *Proxy) FailWith(text string) { p.failure.Store(&text) }

// Release releases all commands held so far, even if the server has not replied
// yet. Commands that arrive later are held again.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.held)
	p.held = make(chan struct{})
}

// CutAll resets all present client connections and returns their number. The
// server still runs the commands that it has received.
func (p *Proxy) CutAll() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if l.reset() {
			n++
		}
	}
	return n
}

// Conns returns the number of client connections that are open, as far as the
// proxy has noticed.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if !l.gone.Load() {
			n++
		}
	}
	return n
}

// Count returns how often act was carried out, as proof that a fault has
// happened. If the server runs the command, it has run it by then: the reply
// has arrived at the proxy. Late counts when the command is held; when it takes
// effect, Pass counts. Nothing counts while muted.
func (p *Proxy) Count(act Act) int64 { return p.acts[act].Load() }

// Commands returns how many commands called name, in any case, have arrived,
// whatever became of them. With "" it counts all commands except connection
// set-up (HELLO, CLIENT, AUTH, SELECT). The number is exact. It is up to date
// for a test that has received the reply.
func (p *Proxy) Commands(name string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name != "" {
		return p.seen[strings.ToLower(name)]
	}
	var n int64
	for name, k := range p.seen {
		if !isSetup(name) {
			n += k
		}
	}
	return n
}

// judge counts a command and calls the hook for it.
func (p *Proxy) judge(args []string) order {
	p.mu.Lock()
	p.seen[strings.ToLower(args[0])]++
	o := order{release: p.held, limit: time.Duration(p.holdFor.Load())}
	p.mu.Unlock()
	if p.watch != nil {
		p.watch(args)
	}
	if f := p.onCommand.Load(); f != nil {
		p.hooks.Lock()
		defer p.hooks.Unlock()
		o.act = (*f)(args)
	}
	return o
}

// wanted calls the hook to decide whether a pub/sub message passes.
func (p *Proxy) wanted(flat []string) bool {
	f := p.onMessage.Load()
	if f == nil || len(flat) < 3 {
		return true
	}
	p.hooks.Lock()
	defer p.hooks.Unlock()
	n := len(flat)
	return (*f)(flat[0], flat[n-2], flat[n-1])
}
