package latchkey_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A label is as old as the hold, lives as long as its lease, and is renewed
// with it.
func TestLabelLivesWithTheLease(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c, other := newClient(t, b.Redis), newClient(t, b.Client())
		start := time.Now()
		h, err := rlock.New(c, "job").Lock(t.Context(), latchkey.Label("me"))
		require.NoError(t, err)
		key := "latchkey_label:{job}:" + h.HolderID()
		time.Sleep(time.Hour + 5*time.Second) // between two renewals
		require.Equal(t, b.Redis.PTTL(t.Context(), "job").Val(), b.Redis.PTTL(t.Context(), key).Val())
		holder := inspect(t, other, "job").Holders[0]
		require.True(t, start.Equal(holder.Since), "%v", holder.Since)

		nested, err := rlock.New(c, "job").Lock(h.Context())
		require.NoError(t, err)
		holder = inspect(t, other, "job").Holders[0]
		require.True(t, start.Equal(holder.Since), "%v", holder.Since)
		require.Equal(t, "me", holder.Label, "one without a label does not take it away")
		require.Equal(t, 2, holder.Count)
		require.NoError(t, nested.Unlock(t.Context()))
		require.Equal(t, "me", inspect(t, other, "job").Holders[0].Label)

		b.Partition(b.Redis)
		time.Sleep(time.Minute)
		b.Heal(b.Redis)
		require.Empty(t, b.Redis.Keys(t.Context(), "*").Val(), "it expires with the lease")
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)
	})
}

func holderOf(info latchkey.Info, id string) (found latchkey.HolderInfo) {
	for _, h := range info.Holders {
		if h.ID == id {
			found = h
		}
	}
	return found
}

// labelled are the kinds of locks that have labels.
var labelled = map[string]func(c *latchkey.Client) latchkey.Locker{
	"rlock":    func(c *latchkey.Client) latchkey.Locker { return rlock.New(c, "job") },
	"fenced":   func(c *latchkey.Client) latchkey.Locker { return rlock.New(c, "job", rlock.Fenced()) },
	"fairlock": func(c *latchkey.Client) latchkey.Locker { return fairlock.New(c, "job") },
	"read":     func(c *latchkey.Client) latchkey.Locker { return rwlock.New(c, "job").ReadLock() },
	"write":    func(c *latchkey.Client) latchkey.Locker { return rwlock.New(c, "job").WriteLock() },
	"group":    func(c *latchkey.Client) latchkey.Locker { return multilock.NewGroup(c, "job", "a", "b") },
	"all":      func(c *latchkey.Client) latchkey.Locker { return multilock.New(rlock.New(c, "job")) },
}

// A label is removed with the last hold, even if it was set by a nested hold
// that nobody knows of.
func TestLabelGoesWithTheHold(t *testing.T) {
	for name, lock := range labelled {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
				ctx := t.Context()
				labels := func() []string { return b.Redis.Keys(ctx, "latchkey_label:*").Val() }
				conn := b.Client()
				l := lock(newClient(t, conn))
				outer, err := l.Lock(ctx)
				require.NoError(t, err)
				swallowed := false
				b.Link(conn).OnCommand(func(args []string) redistest.Act {
					if !swallowed && strings.Contains(strings.Join(args, " "), "latchkey_label:") {
						swallowed = true
						return redistest.Swallow
					}
					return redistest.Pass
				})
				soon, cancel := context.WithTimeout(outer.Context(), 50*time.Millisecond)
				defer cancel()
				_, err = l.TryLock(soon, latchkey.Label("me"))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				time.Sleep(10 * time.Second)
				require.NoError(t, outer.Unlock(ctx))
				require.Empty(t, labels())
			})
		})
	}
}

