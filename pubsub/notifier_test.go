package pubsub_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/pubsub"
)

func TestHintOnPublish(t *testing.T) {
	srv := redistest.Start(t)
	for name, mode := range modes() {
		for proto, opt := range map[string]func(*redis.Options){"resp2": resp2, "resp3": resp3} {
			t.Run(name+"/"+proto, func(t *testing.T) {
				rdb := srv.Client(t, opt)
				n := newNotifier(t, rdb, pubsub.Config{Mode: mode})
				s, other := live(t, n, "a"), live(t, n, "b")
				if mode != pubsub.Sharded {
					publish(t, rdb, "a")
					hint(t, s)
				}
				if mode != pubsub.Plain {
					require.NoError(t, rdb.SPublish(bg, "a", "x").Err())
					hint(t, s)
				}
				noHint(t, other)
				st := n.Stats()
				require.Equal(t, 2, st.Channels)
				require.WithinDuration(t, time.Now(), st.LastFrame, patience)
				if mode == pubsub.Both {
					require.Equal(t, 2, st.Connections)
				} else {
					require.Equal(t, 1, st.Connections)
				}
			})
		}
	}
}

func TestLiveOnlyWhenConfirmed(t *testing.T) {
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr)
	p.OnNext(1, "subscribe", redistest.Hold)
	n := newNotifier(t, srv.Client(t, through(p)), pubsub.Config{})

	s := n.Subscribe("a")
	redistest.Until(t, "the reply is held", func() bool { return p.Count(redistest.Hold) == 1 })
	require.Equal(t, []string{"a"}, channels(t, srv))
	require.Equal(t, pubsub.Pending, s.State())
	require.NoError(t, s.Err())
	noHint(t, s)

	p.Release()
	hint(t, s)
	require.Equal(t, pubsub.Live, s.State())
}

func TestHintsCoalesce(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	n := newNotifier(t, rdb, pubsub.Config{})
	s, end := live(t, n, "a"), live(t, n, "end")
	for range 100 {
		publish(t, rdb, "a")
	}
	publish(t, rdb, "end")
	hint(t, end) // all messages before it have been handed out
	hint(t, s)
	noHint(t, s)
}

func TestSecondSubscriptionIsLiveAtOnce(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	n := newNotifier(t, rdb, pubsub.Config{Linger: time.Hour})
	s := live(t, n, "a")
	check := func() *pubsub.Subscription {
		s := n.Subscribe("a")
		require.Equal(t, pubsub.Live, s.State())
		require.Len(t, s.C(), 1)
		hint(t, s)
		return s
	}
	s2 := check()
	s.Close()
	s.Close()
	s2.Close()
	s3 := check() // while it lingers
	publish(t, rdb, "a")
	hint(t, s3)
	noHint(t, s2)
}

func TestOneConnectionAndUnsubscribeAfterLinger(t *testing.T) {
	srv := redistest.Start(t)
	n := newNotifier(t, srv.Client(t), pubsub.Config{Linger: 20 * time.Millisecond, IdleClose: 50 * time.Millisecond})
	var subs []*pubsub.Subscription
	for _, name := range names("c", 50) {
		subs = append(subs, live(t, n, name), live(t, n, name))
	}
	require.Len(t, channels(t, srv), 50)
	require.Equal(t, 1, subscribers(t, srv))
	for i, s := range subs {
		if i%2 == 0 {
			s.Close()
		}
	}
	require.Equal(t, 50, n.Stats().Channels)
	for _, s := range subs {
		s.Close()
	}
	redistest.Until(t, "all unsubscribed", func() bool { return len(channels(t, srv)) == 0 })
	redistest.Until(t, "the idle connection is closed", func() bool {
		return n.Stats().Connections == 0 && subscribers(t, srv) == 0
	})
	require.Zero(t, n.Stats().Channels)
	require.Zero(t, n.Stats().Resubscribes)
	live(t, n, "again").Close()
}

