// Package latchkeytest provides a latchkey client on an in-memory Redis server,
// so that unit tests need no server and no network.
//
// Inside a testing/synctest bubble the server follows the bubble's clock:
// leases end in fake time, and hours of them pass in milliseconds.
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
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/names"
)

// New returns a client on an in-memory server of its own. Both are closed when
// the test ends.
//
// In a synctest bubble, call New inside the bubble with the bubble's t. Outside
// a bubble, leases end in real time.
func New(t testing.TB, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	return NewServer(t).Client(t, opts...)
}

// A Server is an in-memory Redis server, for tests with several clients and
// tests that inspect Redis.
type Server struct {
	mini *miniredis.Miniredis
	addr string
}

// servers counts the servers, so that each has an address of its own.
var servers atomic.Int32

// NewServer starts a server. It is closed when the test ends. NewServer
// requires a 64-bit platform; on any other it fails the test.
func NewServer(t testing.TB) *Server {
	t.Helper()
	if strconv.IntSize < 64 {
		t.Fatal("latchkeytest: the server in memory keeps times and tokens in ints, which are too short here (GOARCH=" + runtime.GOARCH + "): test on 64 bits, or on a real server")
	}
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	// The address is never dialled. A host name would be looked up, and a
	// resolver that bubbles share breaks them.
	port := 6379 + int(servers.Add(1))%50_000
	return &Server{mini: m, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
}

// Redis returns a new connection to the server. It is closed when the test ends.
func (s *Server) Redis(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: s.addr,
		// A caller that waits for a connection uses a timer that go-redis
		// keeps, and a timer of one bubble breaks the next. The pool is large
		// enough that no caller waits.
		PoolSize: 10_000,
		// Of that many connections go-redis makes a queue of megabytes for each
		// client.
		MaintNotificationsConfig: &maintnotifications.Config{HandoffQueueSize: 1},
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

// Expire ends the lease of the lock, or other object, with the given name
// (including the client's key prefix), as if nobody had renewed it. The holder
// learns of it at its next renewal. From now on others can acquire it. For a
// permit semaphore, Expire ends the leases of all permits that are out.
func (s *Server) Expire(name string) {
	out := names.Suffixed(name, "timeout")
	ids, err := s.mini.ZMembers(out)
	if err != nil { // there are none
		if s.mini.Type(name) != "string" || s.mini.TTL(name) > 0 { // a number without expiry is a count, which has no lease
			s.mini.Del(name)
		}
		return
	}
	for _, id := range ids {
		_, _ = s.mini.ZAdd(out, 1, id) // in 1970
	}
}
