package multilock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
)

// campaignLease is the longest lease in the campaign. A server that restarts
// empty stays down for longer.
const campaignLease = 1500 * time.Millisecond

// A campaign is five independent servers with a proxy in front of each, and
// their faults.
type campaign struct {
	t       *testing.T
	servers []*redistest.Server
	proxies []*redistest.Proxy

	// mu guards the field below.
	mu     sync.Mutex
	faulty map[int]bool

	holder     atomic.Pointer[latchkey.Hold]
	violations atomic.Int64
	grants     atomic.Int64
	losses     atomic.Int64
	faults     [faultKinds]atomic.Int64
	starved    atomic.Int64 // times that a majority was down and nobody got in
}

// The faults of a server.
const (
	killed = iota
	frozen
	cutOff
	slowed
	reset
	faultKinds
)

var faultNames = [faultKinds]string{"killed and restarted empty", "frozen", "cut off", "slowed", "connections reset"}

// TestRedCampaign checks exclusion over five real servers. Up to two of them
// are killed, restarted empty, frozen, cut off or slowed at random, and
// sometimes a third is cut off. The long form takes 5 minutes.
func TestRedCampaign(t *testing.T) {
	d := 6 * time.Second
	if long() {
		d = 5 * time.Minute
	}
	c := &campaign{t: t, faulty: map[int]bool{}}
	for range 5 {
		s := redistest.Start(t)
		c.servers = append(c.servers, s)
		c.proxies = append(c.proxies, redistest.NewProxy(t, s.Addr))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers, drivers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() { c.worker(ctx, w) })
	}
	for range 2 {
		drivers.Go(func() { c.driver(ctx) })
	}
	drivers.Go(func() { c.starve(ctx) })
	time.Sleep(d) // for how long it lasts; on a machine that is busy, until it has had its grants
	least := int64(d / time.Second)
	for end := time.Now().Add(time.Minute); c.grants.Load() <= least && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	workers.Wait()
	drivers.Wait()

	t.Logf("%d grants, %d holds lost, %d times no majority", c.grants.Load(), c.losses.Load(), c.starved.Load())
	for i := range c.faults {
		t.Logf("%d times %s", c.faults[i].Load(), faultNames[i])
	}
	require.Zero(t, c.violations.Load(), "two holders at a time")
	require.Greater(t, c.grants.Load(), least, "grants")
	// Everything is up again: all that the dead have left ends, and the lock works.
	require.Eventually(t, func() bool { return c.keys() == 0 }, 40*time.Second, 100*time.Millisecond, "keys are left")
	h, err := c.lock(t).TryLock(t.Context(), latchkey.Wait(10*time.Second))
	require.NoError(t, err)
	locktest.MustUnlock(t, h)
}

func (c *campaign) keys() int {
	n := 0
	for _, s := range c.servers {
		n += len(s.Do(c.t, "KEYS", "*"))
	}
	return n
}

// lock returns the lock on clients of its own.
func (c *campaign) lock(t testing.TB) *multilock.Lock {
	t.Helper()
	ms := make([]*latchkey.Client, len(c.proxies))
	for i, p := range c.proxies {
		rdb := redis.NewClient(redistest.AsUser(&redis.Options{
			Addr: p.Addr(), ReadTimeout: 500 * time.Millisecond, DialTimeout: 500 * time.Millisecond,
		}))
		ms[i] = latchkey.New(rdb, latchkey.WithWatchdogTimeout(campaignLease), latchkey.WithUnlockTimeout(500*time.Millisecond))
		t.Cleanup(func() {
			_ = ms[i].Close()
			_ = rdb.Close()
		})
	}
	return multilock.NewRed(rlocks("r", ms...)...)
}

