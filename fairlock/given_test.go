package fairlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// between runs f with a lock that one client holds and another waits for, for so
// long; f is to unlock.
func between(t *testing.T, waits time.Duration, as func(context.Context) context.Context, opts []latchkey.LockOption, f func(*pair)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		holder, waiter := newClient(t, b.Client()), newClient(t, b.Client())
		h := must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		ctx := as(t.Context())
		got := later(func() (*latchkey.Hold, error) { return fairlock.New(waiter, "f").Lock(ctx, opts...) })
		synctest.Wait()
		b.Advance(waits)
		f(&pair{t, b, h, got, waiter, ctx})
	})
}

type pair struct {
	*testing.T
	b      *redistest.Env
	h      *latchkey.Hold // of the one
	got    <-chan outcome // of the other
	waiter *latchkey.Client
	ctx    context.Context // with which it waits
}

func anew(ctx context.Context) context.Context { return ctx }

// A waiter of another client is given the lock by the one who gives it back, and
// need not ask.
func TestGivenToAnotherClient(t *testing.T) {
	for _, waits := range []time.Duration{50 * time.Millisecond, 4900 * time.Millisecond, time.Hour} {
		t.Run(waits.String(), func(t *testing.T) {
			between(t, waits, anew, nil, func(t *pair) {
				b, h, got := t.b, t.h, t.got
				before := b.Commands("evalsha")
				unlock(t, h)
				o := <-got
				require.NoError(t, o.err)
				if waits < time.Second { // else a renewal may be due
					require.Equal(t, before+1, b.Commands("evalsha"), "the unlock, and nothing else")
					require.LessOrEqual(t, b.Redis.PTTL(t.Context(), "f").Val(), 15*time.Second, "a short lease, until the watchdog comes")
				}
				require.Equal(t, map[string]string{o.hold.HolderID(): "1"}, b.Redis.HGetAll(t.Context(), "f").Val())
				require.Empty(t, queued(t, b.Redis, "f"))

				remaining := o.hold.Remaining()
				require.LessOrEqual(t, remaining, b.Redis.PTTL(t.Context(), "f").Val(), "believed in for longer than Redis keeps it")
				require.Greater(t, remaining, 2*time.Second)
				b.Advance(time.Hour)
				require.Greater(t, o.hold.Remaining(), 15*time.Second)
				unlock(t, o.hold)
				require.Empty(t, b.Redis.Keys(t.Context(), "*").Val())
			})
		})
	}
}

// What it asks for beyond the lock, it asks for itself.
func TestGivenWithALeaseOfItsOwn(t *testing.T) {
	between(t, time.Second, anew, []latchkey.LockOption{latchkey.Lease(time.Minute)},
		func(t *pair) {
			b, h, got := t.b, t.h, t.got
			unlock(t, h)
			o := <-got
			require.NoError(t, o.err)
			require.InDelta(t, 60, b.Redis.PTTL(t.Context(), "f").Val().Seconds(), 1)
			unlock(t, o.hold)
		})
}

// A holder that comes again could take an old message for a new one: it asks.
func TestGivenToAHolderThatComesAgain(t *testing.T) {
	between(t, time.Second, latchkey.WithHolder, nil, func(t *pair) {
		b, h, got, waiter, ctx := t.b, t.h, t.got, t.waiter, t.ctx
		id := h.HolderID()
		unlock(t, h)
		o := <-got
		require.NoError(t, o.err)
		mine := o.hold.HolderID()
		unlock(t, o.hold)

		b.Redis.HSet(t.Context(), "f", id, 1) // somebody else has it now
		b.Redis.PExpire(t.Context(), "f", time.Minute)
		again := later(func() (*latchkey.Hold, error) { return fairlock.New(waiter, "f").Lock(ctx) })
		b.Advance(time.Second)
		number := mine[len(waiter.ID())+1:]
		b.Redis.Publish(t.Context(), channelOf("f")+":"+waiter.ID(), "+"+number+" 15000")
		b.Advance(time.Second)
		require.Empty(t, again, "it believed a message that was not for this time")
		b.Redis.Del(t.Context(), "f")
		b.Redis.Publish(t.Context(), channelOf("f")+":"+waiter.ID(), "0")
		o = <-again
		require.NoError(t, o.err)
		unlock(t, o.hold)
	})
}

// Of a client that dies as it is given the lock, the next one hears within the
// short lease.
func TestGivenToADeadClient(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		conn := b.Client()
		holder, dead, live := newClient(t, b.Client()), newClient(t, conn), newClient(t, b.Client())
		h := must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		gone := later(func() (*latchkey.Hold, error) { return fairlock.New(dead, "f").Lock(ctx) })
		synctest.Wait()
		got := later(func() (*latchkey.Hold, error) { return fairlock.New(live, "f").Lock(t.Context()) })
		b.Advance(time.Minute)
		b.Partition(conn)
		died := time.Now()
		unlock(t, h)
		o := <-got
		require.NoError(t, o.err)
		require.LessOrEqual(t, o.at.Sub(died), 15*time.Second+5*time.Second)
		cancel()
		require.Error(t, (<-gone).err)
		unlock(t, o.hold)
		require.Empty(t, queued(t, b.Redis, "f"))
	})
}

// Messages that nobody has sent who gave the lock back make nobody a holder for
// good: the watchdog asks.
func TestForgedGift(t *testing.T) {
	between(t, time.Second, anew, nil, func(t *pair) {
		b, h, got, waiter := t.b, t.h, t.got, t.waiter
		client := channelOf("f") + ":" + waiter.ID()
		for _, m := range []string{"", "+", "+ ", "+x 1", "+1", "+1 x", "+99999999999999999999 15000", "+1 -1", "1", "+999 15000"} {
			b.Redis.Publish(t.Context(), client, m)
		}
		b.Advance(time.Second)
		require.Empty(t, got)
		unlock(t, h)
		o := <-got
		require.NoError(t, o.err)
		unlock(t, o.hold)
	})
}

// Replicas have not confirmed what was given by another client, so it is asked
// for; here there are none.
func TestGivenWithoutReplicas(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	holder, waiter := newClient(t, rdb), newClient(t, s.Client(t), latchkey.WithReplicaAck(1, 50*time.Millisecond))
	h := must(t)(fairlock.New(holder, "f").Lock(t.Context()))
	got := later(func() (*latchkey.Hold, error) { return fairlock.New(waiter, "f").Lock(t.Context()) })
	redistest.Until(t, "the place", func() bool { return len(queued(t, rdb, "f")) == 1 })
	redistest.Until(t, "it to listen", func() bool { return waiter.Stats().Subscriptions >= 2 })
	time.Sleep(200 * time.Millisecond) // until nothing but a release makes it ask
	unlock(t, h)
	o := <-got
	require.ErrorIs(t, o.err, latchkey.ErrNotReplicated)
	nothing(t, rdb)
}