// So is the label of a permit, whichever way the permit is given back, and even
// if the label is still being written when its caller gives up.
func TestLabelGoesWithThePermit(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ctx, conn := t.Context(), b.Client()
		c := latchkey.New(conn)
		s, labels := permitsemaphore.New(c, "slots"), func() []string { return b.Redis.Keys(ctx, "latchkey_label:*").Val() }
		require.NoError(t, s.SetPermits(ctx, 5))
		p, err := s.Acquire(ctx, latchkey.Label("me"))
		require.NoError(t, err)
		require.Len(t, labels(), 1)
		require.NoError(t, s.Release(ctx, p.ID()))
		require.Empty(t, labels(), "by its id")

		p, err = s.Acquire(ctx, latchkey.Label("me"))
		require.NoError(t, err)
		other := permitsemaphore.New(newClient(t, b.Client()), "slots")
		kept, err := s.Acquire(ctx, latchkey.Label("me"))
		require.NoError(t, err)
		n, err := other.TryRelease(ctx, p.ID(), strings.Repeat("0", 32))
		require.NoError(t, err)
		require.Zero(t, n)
		require.Len(t, labels(), 2, "none is given back if one is unknown")
		require.NoError(t, other.Release(ctx, p.ID()))
		require.Len(t, labels(), 1, "by somebody else")
		require.ErrorIs(t, p.Release(ctx), latchkey.ErrNotHeld)
		_, err = other.Delete(ctx)
		require.NoError(t, err)
		require.Empty(t, labels(), "with the semaphore")
		require.ErrorIs(t, kept.Release(ctx), latchkey.ErrNotHeld)
		require.NoError(t, s.SetPermits(ctx, 5))

		b.Link(conn).OnCommand(func(args []string) redistest.Act {
			if strings.Contains(strings.Join(args, " "), "latchkey_label:") {
				b.Link(conn).OnCommand(nil)
				return redistest.Late
			}
			return redistest.Pass
		})
		b.Link(conn).HoldFor(200 * time.Millisecond)
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		p, err = s.Acquire(soon, latchkey.Label("me"))
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx))
		time.Sleep(time.Second)
		require.Empty(t, labels(), "of one who gave up")

		_, err = s.Acquire(ctx, latchkey.Label("me"))
		require.NoError(t, err)
		require.Len(t, labels(), 1)
		require.NoError(t, c.Close())
		require.Empty(t, labels(), "by Close")
	})
}

// Whichever of a holder's holds is extended, its label lasts as long as the
// lease.
func TestLabelOfAnExtendedHold(t *testing.T) {
	for _, tc := range []struct {
		name string
		lock func(c *latchkey.Client) latchkey.Locker
	}{
		{"rlock", func(c *latchkey.Client) latchkey.Locker { return rlock.New(c, "job") }},
		{"fairlock", func(c *latchkey.Client) latchkey.Locker { return fairlock.New(c, "job") }},
		{"read", func(c *latchkey.Client) latchkey.Locker { return rwlock.New(c, "job").ReadLock() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
				c, other := newClient(t, b.Redis), newClient(t, b.Client())
				ctx := t.Context()
				outer, err := tc.lock(c).Lock(ctx)
				require.NoError(t, err)
				nested, err := tc.lock(c).Lock(outer.Context(), latchkey.Label("me"))
				require.NoError(t, err)
				require.NoError(t, outer.Extend(ctx, time.Hour))
				require.Equal(t, b.Redis.PTTL(ctx, "job").Val(), b.Redis.PTTL(ctx, "latchkey_label:{job}:"+outer.HolderID()).Val())
				time.Sleep(30 * time.Minute)
				require.Equal(t, "me", inspect(t, other, "job").Holders[0].Label)
				require.NoError(t, nested.Unlock(ctx))
				require.NoError(t, outer.Extend(ctx, 2*time.Hour)) // which the label of the lock still is
				require.Equal(t, b.Redis.PTTL(ctx, "job").Val(), b.Redis.PTTL(ctx, "latchkey_label:{job}:"+outer.HolderID()).Val())
				require.NoError(t, outer.Unlock(ctx))
			})
		})
	}
}

// While a slot is being moved, a script may name only one key. A hold is not
// lost because its label has moved before it.
func TestLabelOnTheMove(t *testing.T) {
	cl := redistest.StartCluster(t, 2)
	rdb := cl.Client(t)
	c := newClient(t, rdb, latchkey.WithWatchdogTimeout(3*time.Second)) // longer than a busy machine keeps a renewal
	ctx := t.Context()
	h, err := rlock.New(c, "job").Lock(ctx, latchkey.Label("me"))
	require.NoError(t, err)
	slot := cl.Slot(t, "job")
	from := cl.Owner(t, slot)
	to := 1 - from
	cl.OpenSlot(t, slot, from, to)
	host, port, err := net.SplitHostPort(cl.Nodes[to].Addr)
	require.NoError(t, err)
	cl.Nodes[from].Do(t, "MIGRATE", host, port, "latchkey_label:{job}:"+h.HolderID(), "0", "4000")

	renewed := c.Stats().Renewals
	redistest.Until(t, "some renewals", func() bool { return c.Stats().Renewals >= renewed+2 })
	require.NoError(t, h.Context().Err())
	require.NoError(t, h.Extend(ctx, time.Minute))
	require.Positive(t, rdb.PTTL(ctx, "job").Val()-30*time.Second)
	require.NoError(t, h.Unlock(ctx))
	require.Zero(t, rdb.Exists(ctx, "job").Val())
	require.Zero(t, rdb.Exists(ctx, "latchkey_label:{job}:"+h.HolderID()).Val())
	cl.MoveSlot(t, slot, from, to)
}

