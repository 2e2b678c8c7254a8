package rwlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A room is what the lock protects. It knows who is inside.
type room struct {
	mu               sync.Mutex
	readers, writers int
	together         int // the most readers at a time
	reads, writes    int
	clashes          int
}

// enter records somebody inside until leave is called.
func (r *room) enter(write bool) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writers > 0 || write && r.readers > 0 {
		r.clashes++
	}
	who, done := &r.readers, &r.reads
	if write {
		who, done = &r.writers, &r.writes
	}
	*who++
	r.together = max(r.together, r.readers)
	return func() {
		r.mu.Lock()
		*who--
		*done++
		r.mu.Unlock()
	}
}

// crowd is 64 goroutines on 8 clients that use one lock in all ways.
type crowd struct {
	room    room
	expired atomic.Int64 // holds that were left to their lease
	given   atomic.Int64 // waits that were given up
	pause   func()       // what is done inside
	lease   time.Duration
	// lasts keeps who was left to the lease inside until the hold is lost.
	lasts bool
}

func (c *crowd) run(t *testing.T, client func() *latchkey.Client, rounds int) {
	var wg sync.WaitGroup
	for range 8 {
		rw := rwlock.New(client(), "a", rwlock.WriterPreference(100*time.Millisecond))
		for range 8 {
			wg.Go(func() {
				for range rounds {
					if err := c.round(t, rw); !assert.NoError(t, err) {
						return
					}
				}
			})
		}
	}
	wg.Wait()
	require.Zero(t, c.room.clashes, "a writer was not alone")
	require.Greater(t, c.room.together, 1, "no two readers were seen together")
	require.Positive(t, c.room.writes)
	require.Positive(t, c.expired.Load(), "no lease ended")
	require.Positive(t, c.given.Load(), "nobody gave up")
	t.Logf("%d reads, up to %d together, %d writes; %d leases ended, %d gave up",
		c.room.reads, c.room.together, c.room.writes, c.expired.Load(), c.given.Load())
}

func (c *crowd) round(t *testing.T, rw *rwlock.RWLock) error {
	l, write := rw.ReadLock(), rand.IntN(5) == 0
	if write {
		l = rw.WriteLock()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var opts []latchkey.LockOption
	abandon := false
	switch rand.IntN(12) {
	case 0:
		opts = append(opts, latchkey.Lease(c.lease))
		abandon = true
	case 1:
		opts = append(opts, latchkey.Wait(time.Duration(rand.IntN(20))*time.Millisecond))
	case 2:
		timer := time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, cancel)
		defer timer.Stop()
	}
	h, err := l.Lock(ctx, opts...)
	if errors.Is(err, latchkey.ErrNotAcquired) || errors.Is(err, context.Canceled) {
		c.given.Add(1)
		return nil
	}
	if abandon && errors.Is(err, latchkey.ErrLeaseLost) {
		c.expired.Add(1) // before the answer came, on a busy machine
		return nil
	}
	if err != nil {
		return err
	}
	leave := c.room.enter(write)
	c.pause()
	if rand.IntN(4) == 0 && !abandon {
		// Once more, or from writing to reading; it may be cancelled.
		if nested, err := rw.ReadLock().Lock(h.Context()); err == nil {
			c.pause()
			err = nested.Unlock(ctx)
			if err != nil {
				return err
			}
		} else if ctx.Err() == nil {
			return err
		}
	}
	if write && !abandon && rand.IntN(4) == 0 && ctx.Err() == nil {
		leave()
		leave = c.room.enter(false)
		if h, err = rw.Downgrade(t.Context(), h); err != nil {
			return err
		}
		c.pause()
	}
	if abandon {
		c.expired.Add(1)
		if c.lasts {
			<-h.Lost()
		}
		leave()
		return nil
	}
	leave()
	return h.Unlock(ctx)
}

// TestStressFakeTime leaves some holds to their leases. Their holders stay
// inside until they are told of the end, and nobody else is let in before.
func TestStressFakeTime(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := &crowd{
			pause: func() { time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond) },
			lease: 100 * time.Millisecond, lasts: true,
		}
		c.run(b.T, func() *latchkey.Client { return b.client() }, redistest.Many(12, 4))
		b.Advance(time.Second)
		b.empty()
	})
}

// TestStress is the same on a real server. There a holder that is left to its
// lease leaves, because no machine is exactly on time.
func TestStress(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := &crowd{
		pause: func() { time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond) },
		lease: 30 * time.Millisecond,
	}
	var clients []*latchkey.Client
	rounds := 25
	if testing.Short() {
		rounds = 10
	}
	c.run(t, func() *latchkey.Client {
		cl := latchkey.New(redistest.User(t, s.Client(t)))
		t.Cleanup(func() { _ = cl.Close() })
		clients = append(clients, cl)
		return cl
	}, rounds)
	for _, cl := range clients {
		t.Logf("%+v", cl.Stats())
		require.NoError(t, cl.Close())
	}
	rdb := s.Client(t)
	redistest.Until(t, "the leases to end", func() bool { return len(rdb.Keys(t.Context(), "*").Val()) == 0 })
}

// RW-09: two writers that take turns never wait for a recheck.
func TestTwoWritersTakeTurns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var wg sync.WaitGroup
	inside := 0 // plain: the race detector watches it too
	for range 2 {
		c := latchkey.New(redistest.User(t, s.Client(t)))
		defer c.Close()
		l := rwlock.New(c, "a").WriteLock()
		wg.Go(func() {
			for range 500 {
				start := time.Now()
				h, err := l.Lock(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				assert.Less(t, time.Since(start), 2*time.Second)
				inside++
				assert.Equal(t, 1, inside)
				inside--
				assert.NoError(t, h.Unlock(t.Context()))
			}
		})
	}
	wg.Wait()
	require.Empty(t, s.Do(t, "KEYS", "*"))
}

// The keys of one lock are in one slot.
func TestCluster(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t, 3)
	rdb := cl.Client(t)
	c := latchkey.New(redistest.User(t, rdb), latchkey.WithWatchdogTimeout(600*time.Millisecond))
	defer c.Close()
	var holds []*latchkey.Hold
	for _, name := range []string{"a", "b", "c{x}", "d"} {
		rw := rwlock.New(c, name)
		w, err := rw.WriteLock().Lock(t.Context(), latchkey.Label("me"))
		require.NoError(t, err)
		r, err := rw.Downgrade(t.Context(), w, latchkey.Label("me"))
		require.NoError(t, err)
		r2, err := rw.ReadLock().Lock(t.Context())
		require.NoError(t, err)
		holds = append(holds, r, r2)
	}
	n := c.Stats().Renewals
	redistest.Until(t, "renewals", func() bool { return c.Stats().Renewals >= n+32 })
	for _, h := range holds {
		require.NoError(t, h.Unlock(t.Context()))
	}
	err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		assert.Empty(t, node.Keys(ctx, "*").Val())
		return nil
	})
	require.NoError(t, err)

	_, err = rwlock.New(c, "a{b").ReadLock().Lock(t.Context())
	require.ErrorContains(t, err, "hash tag")
}
