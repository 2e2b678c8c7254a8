package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// goesOn is how long after the promotion of a new primary a waiter may take to
// get what is free.
const goesOn = 2 * time.Second

// A queue is a holder of an object and two waiters for it.
type queue struct {
	first taken
	next  []<-chan waiter
}

// queues makes a queue for every kind of object, all in one slot.
func queues(t testing.TB, tag string, a, b, c *latchkey.Client) map[string]*queue {
	t.Helper()
	qs := map[string]*queue{}
	for kind := range objects {
		qs[kind] = &queue{first: take(t, kind, a, tag+kind)}
	}
	for i, who := range []*latchkey.Client{b, c} {
		for kind, q := range qs {
			ch := waitFor(t.Context(), kind, who, tag+kind)
			if i == 1 && kind != "fair" { // no order: whoever comes first
				first, second, both := q.next[0], ch, make(chan waiter, 2)
				go func() { both <- <-first }()
				go func() { both <- <-second }()
				q.next = []<-chan waiter{both, both}
				continue
			}
			q.next = append(q.next, ch)
		}
		waiting(t, who, len(objects))
	}
	return qs
}

// goOn releases everything and checks that the waiters soon get it, one after
// another.
func goOn(t testing.TB, qs map[string]*queue, since time.Time, bound time.Duration) {
	t.Helper()
	for kind, q := range qs { // all at once, as all have been interrupted
		go func() {
			if err := q.first.release(t.Context()); err != nil {
				t.Logf("%s: %v", kind, err)
			}
		}()
	}
	for kind, q := range qs {
		second, at := receiveAt(t, q.next[0])
		require.Less(t, at.Sub(since), bound, "%s: time from the new primary to the waiter's turn", kind)
		t.Logf("%s: %v", kind, at.Sub(since))
		released := second.give(t)
		third, at := receiveAt(t, q.next[1])
		require.Less(t, at.Sub(released), bound, kind)
		third.give(t)
	}
}

// nobodyLost checks that no holder has lost anything in a failover that loses
// nothing.
func nobodyLost(t testing.TB, cs ...*latchkey.Client) {
	t.Helper()
	for _, c := range cs {
		require.Zero(t, c.Stats().Losses)
	}
}

// A master dies while objects in its slots are held and waited for.
func TestClusterFailover(t *testing.T) {
	cl := redistest.StartClusterWithReplicas(t, 3)
	for _, s := range cl.Nodes {
		s.Allow(t, "wait")
	}
	client := func(opts ...latchkey.Option) *latchkey.Client {
		// Reads would go to replicas, if commands let them.
		return newClient(t, cl.Client(t, func(o *redis.ClusterOptions) { o.ReadOnly, o.RouteRandomly = true, true }), opts...)
	}
	testOpenSlotAcks(t, cl)
	a, b, c := client(), client(), client()
	const tag = "{failing}"
	slot := cl.Slot(t, tag)
	acks := client(latchkey.WithReplicaAck(1, time.Second))
	for kind := range objects {
		take(t, kind, acks, tag+"confirmed"+kind).give(t)
	}
	confirmed, err := rlock.New(acks, tag+"confirmed").Lock(t.Context())
	require.NoError(t, err)

	qs := queues(t, tag, a, b, c)
	old, _ := cl.Failover(t, slot)
	goOn(t, qs, time.Now(), goesOn)
	nobodyLost(t, a, b, c, acks)
	require.NoError(t, confirmed.Unlock(t.Context()))
	_, err = rlock.New(acks, tag+"confirmed").TryLock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrNotReplicated, "its only replica is the master now")

	cl.Rejoin(t, old)
	qs = queues(t, tag, a, b, c)
	cl.Switch(t, slot) // in an orderly way
	goOn(t, qs, time.Now(), goesOn)
	nobodyLost(t, a, b, c, acks)

	// What the replica has not heard of is lost, and its holder learns it as soon as
	// the new master can tell, not at its next renewal, 10 s later.
	old = cl.Owner(t, slot)
	replica := cl.Nodes[(old+3)%6]
	l := rlock.New(a, tag+"unheard of")
	other, err := rlock.New(a, tag+"fixed lease").Lock(t.Context())
	require.NoError(t, err)
	replica.Freeze()
	cl.Nodes[old].Do(t, "CLIENT", "KILL", "TYPE", "REPLICA")
	h, err := l.Lock(t.Context())
	require.NoError(t, err)
	fixed, err := rlock.New(a, tag+"unheard of, fixed lease").Lock(t.Context(), latchkey.Lease(time.Minute))
	require.NoError(t, err)
	cl.Nodes[old].Kill()
	replica.Thaw()
	promoted := waitPromoted(t, cl, slot, replica)
	take(t, "rlock", a, tag+"something else").give(t)
	for _, h := range []*latchkey.Hold{h, fixed} {
		select {
		case <-h.Lost():
		case <-time.After(patience):
			require.FailNow(t, "not lost")
		}
	}
	require.Less(t, time.Since(promoted), 4*time.Second)
	select {
	case <-other.Lost():
		require.FailNow(t, "lost what the replica knew")
	default:
	}
	require.NoError(t, other.Unlock(t.Context()))
}