// worker takes the lock again and again.
func (c *campaign) worker(ctx context.Context, w int) {
	l := c.lock(c.t)
	r := rand.New(rand.NewPCG(uint64(w), 3))
	for ctx.Err() == nil {
		var opts []latchkey.LockOption
		fixed := r.IntN(4) == 0
		if fixed {
			opts = append(opts, latchkey.Lease(time.Duration(100+r.IntN(1000))*time.Millisecond))
		}
		h, err := l.Lock(ctx, opts...)
		if err != nil {
			continue
		}
		c.grants.Add(1)
		d := time.Duration(r.IntN(20)) * time.Millisecond
		if r.IntN(40) == 0 {
			d = 2 * campaignLease // so that leases are renewed, or lost
		}
		c.section(h, d)
		select {
		case <-h.Lost():
			c.losses.Add(1)
		default:
		}
		if fixed && r.IntN(2) == 0 {
			continue // dead: the lease ends it
		}
		_ = h.Unlock(ctx) // ends with its lease at the latest
	}
}

// section stays for d, or until the hold is no longer trusted. Two holds that
// are trusted at the same moment are a violation.
func (c *campaign) section(h *latchkey.Hold, d time.Duration) {
	prev := c.holder.Swap(h)
	if prev != nil && prev.Remaining() > 0 && h.Remaining() > 0 {
		c.violations.Add(1)
	}
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-h.Context().Done():
	}
	if now := c.holder.Load(); now != h && now != nil && h.Remaining() > 0 && now.Remaining() > 0 && h.Remaining() > 0 {
		c.violations.Add(1)
	}
	c.holder.CompareAndSwap(h, nil)
}

// pick returns a server without a fault, as long as no more than most have one.
func (c *campaign) pick(most int) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faulty) >= most {
		return 0, false
	}
	for {
		if i := rand.IntN(len(c.servers)); !c.faulty[i] {
			c.faulty[i] = true
			return i, true
		}
	}
}

func (c *campaign) well(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.faulty, i)
}

// driver causes one fault after another.
func (c *campaign) driver(ctx context.Context) {
	for k := rand.IntN(faultKinds); ctx.Err() == nil; k = (k + 1) % faultKinds {
		i, ok := c.pick(2)
		if !ok {
			pass(ctx, 50*time.Millisecond)
			continue
		}
		c.fault(ctx, i, k)
		c.well(i)
		pass(ctx, time.Duration(rand.IntN(100))*time.Millisecond)
	}
}

func (c *campaign) fault(ctx context.Context, i, kind int) {
	s, p := c.servers[i], c.proxies[i]
	d := time.Duration(100+rand.IntN(2000)) * time.Millisecond
	switch kind {
	case killed:
		s.Kill()
		// Whatever ends the test, no lease that it had granted is alive.
		time.Sleep(campaignLease + time.Duration(rand.IntN(500))*time.Millisecond)
		s.Restart(c.t)
	case frozen:
		s.Freeze()
		pass(ctx, d)
		s.Thaw()
	case cutOff:
		p.Mute(true)
		pass(ctx, d)
		p.Mute(false)
	case slowed:
		p.Delay(time.Duration(rand.IntN(100)) * time.Millisecond)
		pass(ctx, d)
		p.Delay(0)
	case reset:
		p.CutAll()
	}
	c.faults[kind].Add(1)
}

// starve sometimes cuts off a majority: then nobody gets the lock.
func (c *campaign) starve(ctx context.Context) {
	for {
		if !pass(ctx, 3*time.Second) {
			return
		}
		var cut []int
		for len(cut) < 3 {
			if i, ok := c.pick(5); ok {
				cut = append(cut, i)
				c.proxies[i].Mute(true)
			}
		}
		// What has been answered by then is on its way to its caller.
		pass(ctx, 200*time.Millisecond)
		before := c.grants.Load()
		pass(ctx, time.Second)
		if n := c.grants.Load() - before; n > 0 {
			c.violations.Add(n)
			c.t.Errorf("%d grants by a minority", n)
		}
		c.starved.Add(1)
		for _, i := range cut {
			c.proxies[i].Mute(false)
			c.well(i)
		}
	}
}

// pass waits for d. It returns false if ctx is done first.
func pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