func TestSubscribeRacesUnsubscribe(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	n := newNotifier(t, rdb, pubsub.Config{Linger: 50 * time.Microsecond})
	all := names("c", 10)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range redistest.Many(3000, 1000) {
				s := n.Subscribe(all[rand.N(len(all))])
				switch i % 3 {
				case 0:
					<-s.C()
				case 1:
					time.Sleep(rand.N(100 * time.Microsecond))
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	var subs []*pubsub.Subscription
	for _, name := range all {
		s := n.Subscribe(name)
		await(t, s, pubsub.Live)
		drain(s)
		subs = append(subs, s)
	}
	require.ElementsMatch(t, all, channels(t, srv))
	for i, s := range subs {
		publish(t, rdb, all[i])
		hint(t, s)
		s.Close()
	}
	redistest.Until(t, "all unsubscribed", func() bool { return len(channels(t, srv)) == 0 })
	require.Zero(t, n.Stats().Channels)
	require.Zero(t, n.Stats().Resubscribes, "the connection was never in doubt")
}

func TestManyNames(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	n := newNotifier(t, rdb, pubsub.Config{})
	start := time.Now()
	subs := make([]*pubsub.Subscription, redistest.Many(20_000, 4_000))
	for i := range subs {
		subs[i] = n.Subscribe("c" + strconv.Itoa(i))
	}
	for _, s := range subs {
		await(t, s, pubsub.Live)
		drain(s)
	}
	last := len(subs) - 1
	publish(t, rdb, "c"+strconv.Itoa(last))
	hint(t, subs[last])
	require.Equal(t, 1, subscribers(t, srv))

	srv.Do(t, "CLIENT", "KILL", "TYPE", "PUBSUB")
	for _, s := range subs {
		hint(t, s)
		await(t, s, pubsub.Live)
	}
	for _, s := range subs {
		s.Close()
	}
	redistest.Until(t, "all unsubscribed", func() bool { return len(channels(t, srv)) == 0 })
	require.Less(t, time.Since(start), time.Minute)
}

func TestManySubscriptionsOfOneName(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	n := newNotifier(t, rdb, pubsub.Config{})
	subs := make([]*pubsub.Subscription, redistest.Many(100_000, 20_000))
	for i := range subs {
		subs[i] = n.Subscribe("a")
	}
	for _, s := range subs {
		await(t, s, pubsub.Live)
		drain(s)
	}
	publish(t, rdb, "a")
	for _, s := range subs {
		hint(t, s)
	}
	for _, i := range rand.Perm(len(subs)) {
		subs[i].Close()
	}
	redistest.Until(t, "unsubscribed", func() bool { return n.Stats().Channels == 0 })
}

func TestOff(t *testing.T) {
	for name, rdb := range map[string]redis.UniversalClient{
		"off":  redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}),
		"ring": redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}),
	} {
		t.Run(name, func(t *testing.T) {
			defer rdb.Close()
			cfg := pubsub.Config{OnDenied: func(string, error) { t.Error("OnDenied was called") }}
			if name == "off" {
				cfg.Mode = pubsub.Off
			}
			n := newNotifier(t, rdb, cfg)
			s := n.Subscribe("a")
			require.Equal(t, pubsub.Denied, s.State())
			require.ErrorIs(t, s.Err(), pubsub.ErrPolling)
			require.ErrorIs(t, s.Err(), pubsub.ErrDenied)
			hint(t, s)
			s.Close()
			require.Zero(t, n.Stats())
		})
	}
}

func TestClose(t *testing.T) {
	srv := redistest.Start(t)
	n := pubsub.New(redistest.UserOnAny(t, srv.Client(t)), pubsub.Config{})
	s := live(t, n, "a")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _ = n.Close() })
	}
	wg.Wait()
	hint(t, s)
	for _, s := range []*pubsub.Subscription{s, n.Subscribe("a"), n.Subscribe("b")} {
		require.Equal(t, pubsub.Denied, s.State())
		require.ErrorIs(t, s.Err(), pubsub.ErrClosed)
		var denied *pubsub.DeniedError
		require.True(t, errors.As(s.Err(), &denied))
		s.Close()
	}
	require.Zero(t, n.Stats().Connections)
	redistest.Until(t, "the connection is gone", func() bool { return subscribers(t, srv) == 0 })
	require.NoError(t, pubsub.New(redistest.UserOnAny(t, srv.Client(t)), pubsub.Config{}).Close(), "never started")
}

// Close under load leaves nothing behind (goleak checks).
func TestCloseUnderLoad(t *testing.T) {
	srv := redistest.Start(t)
	for range redistest.Many(10, 4) {
		n := pubsub.New(redistest.UserOnAny(t, srv.Client(t)), pubsub.Config{Linger: time.Microsecond})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 500 {
					s := n.Subscribe(fmt.Sprint(g, i%7))
					if i%5 == 0 {
						<-s.C()
					}
					s.Close()
				}
			})
		}
		time.Sleep(rand.N(10 * time.Millisecond))
		require.NoError(t, n.Close())
		wg.Wait()
	}
}
