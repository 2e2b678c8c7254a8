package redistest_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

var incr = redis.NewScript(`return redis.call('incr', KEYS[1])`)

// behind makes a client behind a new proxy, and one that sees the truth.
func behind(t *testing.T, s *redistest.Server, protocol int) (*redistest.Proxy, *redis.Client, *redis.Client) {
	t.Helper()
	direct := s.Client(t)
	require.NoError(t, incr.Load(t.Context(), direct).Err())
	p := redistest.NewProxy(t, s.Addr)
	c := s.Client(t, impatient, func(o *redis.Options) { o.Addr, o.Protocol = p.Addr(), protocol })
	require.NoError(t, c.Ping(t.Context()).Err())
	return p, c, direct
}

// bothProtocols runs f with RESP2 and RESP3.
func bothProtocols(t *testing.T, f func(t *testing.T, protocol int)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) { f(t, protocol) })
	}
}

func TestProxyActs(t *testing.T) {
	s := redistest.Start(t)
	eof := func(err error) bool { return errors.Is(err, io.EOF) }
	// With RESP3 go-redis looks for push messages before it reads a reply, and
	// that look eats the ECONNRESET: what it reports is the EOF after it.
	rst := func(err error) bool { return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) }
	timeout := func(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
	for _, tt := range []struct {
		act  redistest.Act
		runs int
		err  func(error) bool
	}{
		{redistest.Pass, 1, nil},
		{redistest.LoseRST, 1, rst},
		{redistest.LoseFIN, 1, eof},
		{redistest.Swallow, 1, timeout},
		{redistest.RefuseRST, 0, rst},
		{redistest.Twice, 2, nil},
		{redistest.Drop, 0, timeout},
	} {
		t.Run(tt.act.String(), func(t *testing.T) {
			bothProtocols(t, func(t *testing.T, protocol int) {
				ctx := t.Context()
				key := t.Name()
				p, c, direct := behind(t, s, protocol)
				p.OnNext(1, "evalsha", tt.act)
				before := p.Count(tt.act)
				n, err := incr.Run(ctx, c, []string{key}).Int()
				if tt.err == nil {
					require.NoError(t, err)
					assert.Equal(t, tt.runs, n, "the last run's reply")
				} else {
					require.Truef(t, tt.err(err), "%v", err)
				}
				if protocol == 2 && (tt.act == redistest.LoseRST || tt.act == redistest.RefuseRST) {
					require.ErrorIs(t, err, syscall.ECONNRESET)
				}
				runs, _ := direct.Get(ctx, key).Int()
				assert.Equal(t, tt.runs, runs)
				if tt.act != redistest.Pass {
					assert.EqualValues(t, 1, p.Count(tt.act)-before)
				}
				assert.EqualValues(t, 1, p.Commands("EVALSHA"))

				n, err = incr.Run(ctx, c, []string{key}).Int()
				require.NoError(t, err, "the next one passes")
				assert.Equal(t, tt.runs+1, n)
			})
		})
	}
}

func TestProxyHoldAndLate(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	p, c, direct := behind(t, s, 3)
	patient := s.Client(t, func(o *redis.Options) { o.Addr = p.Addr() })
	require.NoError(t, patient.Ping(ctx).Err())

	p.OnNext(1, "evalsha", redistest.Hold)
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, incr.Run(ctx, patient, []string{"held"}).Err()) })
	redistest.Until(t, "the reply", func() bool { return p.Count(redistest.Hold) == 1 })
	assert.Equal(t, "1", direct.Get(ctx, "held").Val(), "it has run")
	p.Release()
	wg.Wait()

	p.OnNext(1, "evalsha", redistest.Late)
	require.ErrorIs(t, incr.Run(ctx, c, []string{"late"}).Err(), os.ErrDeadlineExceeded)
	assert.EqualValues(t, 0, direct.Exists(ctx, "late").Val(), "it has not run")
	p.Release()
	redistest.Until(t, "the late command", func() bool { return direct.Exists(ctx, "late").Val() == 1 })

	p.HoldFor(100 * time.Millisecond)
	p.OnNext(2, "evalsha", redistest.Hold)
	start := time.Now()
	require.NoError(t, incr.Run(ctx, patient, []string{"held"}).Err())
	assert.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)

	p.HoldFor(0)
	p.OnNext(1, "evalsha", redistest.Hold) // left held: Cleanup copes
	require.ErrorIs(t, incr.Run(ctx, c, []string{"held"}).Err(), os.ErrDeadlineExceeded)
}

