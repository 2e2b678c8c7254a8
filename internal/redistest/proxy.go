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

// What can happen to a command. In all but RefuseRST and Drop the server runs
// it.
const (
	// Pass forwards the command and its reply.
	Pass Act = iota
	// LoseRST runs the command, then resets the connection instead of
	// delivering the reply.
	LoseRST
	// LoseFIN runs the command, then closes the connection in an orderly way
	// instead of delivering the reply.
	LoseFIN
	// Swallow runs the command and drops the reply; the connection stays open
	// and works. A client that goes on to use it takes the next reply for this
	// one, as it would in reality; go-redis closes it after the timeout.
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
	// [Proxy.HoldFor], even when the client has given up and gone by then:
	// the packet that was long under way. Later commands on the connection
	// wait behind it.
	Late
	// Fail runs the command and answers with the error of [Proxy.FailWith], as a
	// proxy does that has lost its server behind the command.
	Fail

	actCount
)

var actNames = [actCount]string{"Pass", "LoseRST", "LoseFIN", "Swallow", "Hold", "RefuseRST", "Twice", "Drop", "Late", "Fail"}

// String returns the name of the act.
func (a Act) String() string { return actNames[a] }

// Proxy sits between clients and a server and knows where a command ends and
// which reply answers it, under RESP2 and RESP3. So it can lose exactly one
// reply after the command has run, which no packet filter can.
//
// Its methods may be called at any time from any goroutine. CLIENT REPLY and
// the streaming of MONITOR are not understood.
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

// serve takes over the proxy's end of a client's connection.
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

// OnCommand sets the function that decides on each command, written as the
// client wrote it; nil passes everything. Calls are never concurrent, even from
// several connections, so f needs no locking of its own unless the test reads
// the same variables meanwhile; it must not block. It sees the commands that
// set up a connection (HELLO, CLIENT) as well.
func (p *Proxy) OnCommand(f func(args []string) Act) {
	if f == nil {
		p.onCommand.Store(nil)
		return
	}
	p.onCommand.Store(&f)
}

// OnNext applies act to the next n commands called name (case does not
// matter) and passes all others. It replaces the function set by OnCommand.
func (p *Proxy) OnNext(n int, name string, act Act) {
	p.OnCommand(func(args []string) Act {
		if n > 0 && strings.EqualFold(args[0], name) {
			n--
			return act
		}
		return Pass
	})
}

// OnMessage sets the function that decides on each pub/sub message, nil
// passing everything: false drops it. Kind is as in the protocol: "message",
// "pmessage", "smessage", or for the confirmations "subscribe",
// "unsubscribe" and so on, whose payload is the number of subscriptions.
// It is called under the same rules as that of [Proxy.OnCommand].
func (p *Proxy) OnMessage(f func(kind, channel, payload string) bool) {
	if f == nil {
		p.onMessage.Store(nil)
		return
	}
	p.onMessage.Store(&f)
}

// Mute turns the proxy into a black hole, or back. While muted, everything
// that arrives from either side is discarded and nobody sees a connection
// end; connections, old and new, stay open. What was discarded never comes.
func (p *Proxy) Mute(on bool) { p.mute.set(on) }

// Stall keeps everything back, in both directions, and Stall(false) delivers
// it in order: a network that is slow but loses nothing.
func (p *Proxy) Stall(on bool) { p.stall.set(on) }

// Delay makes each reply and message arrive d later. It does not add up over
// the replies of a pipeline.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// HoldFor sets how long commands are held, by [Hold] and [Late], that arrive
// from now on; zero, the default, is until [Proxy.Release].
func (p *Proxy) HoldFor(d time.Duration) { p.holdFor.Store(int64(d)) }

// FailWith sets the error with which [Fail] answers, without the dash before it.
func (p *Proxy) FailWith(text string) { p.failure.Store(&text) }

// Release lets go of all commands held so far, even if the reply of one is
// still to come from the server. Those that arrive later are held again.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.held)
	p.held = make(chan struct{})
}

// CutAll resets all present client connections, and returns how many these
// were. Commands the server has received already it runs all the same.
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
// really happened. Where the server runs the command it has done so: its reply
// has arrived at the proxy. Late is counted when the command is held; what it
// did is known when Pass goes up. Nothing is counted while muted.
func (p *Proxy) Count(act Act) int64 { return p.acts[act].Load() }

// Commands returns how many commands called name (case does not matter) have
// arrived, whatever became of them. With "" it is the number of all commands
// except connection set-up (HELLO, CLIENT, AUTH, SELECT). It is exact, and for
// a test that has a reply in hand up to date.
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

// judge counts a command and asks the hook about it.
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

// wanted asks the hook whether a pub/sub message may pass.
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
