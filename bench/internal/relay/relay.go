// Package relay is a link that takes time: a TCP relay which delivers what it is sent a
// constant time later, in each direction. Delays overlap: as much goes through as without it.
package relay

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"
)

// A Relay relays connections to one server.
type Relay struct {
	delay    time.Duration
	server   string
	listener net.Listener
	parcels  chan parcel
	done     sync.WaitGroup // accept and the pipes

	// mu guards the fields below.
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// A parcel is what is delivered at once.
type parcel struct {
	to   net.Conn
	data []byte // nil: to is closed
	due  time.Time
}

// Start returns a Relay to the server at that address.
func Start(server string, delay time.Duration) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{
		delay: delay, server: server, listener: l,
		parcels: make(chan parcel, 4096), conns: map[net.Conn]struct{}{},
	}
	r.done.Go(r.accept)
	go r.deliver()
	return r, nil
}

// Addr returns the address to connect to.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close closes all connections and waits until everything has ended.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	err := r.listener.Close()
	r.done.Wait()
	close(r.parcels)
	return err
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil || !r.keep(client, server) {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			continue
		}
		r.done.Go(func() { r.pipe(client, server) })
		r.done.Go(func() { r.pipe(server, client) })
	}
}

// keep notes connections that Close closes; false when it has been called.
func (r *Relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = struct{}{}
	}
	return !r.closed
}

// pipe takes in what comes from one side for the other.
func (r *Relay) pipe(from, to net.Conn) {
	defer func() {
		r.parcels <- parcel{to: to, due: time.Now().Add(r.delay)}
		r.mu.Lock()
		delete(r.conns, from)
		r.mu.Unlock()
		_ = from.Close()
	}()
	room := make([]byte, 64<<10)
	for {
		n, err := from.Read(room)
		if n > 0 {
			r.parcels <- parcel{to, append([]byte(nil), room[:n]...), time.Now().Add(r.delay)}
		}
		if err != nil {
			return
		}
	}
}

// deliver delivers all parcels. The delay is the same for each, so the one that came
// first is due first, and one thread is enough.
func (r *Relay) deliver() {
	runtime.LockOSThread() // for exact; the thread ends with the goroutine
	exact()
	for p := range r.parcels {
		if d := time.Until(p.due); d > 0 {
			sleep(d)
		}
		if p.data == nil {
			_ = p.to.Close()
			continue
		}
		if _, err := p.to.Write(p.data); err != nil && !errors.Is(err, net.ErrClosed) {
			_ = p.to.Close() // its pipe ends too
		}
	}
}