// A master freezes with requests on their way, is replaced, and resumes. What
// it grants then, another holder has already.
func TestThawedMaster(t *testing.T) {
	cl := redistest.StartClusterWithReplicas(t, 3)
	const tag = "{failing}"
	slot := cl.Slot(t, tag)
	old := cl.Owner(t, slot)
	replica := cl.Nodes[(old+3)%6]
	a := newClient(t, cl.Client(t))
	for kind := range objects {
		take(t, kind, a, tag+kind).give(t)
	}
	acked, err := cl.Nodes[old].Client(t).Wait(t.Context(), 1, patience).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, acked)

	cl.Nodes[old].Freeze()
	frozen := make(map[string]<-chan waiter)
	for kind := range objects {
		frozen[kind] = waitForMade(t.Context(), kind, a, tag+kind)
	}
	waitPromoted(t, cl, slot, replica)
	b := newClient(t, replica.Client(t)) // of the others, some may not know who is the master now
	has := make(map[string]taken)
	for kind := range objects {
		has[kind] = take(t, kind, b, tag+kind)
	}
	cl.Nodes[old].Thaw()
	redistest.Until(t, "the old master to be a replica", func() bool {
		info, err := cl.Nodes[old].Client(t).Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "role:slave")
	})
	released := make(map[string]time.Time)
	for kind, had := range has {
		released[kind] = had.give(t)
	}
	for kind, ch := range frozen {
		got, at := receiveAt(t, ch)
		require.True(t, at.After(released[kind]), "%s: two had it", kind)
		got.give(t)
	}
	nobodyLost(t, a, b)
}

// waitPromoted waits until a replica has become a master that serves.
func waitPromoted(t testing.TB, cl *redistest.Cluster, slot int, replica *redistest.Server) time.Time {
	t.Helper()
	redistest.Until(t, "the replica to be promoted", func() bool {
		rdb := redis.NewClient(&redis.Options{Addr: replica.Addr, DialTimeout: time.Second})
		defer rdb.Close()
		return rdb.Set(t.Context(), "{failing}probe", "1", time.Second).Err() == nil
	})
	return time.Now()
}

// The primary dies, freezes, or steps down, while every kind of object on it is
// held and waited for.
func TestSentinelFailover(t *testing.T) {
	// Each has Sentinels of its own, which have not just been through a failover.
	fleet := func(t *testing.T) (s *redistest.Sentinels, a, b, c, acks *latchkey.Client) {
		t.Helper()
		s = redistest.StartSentinels(t)
		for _, n := range s.Nodes {
			n.Allow(t, "wait")
		}
		client := func(opts ...latchkey.Option) *latchkey.Client {
			// go-redis hears of a new primary from one Sentinel, which may be the last to
			// know; until then it goes on asking a frozen one.
			return newClient(t, s.Client(t, func(o *redis.FailoverOptions) { redistest.AsUser(o) }), append(opts, latchkey.WithUnlockTimeout(10*time.Second))...)
		}
		return s, client(), client(), client(), client(latchkey.WithReplicaAck(2, time.Second))
	}
	for _, tt := range []struct {
		what string
		away func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill},
		{"frozen", (*redistest.Server).Freeze}, // its connections do not end
	} {
		t.Run(tt.what, func(t *testing.T) {
			s, a, b, c, acks := fleet(t)
			var confirmed *latchkey.Hold
			redistest.Until(t, "two replicas", func() bool { // the Sentinels may be at one yet
				h, err := rlock.New(acks, "confirmed").Lock(t.Context())
				confirmed = h
				return err == nil
			})
			qs := queues(t, tt.what, a, b, c)
			s.Failover(t, tt.away)
			goOn(t, qs, time.Now(), goesOn)
			nobodyLost(t, a, b, c, acks)
			require.NoError(t, confirmed.Unlock(t.Context()))
		})
	}
	t.Run("unheard of", func(t *testing.T) {
		s, a, _, _, acks := fleet(t)
		l := rlock.New(a, "unheard of")
		// Its client has a connection whose loss it notices: it waits for something.
		busy := take(t, "rlock", acks, "busy")
		next := waitFor(t.Context(), "rlock", a, "busy")
		redistest.Until(t, "the subscription", func() bool { return a.Stats().Waiting == 1 && a.Stats().Subscriptions > 0 })
		old := s.Primary()
		var replicas []*redistest.Server
		for i, n := range s.Nodes {
			if i != old {
				replicas = append(replicas, n)
				n.Freeze()
			}
		}
		s.Nodes[old].Do(t, "CLIENT", "KILL", "TYPE", "REPLICA")
		_, err := rlock.New(acks, "not confirmed").TryLock(t.Context())
		notReplicated(t, err)
		h, err := l.Lock(t.Context())
		require.NoError(t, err)
		s.Failover(t, func(n *redistest.Server) {
			n.Kill()
			for _, r := range replicas {
				r.Thaw()
			}
		})
		promoted := time.Now()
		select {
		case <-h.Lost():
		case <-time.After(patience):
			require.FailNow(t, "not lost")
		}
		require.Less(t, time.Since(promoted), 4*time.Second, "its next renewal would come after 10 s")
		busy.give(t)
		receive(t, next).give(t)
	})
}
