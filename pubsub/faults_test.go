package pubsub_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/pubsub"
)

func TestClientKill(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	for name, opt := range map[string]func(*redis.Options){"resp2": resp2, "resp3": resp3} {
		t.Run(name, func(t *testing.T) {
			again := make(chan int, 100)
			n := newNotifier(t, srv.Client(t, opt), pubsub.Config{
				Mode:          most(),
				OnResubscribe: func(channels int) { again <- channels },
			})
			var subs []*pubsub.Subscription
			for _, name := range names("c", 200) {
				subs = append(subs, live(t, n, name))
			}
			for range 5 {
				killed := time.Now()
				srv.Do(t, "CLIENT", "KILL", "TYPE", "PUBSUB")
				for _, s := range subs {
					hintWithin(t, time.Second, s)
					await(t, s, pubsub.Live)
					drain(s)
				}
				require.Less(t, time.Since(killed), time.Second)
				require.Positive(t, <-again)
				for i, name := range names("c", 200) {
					publish(t, rdb, name)
					hint(t, subs[i])
				}
			}
			require.GreaterOrEqual(t, n.Stats().Resubscribes, uint64(5))
			require.LessOrEqual(t, subscribers(t, srv), 2)
		})
	}
}

func TestSilentConnectionIsReplaced(t *testing.T) {
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr)
	const hb = 300 * time.Millisecond
	n := newNotifier(t, srv.Client(t, through(p)), pubsub.Config{Heartbeat: hb})
	s := live(t, n, "a")

	p.Mute(true)
	start := time.Now()
	redistest.Until(t, "given up", func() bool { return s.State() == pubsub.Pending })
	require.Less(t, time.Since(start), 2*hb+200*time.Millisecond)
	p.Mute(false)
	hint(t, s)
	await(t, s, pubsub.Live)
	drain(s)
	publish(t, srv.Client(t), "a")
	hint(t, s)
	require.EqualValues(t, 1, n.Stats().Resubscribes)
}

// An error reply to a PING is a sign of life.
func TestRefusedPing(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-ping")
	p := redistest.NewProxy(t, srv.Addr)
	n := newNotifier(t, srv.Client(t, as("u"), through(p)), pubsub.Config{Heartbeat: 300 * time.Millisecond})
	live(t, n, "a")
	redistest.Until(t, "some pings", func() bool { return p.Commands("ping") > 2 })
	require.Zero(t, n.Stats().Resubscribes)
	require.EqualValues(t, 1, p.Commands("subscribe"))
}

func TestDeniedChannel(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "u", "on", ">pw", "~*", "resetchannels", "&ok*", "+@all")
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			told := map[string]int{}
			p := redistest.NewProxy(t, srv.Addr)
			var asked, alone atomic.Int64 // with others or not, and alone, which is the last time
			p.OnCommand(func(args []string) redistest.Act {
				if slices.Contains(args, "bad") {
					asked.Add(1)
					if len(args) == 2 {
						alone.Add(1)
					}
				}
				return redistest.Pass
			})
			rdb := srv.Client(t, as("u"), through(p))
			n := newNotifier(t, rdb, pubsub.Config{
				Mode: mode,
				OnDenied: func(channel string, err error) {
					mu.Lock()
					defer mu.Unlock()
					require.ErrorIs(t, err, pubsub.ErrDenied)
					told[channel]++
				},
			})
			// The dial takes long enough for all of them to be in one batch.
			var ok []*pubsub.Subscription
			for _, name := range names("ok", 40) {
				ok = append(ok, n.Subscribe(name))
			}
			bad1, bad2 := n.Subscribe("bad"), n.Subscribe("bad")
			for _, bad := range []*pubsub.Subscription{bad1, bad2} {
				hint(t, bad)
				await(t, bad, pubsub.Denied)
				require.ErrorIs(t, bad.Err(), pubsub.ErrDenied)
				require.ErrorContains(t, bad.Err(), "NOPERM")
				var denied *pubsub.DeniedError
				require.ErrorAs(t, bad.Err(), &denied)
				require.Equal(t, "bad", denied.Channel)
			}
			for _, s := range ok {
				await(t, s, pubsub.Live)
				drain(s)
			}
			bad3 := n.Subscribe("bad")
			require.Equal(t, pubsub.Denied, bad3.State())
			hint(t, bad3)
			require.Equal(t, 1, n.Stats().Denied)
			require.Equal(t, 40, n.Stats().Channels)

			// Each way to subscribe has its answer before those to what is asked later.
			ways := int64(1)
			if mode == pubsub.Both {
				ways = 2
			}
			redistest.Until(t, "all ways to be tried", func() bool { return alone.Load() == ways })
			ok = append(ok, live(t, n, "ok later"))

			// A reconnect does not ask for it again.
			asked.Store(0)
			srv.Do(t, "CLIENT", "KILL", "TYPE", "PUBSUB")
			for _, s := range ok {
				hint(t, s)
				await(t, s, pubsub.Live)
			}
			require.Zero(t, asked.Load())

			// Once nobody is left, the next one is a new try.
			for _, s := range []*pubsub.Subscription{bad1, bad2, bad3} {
				s.Close()
			}
			require.Zero(t, n.Stats().Denied)
			await(t, n.Subscribe("bad"), pubsub.Denied)
			require.Positive(t, asked.Load())
			redistest.Until(t, "OnDenied was called", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return told["bad"] > 0
			})
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, map[string]int{"bad": 1}, told)
		})
	}
}

