package topology

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A slot moves while its object is held and waited for. Nobody loses anything,
// and the next waiter gets the object soon after the release.
func testSlotMoves(t *testing.T, cl *redistest.Cluster) {
	const lease = 1500 * time.Millisecond
	a := newClient(t, cl.Client(t), latchkey.WithWatchdogTimeout(lease))
	b := newClient(t, cl.Client(t), latchkey.WithWatchdogTimeout(lease))
	c := newClient(t, cl.Client(t), latchkey.WithWatchdogTimeout(lease))
	const tag = "{moving}"
	slot := cl.Slot(t, tag)
	held, seconds, thirds := map[string]taken{}, map[string]<-chan waiter{}, map[string]<-chan waiter{}
	for kind := range objects {
		held[kind] = take(t, kind, a, tag+kind)
		seconds[kind] = waitFor(t.Context(), kind, b, tag+kind)
	}
	waiting(t, b, len(objects))
	for kind := range objects {
		thirds[kind] = waitFor(t.Context(), kind, c, tag+kind)
	}
	waiting(t, c, len(objects))

	for range 2 {
		from := cl.Owner(t, slot)
		cl.MoveSlot(t, slot, from, (from+1)%len(cl.Nodes))
	}
	renewed := a.Stats().Renewals
	redistest.Until(t, "renewals at the new place", func() bool { return a.Stats().Renewals > renewed+2*uint64(len(objects)) })
	require.Zero(t, a.Stats().Losses)
	for kind, first := range held {
		next := []<-chan waiter{seconds[kind], thirds[kind]}
		if kind != "fair" { // no order
			both := make(chan waiter, 2)
			for _, ch := range next {
				go func() { both <- <-ch }()
			}
			next = []<-chan waiter{both, both}
		}
		for _, ch := range next {
			released := first.give(t)
			var at time.Time
			first, at = receiveAt(t, ch)
			require.Less(t, at.Sub(released), 2*time.Second, kind)
		}
		first.give(t)
	}
}

// A slot is being moved for a longer time, so its keys are at either node. What
// is held there is renewed and released; what was free is taken (ASK).
func testOpenSlot(t *testing.T, cl *redistest.Cluster) {
	const lease = 600 * time.Millisecond
	c := newClient(t, cl.Client(t), latchkey.WithWatchdogTimeout(lease))
	const tag = "{opened}"
	slot := cl.Slot(t, tag)
	held := map[string]taken{}
	for _, kind := range []string{"rlock", "write lock", "permit semaphore"} {
		held[kind] = take(t, kind, c, tag+kind)
	}
	from := cl.Owner(t, slot)
	to := (from + 1) % len(cl.Nodes)
	cl.OpenSlot(t, slot, from, to)
	before := c.Stats().Renewals
	redistest.Until(t, "some periods", func() bool { return c.Stats().Renewals > before+9 })
	require.Zero(t, c.Stats().Losses)
	for _, g := range held {
		g.give(t)
	}
	take(t, "rlock", c, tag+"new").give(t)
	cl.MoveSlot(t, slot, from, to)
	take(t, "rlock", c, tag+"new").give(t)
}

// The same if replicas must confirm: those of the node that has the object.
func testOpenSlotAcks(t *testing.T, cl *redistest.Cluster) {
	var mu sync.Mutex
	mine := map[*maintnotifications.Config]bool{} // what a client writes to, with a lock of its own
	rdb := cl.Client(t, func(o *redis.ClusterOptions) {
		o.NewClient = func(o *redis.Options) *redis.Client {
			mu.Lock()
			defer mu.Unlock()
			assert.False(t, mine[o.MaintNotificationsConfig], "one client's, given to another: a race")
			c := redis.NewClient(o)
			mine[c.Options().MaintNotificationsConfig] = true
			return c
		}
	})
	c := newClient(t, rdb, latchkey.WithWatchdogTimeout(3*time.Second),
		latchkey.WithReplicaAck(1, time.Second, latchkey.AckRenewals, latchkey.AckReleases))
	const tag = "{opened}"
	slot := cl.Slot(t, tag)
	from := cl.Owner(t, slot)
	to := (from + 1) % 3
	held := []taken{take(t, "rlock", c, tag+"old")}
	cl.OpenSlot(t, slot, from, to)
	held = append(held, take(t, "rlock", c, tag+"new"), take(t, "rlock", c, tag+"another"))
	before := c.Stats().Renewals
	redistest.Until(t, "some periods", func() bool { return c.Stats().Renewals > before+9 })
	require.Zero(t, c.Stats().Losses)
	for _, g := range held {
		g.give(t)
	}
	cl.MoveSlot(t, slot, from, to)
}