// The label of a permit exists for as long as the permit, for all clients.
func TestLabelOfAPermit(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c, other := newClient(t, b.Redis), newClient(t, b.Client())
		ctx := t.Context()
		s := permitsemaphore.New(c, "slots")
		require.NoError(t, s.SetPermits(ctx, 5))
		sent := b.Commands("evalsha") + b.Commands("eval")
		plain, err := s.Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, plain.Release(ctx))
		require.LessOrEqual(t, b.Commands("evalsha")+b.Commands("eval")-sent, int64(4), "each at most twice, the first time")

		start := time.Now()
		permits, err := s.AcquireN(ctx, 2, latchkey.Label("me"))
		require.NoError(t, err)
		short, err := s.Acquire(ctx, latchkey.Label("short"), latchkey.Lease(time.Hour))
		require.NoError(t, err)
		const later = 30*time.Minute + 5*time.Second // between two renewals
		time.Sleep(later)
		info := inspect(t, other, "slots")
		require.Len(t, info.Holders, 3)
		for _, h := range info.Holders {
			key := "latchkey_label:{slots}:" + h.ID
			require.True(t, start.Equal(h.Since), "%v", h.Since)
			require.Equal(t, host(t), h.Host)
			if h.ID == short.ID() {
				require.Equal(t, "short", h.Label)
				require.Equal(t, time.Hour-later, b.Redis.PTTL(ctx, key).Val())
				continue
			}
			require.Equal(t, "me", h.Label)
			require.Equal(t, h.Lease, b.Redis.PTTL(ctx, key).Val())
		}
		require.NoError(t, short.Extend(ctx, 2*time.Hour))
		require.Equal(t, 2*time.Hour, b.Redis.PTTL(ctx, "latchkey_label:{slots}:"+short.ID()).Val())

		others := permitsemaphore.New(other, "slots")
		for by, d := range map[*permitsemaphore.Semaphore]time.Duration{s: 3 * time.Hour, others: time.Hour} {
			updated, err := by.UpdateLease(ctx, short.ID(), d)
			require.NoError(t, err)
			require.True(t, updated)
			require.Equal(t, d, b.Redis.PTTL(ctx, "latchkey_label:{slots}:"+short.ID()).Val(), "another lease")
		}
		require.Equal(t, "short", holderOf(inspect(t, other, "slots"), short.ID()).Label)
		for _, lease := range []time.Duration{4 * time.Hour, time.Minute} {
			extended, err := others.ExtendLease(ctx, short.ID(), lease)
			require.NoError(t, err)
			require.True(t, extended)
			require.Equal(t, 4*time.Hour, b.Redis.PTTL(ctx, "latchkey_label:{slots}:"+short.ID()).Val())
		}
		require.Equal(t, 4*time.Hour, holderOf(inspect(t, other, "slots"), short.ID()).Lease, "never shorter")
		for _, id := range []string{"", "x", strings.Repeat("0", 32)} {
			extended, err := others.ExtendLease(ctx, id, time.Hour)
			require.NoError(t, err)
			require.False(t, extended)
		}

		require.NoError(t, permits[0].Release(ctx))
		require.Zero(t, b.Redis.Exists(ctx, "latchkey_label:{slots}:"+permits[0].ID()).Val())
		require.NoError(t, others.Release(ctx, permits[1].ID())) // by somebody who knows nothing of a label
		require.Zero(t, b.Redis.Exists(ctx, "latchkey_label:{slots}:"+permits[1].ID()).Val())
		require.NoError(t, short.Release(ctx))
	})
}
