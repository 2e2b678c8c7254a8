package direct

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// newPool returns a Pool that is closed at the end of the test.
func newPool(t *testing.T, rdb *redis.Client) *Pool {
	t.Helper()
	p := New(rdb)
	require.NotNil(t, p)
	t.Cleanup(p.Close)
	return p
}

// warm returns a connection of p.
func warm(t *testing.T, p *Pool) *Conn {
	t.Helper()
	for range often {
		if c := p.Get(); c != nil {
			return c
		}
	}
	p.making.Wait()
	c := p.Get()
	require.NotNil(t, c, "a connection for who asks often")
	return c
}

func do(t *testing.T, c *Conn, args ...any) Answer {
	t.Helper()
	a, err := c.Do(args)
	require.NoError(t, err)
	return a
}

func TestPoolMakesOneForWhoAsksOften(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		p := newPool(t, env.Redis)
		for range 10 * often { // never so often within a second
			require.Nil(t, p.Get())
			time.Sleep(2 * span / often)
		}
		require.Empty(t, p.all)
		time.Sleep(2 * span)
		for range often {
			require.Nil(t, p.Get())
		}
		synctest.Wait()
		c := p.Get()
		require.NotNil(t, c)
		require.Equal(t, "PONG", do(t, c, "ping").Any)
		for range often {
			require.Nil(t, p.Get(), "somebody has it")
		}
		synctest.Wait()
		other := p.Get()
		require.NotNil(t, other, "another one")
		c.Put()
		other.Put()
		require.Same(t, other, p.Get(), "the one that was used last")
	})
}

func TestPoolHasAMost(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		p := newPool(t, env.Redis)
		for range 3 * most * often {
			p.Get()
			synctest.Wait()
		}
		require.Len(t, p.all, most)
	})
}

// What nobody has used for a while is closed: the server may have closed it.
func TestPoolForgets(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		p := newPool(t, env.Redis)
		c := warm(t, p)
		c.Put()
		time.Sleep(blind)
		require.Same(t, c, p.Get())
		c.Put()
		time.Sleep(blind + time.Millisecond)
		require.Nil(t, p.Get())
		require.Empty(t, p.all)
		_, err := c.net.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

// The one that lies at the bottom is closed while others are used.
func TestPoolForgetsTheRest(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		p := newPool(t, env.Redis)
		a, b := warm(t, p), warm(t, p)
		a.Put()
		b.Put()
		for range 5 {
			time.Sleep(blind / 2)
			require.Same(t, b, p.Get())
			b.Put()
		}
		require.Len(t, p.all, 1)
		require.Equal(t, []*Conn{b}, p.free)
	})
}

func TestPoolKeepsToTheLifetime(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		p := newPool(t, env.Client(func(o *redis.Options) { o.ConnMaxLifetime = 3 * time.Second }))
		c := warm(t, p)
		for c != nil && time.Since(c.born) < time.Minute {
			time.Sleep(blind / 2)
			c.Put()
			c = p.Get()
		}
		require.Nil(t, c)
		require.Empty(t, p.all)
	})
}

// A server that cannot be reached is tried once in a while.
func TestPoolPausesAfterAFailure(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		dialed := 0
		rdb := env.Client(func(o *redis.Options) {
			o.OnConnect = func(_ context.Context, _ *redis.Conn) error { dialed++; return errors.New("not today") }
		})
		p := newPool(t, rdb)
		start := time.Now()
		for time.Since(start) < 10*dialPause {
			require.Nil(t, p.Get())
			time.Sleep(time.Millisecond)
		}
		require.InDelta(t, 10, dialed, 1)
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		p := New(env.Redis)
		c := warm(t, p)
		other := warm(t, p)
		env.Link(env.Redis).Mute(true)
		_, err := c.Do([]any{"ping"})
		require.ErrorIs(t, err, ErrPending)
		done := make(chan error, 1)
		go func() {
			_, err := c.Finish(time.Hour)
			c.Put()
			done <- err
		}()
		for range often { // and one is being made
			require.Nil(t, p.Get())
		}
		other.Put()
		synctest.Wait()
		start := time.Now()
		p.Close()
		require.Error(t, <-done)
		require.Zero(t, time.Since(start))
		require.Empty(t, p.all)
		require.Nil(t, p.Get())
		p.Close()
	})
}

// What was closed by the server while nobody used it is found out before it is used.
func TestPoolLooksAtWhatItHas(t *testing.T) {
	s := redistest.Start(t)
	p := newPool(t, s.Client(t))
	c := warm(t, p)
	id := do(t, c, "client", "id").Int
	c.Put()
	require.Same(t, c, p.Get())
	c.Put()
	c.used = c.used.Add(-2 * sure) // that it is looked at
	require.Same(t, c, p.Get(), "one that is well")
	require.Equal(t, id, do(t, c, "client", "id").Int)
	c.Put()
	s.Do(t, "CLIENT", "KILL", "ID", strconv.FormatInt(id, 10))
	c.used = c.used.Add(-2 * sure)
	require.Eventually(t, func() bool { return !alive(c.net.(syscall.Conn)) }, 5*time.Second, time.Millisecond)
	require.Nil(t, p.Get())
}

// A connection is to whom, and as whom, those of the client are.
func TestConnectionsAreLikeTheClients(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
	rdb := s.Client(t, func(o *redis.Options) {
		o.Username, o.Password, o.DB, o.ClientName = "worker", "secret", 3, "mine"
		o.ReadTimeout, o.MaxRetries, o.MinIdleConns = -1, -1, 2
	})
	before := *rdb.Options()
	p := newPool(t, rdb)
	c := warm(t, p)
	require.Equal(t, "worker", do(t, c, "acl", "whoami").Any)
	info, _ := do(t, c, "client", "info").Any.(string)
	require.Contains(t, info, " name=mine ")
	require.Contains(t, info, " db=3 ")
	require.Contains(t, info, " resp=2")
	sub := Subscriber(rdb)
	require.NotNil(t, sub)
	defer func() { require.NoError(t, sub.Close()) }()
	require.Equal(t, before.ReadTimeout, sub.Options().ReadTimeout)
	require.Equal(t, before.WriteTimeout, sub.Options().WriteTimeout)
	require.Equal(t, before.MaxRetries, sub.Options().MaxRetries)
	require.Equal(t, before.MinRetryBackoff, sub.Options().MinRetryBackoff)
	require.Equal(t, "worker", sub.ACLWhoAmI(t.Context()).Val())
}

func TestOnlyGoRedisMayHaveOne(t *testing.T) {
	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	defer func() { require.NoError(t, failover.Close()) }()
	limited := redis.NewClient(&redis.Options{Limiter: noLimit{}})
	defer func() { require.NoError(t, limited.Close()) }()
	for _, rdb := range []*redis.Client{failover, limited} {
		require.Nil(t, New(rdb))
		require.Nil(t, Subscriber(rdb))
	}
}

type noLimit struct{}

func (noLimit) Allow() error       { return nil }
func (noLimit) ReportResult(error) {}

// TLS and what else is no bare socket is read and written as it wants to be.
func TestTLS(t *testing.T) {
	s := redistest.StartTLS(t)
	rdb := s.Client(t, s.Over(true))
	require.Nil(t, Subscriber(rdb))
	p := newPool(t, rdb)
	c := warm(t, p)
	require.Equal(t, "PONG", do(t, c, "ping").Any)
	c.Put()
	require.Same(t, c, p.Get())
	require.Equal(t, strings.Repeat("x", 100_000), do(t, c, "echo", strings.Repeat("x", 100_000)).Any)
}
