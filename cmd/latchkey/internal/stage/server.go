package stage

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/connect"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
)

// A Server is the Redis server that the workers use.
type Server struct {
	About    string // description for people
	Embedded bool   // in this process
	prefix   string // prefix of all keys
	open     func() (redis.UniversalClient, error)
	keys     []string // keys in use, with the prefix
	keep     []string // keys that never expire
	close    func()
}

// OpenServer returns the server that the flags name, or else an in-memory
// server. The caller must close it.
//
// Its clients have the hooks.
func OpenServer(conn *connect.Flags, command string, hooks ...redis.Hook) (*Server, error) {
	s := &Server{prefix: "latchkey-" + command + ":" + rand.Text()[:12] + ":", close: func() {}}
	if !conn.Given() {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true) // makes leases end
		if err := m.StartAddr("127.0.0.1:0"); err != nil {
			return nil, exit.Errorf(exit.Failed, "%s: the server in memory: %v", command, err)
		}
		s.About, s.Embedded, s.close = "a server in memory", true, m.Close
		s.open = func() (redis.UniversalClient, error) {
			o := &redis.Options{Addr: m.Addr()}
			o.Dialer = conn.Dialer()
			return hooked(redis.NewClient(o), hooks), nil
		}
		return s, nil
	}
	s.open = func() (redis.UniversalClient, error) {
		rdb, addr, err := conn.Open()
		if err != nil {
			return nil, err
		}
		s.About = "Redis at " + addr
		return hooked(rdb, hooks), nil
	}
	rdb, err := s.open()
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return nil, connect.Unavailable(strings.TrimPrefix(s.About, "Redis at "), err)
	}
	return s, nil
}

func hooked(rdb redis.UniversalClient, hooks []redis.Hook) redis.UniversalClient {
	for _, h := range hooks {
		rdb.AddHook(h)
	}
	return rdb
}

// Close closes an in-memory server.
func (s *Server) Close() { s.close() }

// Clean deletes the keys that never expire and returns the other keys that
// remain. There should be none, because the clients are closed.
func (s *Server) Clean() (left []string, err error) {
	rdb, err := s.open()
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, k := range s.keep {
		err = errors.Join(err, rdb.Del(ctx, k).Err())
	}
	for _, k := range s.keys {
		n, xerr := rdb.Exists(ctx, k).Result()
		if err = errors.Join(err, xerr); n > 0 {
			left = append(left, k)
		}
	}
	return left, err
}

// newClient returns a library client with a connection of its own, and a
// function that closes both.
func (s *Server) newClient(opts ...latchkey.Option) (*latchkey.Client, func() error, error) {
	rdb, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	c := latchkey.New(rdb, append(opts, latchkey.WithKeyPrefix(s.prefix))...)
	return c, func() error { return errors.Join(c.Close(), rdb.Close()) }, nil
}
