package redistest

import (
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/latchkey-go/latchkey/internal/bubble"
)

// Env is an in-memory Redis with its clients, inside a bubble of fake time.
// Each client reaches the server through a [Proxy], which can inject faults at
// exact moments.
type Env struct {
	Redis *redis.Client        // the first client
	Mini  *miniredis.Miniredis // the server, whose clock is the bubble's

	t        *testing.T
	addr     string // never dialed; distinguishes servers
	mu       sync.Mutex
	muted    bool // no network for new clients
	links    map[*redis.Client]*Proxy
	watch    atomic.Pointer[func([]string)]
	watching sync.Mutex // held during a call of watch
}

// lifetime is how much fake time a bubble may take. Without a limit, a waiter
// of something that never comes would ask again for ever.
const lifetime = 1000 * time.Hour

// serversOnly reports whether only tests on real servers are to run
// (LATCHKEY_TESTS=servers). Results on the in-memory server do not depend on
// the real one.
func serversOnly() bool { return os.Getenv("LATCHKEY_TESTS") == "servers" }

// Bubble runs f in a synctest bubble with a Redis in it. Time in the bubble is
// fake, including TTLs and TIME: it advances as soon as all goroutines are
// waiting. Hours pass in milliseconds, and durations can be compared with ==.
// After f and its cleanups have returned, clients and server are closed. A
// goroutine that still runs then fails the test.
//
// As in any bubble, f must not call t.Run or t.Parallel, nor use sockets or
// goroutines from outside. The server is miniredis: it has no sharded pub/sub,
// and what a test proves about a script there must be proved again on a real
// server.
func Bubble(t *testing.T, f func(t *testing.T, env *Env)) {
	t.Helper()
	switch {
	case Minimal():
		t.Skip("the in-memory server has no users")
	case serversOnly():
		t.Skip("no server is asked here")
	}
	bubble.Test(t, func(t *testing.T) {
		through := false
		end := time.AfterFunc(lifetime, func() { panic("redistest: somebody in the bubble waits for what never comes") })
		defer end.Stop()
		defer func() {
			if t.Failed() && !through {
				// A goroutine that waits for something the test would have done
				// waits for ever, and fake time runs on as long.
				panic("redistest: the test has failed, and its bubble may not end")
			}
		}()
		f(t, newEnv(t, 6379))
		through = true
	})
}

func newEnv(t *testing.T, port int) *Env {
	t.Helper()
	// A host name would be looked up by goroutines outside the bubble.
	e := &Env{t: t, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Mini: miniredis.NewMiniRedis(), links: map[*redis.Client]*Proxy{}}
	e.Mini.ClockTTL(true)
	t.Cleanup(func() { // after the cleanups of the test
		for c, p := range e.links {
			_ = c.Close()
			p.close()
		}
		e.Mini.Close()
	})
	e.Redis = e.Client()
	return e
}

// Fleet returns n independent servers in the bubble. The first is e.
func (e *Env) Fleet(n int) []*Env {
	e.t.Helper()
	fleet := []*Env{e}
	for i := 1; i < n; i++ {
		fleet = append(fleet, newEnv(e.t, 6379+i))
	}
	return fleet
}

// Client returns another client of the same server, over connections of its
// own. It has go-redis's default options except for the size of its pool; opts
// change them. It is closed at the end of the bubble. Closing it earlier does
// no harm.
func (e *Env) Client(opts ...func(*redis.Options)) *redis.Client {
	p := newProxy(func() (net.Conn, error) { return e.Mini.Dial() })
	p.watch = func(args []string) {
		if f := e.watch.Load(); f != nil {
			e.watching.Lock()
			defer e.watching.Unlock()
			(*f)(args)
		}
	}
	o := &redis.Options{
		Addr: e.addr,
		// A caller that waits for a connection uses a timer that go-redis
		// keeps, and a timer of one bubble breaks the next. The pool is large
		// enough that no caller waits.
		PoolSize: 10_000,
		// Of that many connections go-redis makes a queue of megabytes for each client.
		MaintNotificationsConfig: &maintnotifications.Config{HandoffQueueSize: 1},
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if err := ctx.Err(); err != nil {
				return nil, err // as a real dial does
			}
			client, server := net.Pipe()
			p.serve(server)
			return client, nil
		},
	}
	for _, f := range opts {
		f(o)
	}
	c := redis.NewClient(o)
	e.mu.Lock()
	defer e.mu.Unlock()
	p.Mute(e.muted)
	e.links[c] = p
	return c
}

// Link returns the proxy between a client and the server, to inject faults. It
// has no sockets: LoseRST and LoseFIN both look like an orderly close (io.EOF).
func (e *Env) Link(c *redis.Client) *Proxy {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.links[c]
	if p == nil {
		e.t.Fatal("redistest: not a client of this bubble")
	}
	return p
}

// Links returns the proxies between all clients and the server.
func (e *Env) Links() []*Proxy {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.links))
}

// Partition cuts the given clients off from the server, or, if none is given,
// all clients, including future ones. They see silence, never an error:
// everything sent in either direction is discarded, and no connection ends.
func (e *Env) Partition(clients ...*redis.Client) { e.setMuted(true, clients) }

// Heal ends the partition for the given clients, or for all. Connections that
// were not given up meanwhile work again. What was discarded never arrives.
func (e *Env) Heal(clients ...*redis.Client) { e.setMuted(false, clients) }

func (e *Env) setMuted(on bool, clients []*redis.Client) {
	for _, c := range clients {
		e.Link(c).Mute(on)
	}
	if len(clients) > 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.muted = on
	for _, p := range e.links {
		p.Mute(on)
	}
}

// OnCommand sets a function that sees each command that a client of the bubble
// sends, before the server does, except those lost in a partition. nil removes
// the function. Calls are never concurrent, and f must not block. [Env.Link]
// and [Proxy.OnCommand] can decide what happens to a command.
func (e *Env) OnCommand(f func(args []string)) {
	if f == nil {
		e.watch.Store(nil)
		return
	}
	e.watch.Store(&f)
}

// Commands returns how many commands called name, in any case, all clients
// together have sent. With "" it counts all commands except connection set-up.
// Each command of a pipeline counts. Commands that scripts call do not count.
func (e *Env) Commands(name string) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var n int64
	for _, p := range e.links {
		n += p.Commands(name)
	}
	return n
}

// Advance lets d pass and then waits until every other goroutine in the bubble
// is blocked, so that everything due at that moment has happened.
func (e *Env) Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
