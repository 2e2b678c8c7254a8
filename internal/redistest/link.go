package redistest

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection through a [Proxy]. It has three goroutines: commands
// reads from the client, replies reads from the server, and deliver writes to
// the client. So a reply can be delayed while others arrive after it.
type link struct {
	p    *Proxy
	c    net.Conn // client
	out  chan delivery
	gone atomic.Bool // the client side is closed

	mu      sync.Mutex
	u       net.Conn // server; nil before it is dialed
	queue   []pending
	subs    [3]map[string]bool // channels, patterns, shard channels, as commanded
	confirm [2]int             // channels and patterns, shard channels, as confirmed
}

// pending is the expected reply to a command.
type pending struct {
	order
	kind   string // of the confirmations awaited; "" for an ordinary reply
	left   int    // number of them
	silent bool   // the first run of Twice
	begun  bool   // a confirmation has arrived
}

// delivery is data for the client.
type delivery struct {
	order
	raw []byte
	due time.Time
}

func (l *link) run() {
	p := l.p
	defer func() {
		l.closeAll()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	u, err := p.dial()
	if err != nil {
		p.mute.wait(p.done)
		l.reset()
		return
	}
	l.mu.Lock()
	l.u = u
	l.mu.Unlock()
	select {
	case <-p.done: // closed while we were dialing
		return
	default:
	}
	var wg sync.WaitGroup
	wg.Go(l.commands)
	wg.Go(l.replies)
	wg.Go(l.deliver)
	wg.Wait()
}

// commands forwards what the client sends.
func (l *link) commands() {
	p := l.p
	defer func() { // a black hole hides the end of the connection from the server
		if p.stall.wait(p.done) && p.mute.wait(p.done) {
			endWrites(l.u)
		}
	}()
	r := bufio.NewReader(l.c)
	for {
		raw, args, err := readCommand(r)
		if err != nil {
			l.shut()
			return
		}
		if len(args) == 0 {
			continue
		}
		if !p.stall.wait(p.done) {
			return
		}
		if p.mute.shut() {
			continue
		}
		o := p.judge(args)
		switch o.act {
		case RefuseRST:
			p.acts[RefuseRST].Add(1)
			l.reset()
			return
		case Drop:
			p.acts[Drop].Add(1)
			continue
		case Late:
			p.acts[Late].Add(1)
			if !o.wait(p.done) {
				return
			}
			o.act = Pass
		case Twice:
			l.expect(args, o, true)
			raw = append(raw[:len(raw):len(raw)], raw...)
		}
		l.expect(args, o, false)
		if _, err := l.u.Write(raw); err != nil {
			return // replies notices it too
		}
	}
}

// replies reads from the server and determines which command each reply
// answers.
func (l *link) replies() {
	defer close(l.out)
	r := bufio.NewReader(l.u)
	for {
		m, err := readMessage(r)
		if err != nil {
			return
		}
		d, ok := l.match(m)
		if !ok || l.p.mute.shut() {
			continue
		}
		select {
		case l.out <- d:
		case <-l.p.done:
			return
		}
	}
}

// deliver writes to the client what it is to receive.
func (l *link) deliver() {
	p := l.p
	for d := range l.out {
		if wait := time.Until(d.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-p.done:
			}
		}
		if d.act == Hold {
			d.wait(p.done)
		}
		p.stall.wait(p.done)
		if p.mute.shut() || l.gone.Load() {
			continue
		}
		switch d.act {
		case LoseRST:
			l.reset()
		case LoseFIN:
			l.shut()
		case Swallow:
		case Fail:
			text := "ERR upstream failure"
			if set := p.failure.Load(); set != nil {
				text = *set
			}
			_, _ = l.c.Write([]byte("-" + text + "\r\n"))
		default:
			_, _ = l.c.Write(d.raw) // commands notices a client that has gone
		}
	}
	// The server has ended the connection, which a black hole hides.
	if p.stall.wait(p.done) && p.mute.wait(p.done) {
		l.shut()
	}
}

