// Package latchkeytest gives unit tests a latchkey client on an in-memory Redis
// server, so that they need no server and no network.
//
// Inside a testing/synctest bubble the server keeps the bubble's time: leases
// end as the fake clock says, and hours of them pass in milliseconds.
package latchkeytest

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/names"
)

// New returns a client on an in-memory server of its own. Both are closed when
// the test ends.
//
// In a synctest bubble, call it inside the bubble with the bubble's t. Outside
// of one, leases end in real time.
func New(t testing.TB, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	return NewServer(t).Client(t, opts...)
}

// A Server is an in-memory Redis server for tests in which several clients meet,
// or that look into Redis.
type Server struct {
	mini *miniredis.Miniredis
	addr string
}

// servers numbers the servers, so that no two have one address.
var servers atomic.Int32

// NewServer starts a server. It is closed when the test ends. It takes a platform
// of 64 bits: on others the test fails at once.
func NewServer(t testing.TB) *Server {
	t.Helper()
	if strconv.IntSize < 64 {
		t.Fatal("latchkeytest: the server in memory keeps times and tokens in ints, which are too short here (GOARCH=" + runtime.GOARCH + "): test on 64 bits, or on a real server")
	}
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	// Never dialled; but a host name would be looked up, and a resolver that is
	// shared by bubbles breaks them.
	port := 6379 + int(servers.Add(1))%50_000
	return &Server{mini: m, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
}

// Redis returns a new connection to the server. It is closed when the test ends.
func (s *Server) Redis(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: s.addr,
		// Whoever waits for a connection does so by a timer that go-redis keeps, and a timer
		// of one bubble breaks the next.
		PoolSize: 10_000,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return s.mini.Dial()
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Client returns a new client on the server. It is closed when the test ends.
func (s *Server) Client(t testing.TB, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	c := latchkey.New(s.Redis(t), opts...)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Expire ends the lease of the lock, or of whatever else has that name (with the
// client's key prefix before it), as if nobody had renewed it. Its holder hears
// of it at its next renewal; whoever asks from now on gets in. Of a semaphore it
// ends the leases of all permits that are out, be it none.
func (s *Server) Expire(name string) {
	out := names.Suffixed(name, "timeout")
	ids, err := s.mini.ZMembers(out)
	if err != nil { // there are none
		if s.mini.Type(name) != "string" || s.mini.TTL(name) > 0 { // else it is a number, which has no lease
			s.mini.Del(name)
		}
		return
	}
	for _, id := range ids {
		_, _ = s.mini.ZAdd(out, 1, id) // in 1970
	}
}
