package pubsub_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/pubsub"
)

// Whatever happens to the connections while subscribers come and go, in the end
// the server has the subscriptions of the notifier.
func TestChaos(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "u", "on", ">pw", "~*", "resetchannels", "&ok*", "+@all")
	p := redistest.NewProxy(t, srv.Addr)
	rdb := srv.Client(t)
	mode := most()
	connections := map[pubsub.Mode]int{pubsub.Both: 2, pubsub.Plain: 1}[mode]
	n := newNotifier(t, srv.Client(t, as("u"), through(p)), pubsub.Config{
		Mode:      mode,
		Heartbeat: 50 * time.Millisecond,
		Linger:    time.Millisecond,
		IdleClose: 5 * time.Millisecond,
	})
	all := append(names("ok", 20), names("bad", 3)...)
	end := time.Now().Add(2 * time.Second)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for time.Now().Before(end) {
				var held []*pubsub.Subscription
				for range rand.N(20) {
					held = append(held, n.Subscribe(all[rand.N(len(all))]))
				}
				if len(held) > 0 && rand.N(2) == 0 {
					select {
					case <-held[0].C():
					case <-time.After(rand.N(20 * time.Millisecond)):
					}
				}
				for _, s := range held {
					s.Close()
				}
				time.Sleep(rand.N(10 * time.Millisecond))
			}
		})
	}
	wg.Go(func() {
		for time.Now().Before(end) {
			time.Sleep(rand.N(60 * time.Millisecond))
			switch rand.N(5) {
			case 0:
				p.CutAll()
			case 1:
				srv.Do(t, "CLIENT", "KILL", "TYPE", "PUBSUB")
			case 2:
				p.Mute(true)
				time.Sleep(rand.N(150 * time.Millisecond))
				p.Mute(false)
			case 3:
				p.OnNext(1+rand.N(3), []string{"subscribe", "ssubscribe", "ping"}[rand.N(3)],
					[]redistest.Act{redistest.Drop, redistest.LoseRST, redistest.RefuseRST}[rand.N(3)])
			default:
				p.OnMessage(func(kind, _, _ string) bool { return kind == "message" || rand.N(20) > 0 })
				time.Sleep(rand.N(50 * time.Millisecond))
				p.OnMessage(nil)
			}
		}
	})
	wg.Wait()
	p.OnCommand(nil)

	var subs []*pubsub.Subscription
	for _, name := range all {
		subs = append(subs, n.Subscribe(name))
	}
	for i, s := range subs {
		want := pubsub.Live
		if i >= 20 {
			want = pubsub.Denied
		}
		await(t, s, want)
		drain(s)
	}
	for i, name := range all[:20] {
		publish(t, rdb, name)
		hint(t, subs[i])
		if mode == pubsub.Both {
			require.NoError(t, rdb.SPublish(bg, name, "x").Err())
			hint(t, subs[i])
		}
	}
	// Connections given up may take the proxy a moment to notice.
	redistest.Until(t, "one connection of each kind", func() bool { return subscribers(t, srv) == connections })
	require.ElementsMatch(t, all[:20], channels(t, srv))
	if mode == pubsub.Both {
		require.ElementsMatch(t, all[:20], srv.Do(t, "PUBSUB", "SHARDCHANNELS"))
	}
	for _, s := range subs {
		s.Close()
	}
	redistest.Until(t, "nothing is left", func() bool {
		return n.Stats() == pubsub.Stats{Resubscribes: n.Stats().Resubscribes, LastFrame: n.Stats().LastFrame} &&
			subscribers(t, srv) == 0
	})
}

// go-redis must not reconnect by itself: there is one dial and one command for
// each loss, not two.
func TestNoHiddenReconnect(t *testing.T) {
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr)
	n := newNotifier(t, srv.Client(t, through(p)), pubsub.Config{})
	var mu sync.Mutex
	seen := map[string]int{}
	p.OnCommand(func(args []string) redistest.Act {
		mu.Lock()
		defer mu.Unlock()
		seen[args[0]]++
		return redistest.Pass
	})
	s := live(t, n, "a")
	for range 5 {
		p.CutAll()
		hint(t, s)
		require.Equal(t, pubsub.Live, s.State())
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 6, seen["hello"])
	require.Equal(t, 6, seen["subscribe"])
}