func TestProxyPipeline(t *testing.T) {
	s := redistest.Start(t)
	bothProtocols(t, func(t *testing.T, protocol int) {
		ctx := t.Context()
		p, c, _ := behind(t, s, protocol)
		p.OnNext(1, "incrby", redistest.Twice)
		p.Delay(200 * time.Millisecond)
		start := time.Now()
		key := t.Name()
		cmds, err := c.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.HSet(ctx, key+"h", "subscribe", "message")
			pipe.HGetAll(ctx, key+"h")
			pipe.LPush(ctx, key+"l", "x", "ch", "message")
			pipe.LRange(ctx, key+"l", 0, -1)
			pipe.Get(ctx, key+"none")
			return nil
		})
		require.ErrorIs(t, err, redis.Nil)
		assert.Equal(t, map[string]string{"subscribe": "message"}, cmds[1].(*redis.MapStringStringCmd).Val())
		assert.Equal(t, []string{"message", "ch", "x"}, cmds[3].(*redis.StringSliceCmd).Val())
		took := time.Since(start)
		// Each of the replies is late by the delay, and all at the same time: one
		// after the other they would take seven times as long. What is promised is
		// the delay at least; how much more is the machine's affair.
		assert.GreaterOrEqual(t, took, 200*time.Millisecond)
		assert.Less(t, took, 7*200*time.Millisecond, "once for all")
		p.Delay(0)
		_, err = c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.IncrBy(ctx, key, 10)
			pipe.Incr(ctx, key)
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, "21", c.Get(ctx, key).Val())
	})
}

func TestProxyPubSub(t *testing.T) {
	s := redistest.Start(t)
	bothProtocols(t, func(t *testing.T, protocol int) {
		ctx := t.Context()
		p, c, direct := behind(t, s, protocol)
		p.OnMessage(func(kind, channel, payload string) bool { return payload != "drop me" })
		sub := c.Subscribe(ctx, "a", "b", "c")
		defer sub.Close()
		for range 3 {
			_, err := sub.ReceiveTimeout(ctx, time.Second)
			require.NoError(t, err)
		}
		// Messages must not be taken for the reply to the PING in between.
		p.OnNext(1, "ping", redistest.Swallow)
		require.NoError(t, direct.Publish(ctx, "a", "1").Err())
		require.NoError(t, sub.Ping(ctx))
		require.NoError(t, direct.Publish(ctx, "b", "drop me").Err())
		require.NoError(t, direct.Publish(ctx, "b", "2").Err())
		require.NoError(t, sub.Unsubscribe(ctx, "a", "b"))
		require.NoError(t, direct.Publish(ctx, "c", "3").Err())
		require.NoError(t, sub.Ping(ctx, "alive"))
		var got []string
		for {
			m, err := sub.ReceiveTimeout(ctx, time.Second)
			require.NoError(t, err)
			if pong, ok := m.(*redis.Pong); ok {
				assert.Equal(t, "alive", pong.Payload)
				break
			}
			if m, ok := m.(*redis.Message); ok {
				got = append(got, m.Payload)
			}
		}
		assert.Equal(t, []string{"1", "2", "3"}, got)
		assert.EqualValues(t, 1, p.Count(redistest.Swallow))

		// All at once, none left, patterns, shards: still in step?
		pong := func(id string) (messages []string) {
			require.NoError(t, sub.Ping(ctx, id))
			for {
				m, err := sub.ReceiveTimeout(ctx, time.Second)
				require.NoError(t, err)
				switch m := m.(type) {
				case *redis.Message:
					messages = append(messages, m.Payload)
				case *redis.Pong:
					require.Equal(t, id, m.Payload)
					return messages
				}
			}
		}
		require.NoError(t, sub.Subscribe(ctx, "d", "e"))
		require.NoError(t, sub.PSubscribe(ctx, "p*"))
		sharded := redistest.Since(7, 0)
		if sharded {
			require.NoError(t, sub.SSubscribe(ctx, "s"))
		}
		require.NoError(t, sub.Unsubscribe(ctx))
		require.NoError(t, sub.Unsubscribe(ctx))
		require.Empty(t, pong("1"))
		require.NoError(t, direct.Publish(ctx, "pp", "4").Err())
		require.NoError(t, sub.PUnsubscribe(ctx))
		want := []string{"4"}
		if sharded {
			require.NoError(t, direct.SPublish(ctx, "s", "5").Err())
			want = append(want, "5")
		}
		require.Equal(t, want, pong("2"))
		if sharded {
			require.NoError(t, sub.SUnsubscribe(ctx))
		}
		require.Empty(t, pong("3"))
		p.OnNext(1, "ping", redistest.LoseFIN)
		require.NoError(t, sub.Ping(ctx))
		_, err := sub.ReceiveTimeout(ctx, time.Second)
		require.ErrorIs(t, err, io.EOF)
		assert.EqualValues(t, 1, p.Count(redistest.LoseFIN))
	})
}