func TestChannelRevokedAtRunTime(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "u", "on", ">pw", "~*", "allchannels", "+@all")
	denied := make(chan string, 10)
	n := newNotifier(t, srv.Client(t, as("u")), pubsub.Config{
		OnDenied: func(channel string, _ error) { denied <- channel },
	})
	ok, lost := live(t, n, "ok"), live(t, n, "lost")
	srv.Do(t, "ACL", "SETUSER", "u", "resetchannels", "&ok*")
	hint(t, lost)
	await(t, lost, pubsub.Denied)
	hint(t, ok)
	await(t, ok, pubsub.Live)
	drain(ok)
	require.Equal(t, "lost", <-denied)
	publish(t, srv.Client(t), "ok")
	hint(t, ok)

	srv.Do(t, "ACL", "SETUSER", "u", "allchannels")
	lost.Close()
	live(t, n, "lost")
	require.Empty(t, denied)
}

// A service without SUBSCRIBE is detected on one connection.
func TestNoSubscribeCommand(t *testing.T) {
	srv := redistest.Start(t, "--rename-command", "SUBSCRIBE", "")
	p := redistest.NewProxy(t, srv.Addr)
	n := newNotifier(t, srv.Client(t, through(p)), pubsub.Config{})
	for _, name := range names("c", 100) {
		s := n.Subscribe(name)
		await(t, s, pubsub.Denied)
		s.Close()
	}
	require.LessOrEqual(t, p.Conns(), 2)
	require.Zero(t, n.Stats().Channels)
}

func TestServerDownThenUp(t *testing.T) {
	srv := redistest.Start(t)
	n := newNotifier(t, srv.Client(t), pubsub.Config{})
	s := live(t, n, "a")
	srv.Kill()
	redistest.Until(t, "noticed", func() bool { return s.State() == pubsub.Pending })
	late := n.Subscribe("b")
	srv.Restart(t)
	for _, s := range []*pubsub.Subscription{s, late} {
		awaitWithin(t, 3*time.Second, s, pubsub.Live)
		drain(s)
	}
	rdb := srv.Client(t)
	publish(t, rdb, "a")
	hint(t, s)
	publish(t, rdb, "b")
	hint(t, late)
}

func TestCloseIsQuick(t *testing.T) {
	srv := redistest.Start(t)
	short := func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 500*time.Millisecond, -1 }
	closeIn := func(t *testing.T, n *pubsub.Notifier) {
		t.Helper()
		start := time.Now()
		require.NoError(t, n.Close())
		require.Less(t, time.Since(start), 1500*time.Millisecond)
	}
	t.Run("frozen", func(t *testing.T) {
		established := pubsub.New(redistest.UserOnAny(t, srv.Client(t, short)), pubsub.Config{})
		live(t, established, "a")
		pending := pubsub.New(redistest.UserOnAny(t, srv.Client(t, short)), pubsub.Config{})
		srv.Freeze()
		defer srv.Thaw()
		var subs []*pubsub.Subscription
		for _, n := range []*pubsub.Notifier{established, pending} {
			for _, name := range names("a-rather-long-name-that-fills-the-buffers-of-the-socket-", 20_000) {
				subs = append(subs, n.Subscribe(name))
			}
		}
		closeIn(t, established)
		closeIn(t, pending)
		for _, s := range subs {
			require.ErrorIs(t, s.Err(), pubsub.ErrClosed)
		}
	})
	t.Run("down", func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		defer rdb.Close()
		n := pubsub.New(rdb, pubsub.Config{})
		n.Subscribe("a")
		closeIn(t, n)
	})
	t.Run("dial hangs", func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379"})
		defer rdb.Close()
		n := pubsub.New(rdb, pubsub.Config{})
		n.Subscribe("a")
		closeIn(t, n)
	})
}

// Callbacks may use the notifier.
func TestCallbackUsesNotifier(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "u", "on", ">pw", "~*", "resetchannels", "+@all")
	var n *pubsub.Notifier
	done := make(chan struct{})
	n = newNotifier(t, srv.Client(t, as("u")), pubsub.Config{
		OnDenied: func(channel string, _ error) {
			if channel != "a" {
				return
			}
			s := n.Subscribe("b")
			<-s.C()
			s.Close()
			_ = n.Stats()
			close(done)
		},
	})
	await(t, n.Subscribe("a"), pubsub.Denied)
	<-done
}

// TestNoReadTimeout checks that handshakes without a reply end even if go-redis
// has no read timeout. Otherwise there would be no connection when Redis can be
// reached again.
func TestNoReadTimeout(t *testing.T) {
	srv := redistest.Start(t)
	silent, good := redistest.NewProxy(t, srv.Addr), redistest.NewProxy(t, srv.Addr)
	var by atomic.Pointer[redistest.Proxy]
	by.Store(silent)
	var dials atomic.Int64
	n := newNotifier(t, srv.Client(t, func(o *redis.Options) {
		o.ReadTimeout = -1
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			dials.Add(1)
			var d net.Dialer
			return d.DialContext(ctx, network, by.Load().Addr())
		}
	}), pubsub.Config{Heartbeat: 300 * time.Millisecond})
	s := live(t, n, "a")
	silent.Mute(true)
	before := dials.Load()
	redistest.Until(t, "as many as there may be at once", func() bool { return dials.Load() >= before+4 })
	by.Store(good)
	await(t, s, pubsub.Live)
}

// TestNoDeadlines checks a ReadTimeout of -2, which is for connections without
// deadlines.
func TestNoDeadlines(t *testing.T) {
	srv := redistest.Start(t)
	n := newNotifier(t, srv.Client(t, redistest.NoDeadlines), pubsub.Config{})
	s := live(t, n, "a")
	publish(t, srv.Client(t), "a")
	hint(t, s)
	require.Zero(t, n.Stats().Resubscribes)
}