// expect records the expected reply to a command.
func (l *link) expect(args []string, o order, silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := pending{order: o, silent: silent}
	kind := strings.ToLower(args[0])
	if i := family(kind); i >= 0 {
		if l.subs[i] == nil {
			l.subs[i] = map[string]bool{}
		}
		e.kind, e.left = kind, max(1, len(args)-1)
		off := strings.Contains(kind, "unsub")
		if off && len(args) == 1 { // all subscriptions, or one confirmation if there are none
			e.left = max(1, len(l.subs[i]))
			clear(l.subs[i])
		}
		for _, channel := range args[1:] {
			if off {
				delete(l.subs[i], channel)
			} else {
				l.subs[i][channel] = true
			}
		}
	}
	l.queue = append(l.queue, e)
}

// family returns the kind of subscription of a command or confirmation, or -1
// if it is neither.
func family(kind string) int {
	switch kind {
	case "subscribe", "unsubscribe":
		return 0
	case "psubscribe", "punsubscribe":
		return 1
	case "ssubscribe", "sunsubscribe":
		return 2
	}
	return -1
}

// match finds the command to which a value from the server belongs, and what to
// do with the value.
func (l *link) match(m message) (delivery, bool) {
	d := delivery{raw: m.raw, due: time.Now().Add(time.Duration(l.p.delay.Load()))}
	push, pubsub := l.classify(m)
	if pubsub && !l.p.mute.shut() && !l.p.wanted(m.flat) {
		d.act = Swallow
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return d, true
	}
	head := &l.queue[0]
	if push && (head.kind == "" || head.kind != m.flat[0]) {
		return d, true // answers no command
	}
	e := *head
	head.begun = true
	if head.left--; !push || head.left <= 0 { // an error answers for all channels
		l.queue = l.queue[1:]
	}
	if e.silent {
		return d, false
	}
	if !e.begun && !l.p.mute.shut() {
		l.p.acts[e.act].Add(1)
	}
	if d.act != Swallow {
		d.order = e.order
	}
	return d, true
}

// classify distinguishes a push, which may come at any time, from an ordinary
// reply, and a push of pub/sub from others. Under RESP2 a push is an ordinary
// array. It can come only while there are subscriptions, and then the only
// ordinary reply that is an array is that to PING.
func (l *link) classify(m message) (push, pubsub bool) {
	if m.kind != '>' && m.kind != '*' || len(m.flat) == 0 {
		return m.kind == '>', false
	}
	kind := m.flat[0]
	fam := family(kind)
	pubsub = fam >= 0 || kind == "message" || kind == "pmessage" || kind == "smessage"
	l.mu.Lock()
	defer l.mu.Unlock()
	awaited := len(l.queue) > 0 && l.queue[0].kind == kind && kind != ""
	if m.kind == '*' {
		pubsub = pubsub && (awaited || l.confirm[0]+l.confirm[1] > 0)
	}
	if pubsub && fam >= 0 && len(m.flat) == 3 {
		n, _ := strconv.Atoi(m.flat[2])
		l.confirm[fam/2] = n
	}
	return m.kind == '>' || pubsub, pubsub
}

// shut closes the client side, in an orderly way unless reset was called, and
// reports whether it was open.
func (l *link) shut() bool {
	first := l.gone.CompareAndSwap(false, true)
	_ = l.c.Close()
	return first
}

// reset closes the client side with an RST.
func (l *link) reset() bool {
	if c, ok := l.c.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	return l.shut()
}

// closeAll closes both sides.
func (l *link) closeAll() {
	l.shut()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.u != nil {
		_ = l.u.Close()
	}
}

// endWrites tells the server that no more commands follow. The server still
// runs the commands that it has received, which a full close might discard.
func endWrites(u net.Conn) {
	if c, ok := u.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
		return
	}
	_ = u.Close()
}