func TestProxyLosesSubscription(t *testing.T) {
	s := redistest.Start(t)
	bothProtocols(t, func(t *testing.T, protocol int) {
		ctx := t.Context()
		p, c, direct := behind(t, s, protocol)
		p.OnNext(1, "subscribe", redistest.Swallow)
		sub := c.Subscribe(ctx, "x", "y")
		defer sub.Close()
		_, err := sub.ReceiveTimeout(ctx, 100*time.Millisecond)
		require.Error(t, err, "both confirmations are gone")
		assert.EqualValues(t, 1, p.Count(redistest.Swallow))
		require.NoError(t, direct.Publish(ctx, "y", "but it is subscribed").Err())
		m, err := sub.ReceiveMessage(ctx)
		require.NoError(t, err)
		assert.Equal(t, "but it is subscribed", m.Payload)
	})
}

func TestProxyMuteStallCut(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	p, c, direct := behind(t, s, 2)

	p.Mute(true)
	require.ErrorIs(t, c.Incr(ctx, "n").Err(), os.ErrDeadlineExceeded)
	p.Mute(false)
	require.EqualValues(t, 1, c.Incr(ctx, "n").Val(), "what was muted never came")

	p.Stall(true)
	require.ErrorIs(t, c.Incr(ctx, "n").Err(), os.ErrDeadlineExceeded)
	require.Equal(t, "1", direct.Get(ctx, "n").Val())
	p.Stall(false)
	redistest.Until(t, "the stalled command", func() bool { return direct.Get(ctx, "n").Val() == "2" })

	sub := c.Subscribe(ctx, "ch")
	defer sub.Close()
	_, err := sub.Receive(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Ping(ctx).Err())
	require.Equal(t, 2, p.Conns())
	require.Equal(t, 2, p.CutAll())
	require.Equal(t, 0, p.Conns())
	_, err = sub.ReceiveTimeout(ctx, time.Second)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// TestProxyMutedServerDeath proves that no end of a connection gets through.
func TestProxyMutedServerDeath(t *testing.T) {
	s := redistest.Start(t)
	p, c, _ := behind(t, s, 3)
	p.Mute(true)
	s.Kill()
	require.ErrorIs(t, c.Ping(t.Context()).Err(), os.ErrDeadlineExceeded)
	p.Mute(false)
	require.Error(t, c.Ping(t.Context()).Err(), "EOF or EPIPE")
}

// TestProxyLoad looks for replies that get mixed up.
func TestProxyLoad(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	p, _, _ := behind(t, s, 3)
	// go-redis retries the set-up of a connection on that connection, dead or not.
	c := s.Client(t, func(o *redis.Options) {
		o.Addr, o.MaxRetries, o.MaxRetryBackoff = p.Addr(), 20, 10*time.Millisecond
	})
	n := 0
	p.OnCommand(func(args []string) redistest.Act {
		if n++; n%50 == 0 {
			return []redistest.Act{redistest.LoseRST, redistest.Twice, redistest.LoseFIN, redistest.RefuseRST}[n/50%4]
		}
		return redistest.Pass
	})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				want := fmt.Sprint(i, "-", j)
				got, err := c.Do(ctx, "ECHO", want).Text()
				if !assert.NoError(t, err) || !assert.Equal(t, want, got) {
					return
				}
			}
		})
	}
	wg.Wait()
	assert.NotZero(t, p.Count(redistest.LoseRST))
}
