package fairlock_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is what the scripts have
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

// between runs f with a lock that one client holds and for which another has
// waited for the given time. f must unlock it.
func between(t *testing.T, waits time.Duration, as func(context.Context) context.Context, opts []latchkey.LockOption, f func(*pair)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		holder, waiter := newClient(t, b.Client()), newClient(t, b.Client())
		h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		ctx := as(t.Context())
		got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(waiter, "f").Lock(ctx, opts...) })
		synctest.Wait()
		b.Advance(waits)
		f(&pair{t, b, h, got, waiter, ctx})
	})
}

type pair struct {
	*testing.T
	b      *redistest.Env
	h      *latchkey.Hold          // of the one
	got    <-chan locktest.Outcome // of the other
	waiter *latchkey.Client
	ctx    context.Context // with which it waits
}

func anew(ctx context.Context) context.Context { return ctx }

// A release grants the lock to a waiter of another client, which need not ask.
func TestGivenToAnotherClient(t *testing.T) {
	for _, waits := range []time.Duration{50 * time.Millisecond, 4900 * time.Millisecond, time.Duration(redistest.Many(60, 10)) * time.Minute} {
		t.Run(waits.String(), func(t *testing.T) {
			between(t, waits, anew, nil, func(t *pair) {
				b, h, got := t.b, t.h, t.got
				before := b.Commands("evalsha")
				unlock(t, h)
				o := <-got
				require.NoError(t, o.Err)
				if waits < time.Second { // else a renewal may be due
					require.Equal(t, before+1, b.Commands("evalsha"), "the unlock, and nothing else")
					require.LessOrEqual(t, b.Redis.PTTL(t.Context(), "f").Val(), 15*time.Second, "a short lease, until the watchdog comes")
				}
				require.Equal(t, map[string]string{o.Hold.HolderID(): "1"}, b.Redis.HGetAll(t.Context(), "f").Val())
				require.Empty(t, queued(t, b.Redis, "f"))

				remaining := o.Hold.Remaining()
				require.LessOrEqual(t, remaining, b.Redis.PTTL(t.Context(), "f").Val(), "believed in for longer than Redis keeps it")
				require.Greater(t, remaining, 2*time.Second)
				b.Advance(time.Duration(redistest.Many(60, 6)) * time.Minute)
				require.Greater(t, o.Hold.Remaining(), 15*time.Second)
				unlock(t, o.Hold)
				require.Empty(t, b.Redis.Keys(t.Context(), "*").Val())
			})
		})
	}
}

// A waiter that is granted a longer lease than that of its renewals learns of a
// loss as soon as any other holder.
func TestGivenHoldHearsOfItsLoss(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		const lease = 3 * time.Second
		holder, waiter := newClient(t, b.Client()), newClient(t, b.Client(), latchkey.WithWatchdogTimeout(lease))
		h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(waiter, "f").Lock(t.Context()) })
		synctest.Wait()
		b.Advance(time.Second)
		unlock(t, h)
		o := <-got
		require.NoError(t, o.Err)
		require.Greater(t, o.Hold.Remaining(), 3*lease)
		require.NoError(t, b.Redis.Del(t.Context(), "f").Err())
		b.Advance(lease / 3)
		select {
		case <-o.Hold.Lost():
		default:
			require.Fail(t, "it does not know")
		}
	})
}

// Only a holder can grant the lock. A client that has lost it merely announces
// that it is free, because the next waiter may have given up and lacked the
// right to say so.
func TestNotGivenByALoser(t *testing.T) {
	between(t, time.Second, anew, nil, func(t *pair) {
		require.NoError(t, t.b.Redis.Del(t.Context(), "f").Err())
		before := t.b.Commands("evalsha")
		require.ErrorIs(t, t.h.Unlock(t.Context()), latchkey.ErrLeaseLost)
		o := <-t.got
		require.NoError(t, o.Err)
		require.Equal(t, before+2, t.b.Commands("evalsha"), "the unlock, and the next one's question")
		unlock(t, o.Hold)
	})
}

// A waiter that asks for more than the lock sends the request itself.
func TestGivenWithALeaseOfItsOwn(t *testing.T) {
	between(t, time.Second, anew, []latchkey.LockOption{latchkey.Lease(time.Minute)},
		func(t *pair) {
			b, h, got := t.b, t.h, t.got
			unlock(t, h)
			o := <-got
			require.NoError(t, o.Err)
			require.InDelta(t, 60, b.Redis.PTTL(t.Context(), "f").Val().Seconds(), 1)
			unlock(t, o.Hold)
		})
}

// A granted lock stays closed no longer than its waiter asked for.
func TestGivenWithAShortLease(t *testing.T) {
	for i, opt := range []latchkey.LockOption{latchkey.Lease(time.Second), latchkey.MaxHold(time.Second)} {
		for _, as := range []func(context.Context) context.Context{anew, latchkey.WithHolder} {
			between(t, time.Second, as, []latchkey.LockOption{opt}, func(t *pair) {
				b, h, got := t.b, t.h, t.got
				before := b.Commands("evalsha")
				unlock(t, h)
				o := <-got
				require.NoError(t, o.Err)
				require.Equal(t, before+2, b.Commands("evalsha"), "the unlock, and one question: it has heard of the longer lease")
				require.LessOrEqual(t, b.Redis.PTTL(t.Context(), "f").Val(), time.Second)
				require.NoError(t, o.Hold.Extend(t.Context(), time.Minute))
				extended := []float64{60, 1}[i] // no longer than MaxHold lets it
				require.InDelta(t, extended, b.Redis.PTTL(t.Context(), "f").Val().Seconds(), 1)
				unlock(t, o.Hold)
				require.Empty(t, b.Redis.Keys(t.Context(), "*").Val())
			})
		}
	}
}

// The same if the message is lost, or if the waiter asks before the message
// arrives.
func TestGivenWithAShortLeaseUnheard(t *testing.T) {
	between(t, time.Second, anew, []latchkey.LockOption{latchkey.Lease(time.Second)}, func(t *pair) {
		queue := queued(t, t.b.Redis, "f")
		require.Len(t, queue, 1)
		t.b.Mini.Del("f") // what the release of a third client does, but for the message
		require.NoError(t, t.b.Redis.HSet(t.Context(), "f", queue[0], 1).Err())
		require.NoError(t, t.b.Redis.PExpire(t.Context(), "f", 15*time.Second).Err())
		require.NoError(t, t.b.Redis.LPop(t.Context(), queueKey("f")).Err())
		for len(t.got) == 0 { // it looks by itself
			t.b.Advance(100 * time.Millisecond)
		}
		o := <-t.got
		require.NoError(t, o.Err)
		left := t.b.Redis.PTTL(t.Context(), "f").Val()
		require.LessOrEqual(t, left, time.Second)
		require.Positive(t, left)
		before := t.b.Commands("evalsha")
		unlock(t, o.Hold)
		synctest.Wait()
		require.Equal(t, before+1, t.b.Commands("evalsha"), "the unlock, and nothing else: all that was asked was answered")
	})
}

// A holder that comes again could take an old message for a new one, so it
// asks.
func TestGivenToAHolderThatComesAgain(t *testing.T) {
	between(t, time.Second, latchkey.WithHolder, nil, func(t *pair) {
		b, h, got, waiter, ctx := t.b, t.h, t.got, t.waiter, t.ctx
		id := h.HolderID()
		unlock(t, h)
		o := <-got
		require.NoError(t, o.Err)
		mine := o.Hold.HolderID()
		unlock(t, o.Hold)

		b.Redis.HSet(t.Context(), "f", id, 1) // somebody else has it now
		b.Redis.PExpire(t.Context(), "f", time.Minute)
		again := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(waiter, "f").Lock(ctx) })
		b.Advance(time.Second)
		number := mine[len(waiter.ID())+1:]
		proof := strings.SplitN(b.Redis.HGet(t.Context(), clientsKey("f"), waiter.ID()).Val(), " ", 2)[1]
		b.Redis.Publish(t.Context(), channelOf("f")+":"+waiter.ID(), tagged(number+" 15000 1", proof))
		b.Advance(time.Second)
		require.Empty(t, again, "it believed a message that was not for this time")
		b.Redis.Del(t.Context(), "f")
		b.Redis.Publish(t.Context(), channelOf("f")+":"+waiter.ID(), "0")
		o = <-again
		require.NoError(t, o.Err)
		unlock(t, o.Hold)
	})
}

// If a client dies as it is granted the lock, the next waiter learns of it
// within the short lease.
func TestGivenToADeadClient(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		conn := b.Client()
		holder, dead, live := newClient(t, b.Client()), newClient(t, conn), newClient(t, b.Client())
		h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		gone := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(dead, "f").Lock(ctx) })
		synctest.Wait()
		got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(live, "f").Lock(t.Context()) })
		b.Advance(time.Minute)
		b.Partition(conn)
		died := time.Now()
		unlock(t, h)
		o := <-got
		require.NoError(t, o.Err)
		require.LessOrEqual(t, o.At.Sub(died), 15*time.Second+5*time.Second)
		cancel()
		require.Error(t, (<-gone).Err)
		unlock(t, o.Hold)
		require.Empty(t, queued(t, b.Redis, "f"))
	})
}

// A client with the id of a client that died waiting is a different client.
// Grants to the dead client reach it, and it gives them back at once.
func TestGivenToTheDeadOfTheSameID(t *testing.T) {
	r := newRig(t)
	holder := newClient(t, r.direct)
	h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
	dead := r.client(t, latchkey.WithID("worker"))
	ctx, cancel := context.WithCancel(t.Context())
	gone := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(dead, "f").Lock(ctx) })
	waiting(t, dead, 1)
	r.OnCommand(func([]string) redistest.Act { return redistest.RefuseRST })
	r.CutAll()
	channel := channelOf("f") + ":worker"
	listeners := func(n int64) func() bool {
		return func() bool { return r.direct.PubSubNumSub(t.Context(), channel).Val()[channel] == n }
	}
	redistest.Until(t, "the dead to be deaf", listeners(0))

	born := newClient(t, r.direct, latchkey.WithID("worker"))
	got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(born, "f").Lock(t.Context()) })
	waiting(t, born, 1)
	redistest.Until(t, "a listener", listeners(1))
	require.Len(t, queued(t, r.direct, "f"), 2)
	unlock(t, h)                                // to the dead
	o := locktest.Within(t, got, 4*time.Second) // its next question is due after 5 s
	require.NoError(t, o.Err)
	unlock(t, o.Hold)
	cancel()
	require.Error(t, (<-gone).Err)
	nothing(t, r.direct)
}

// tagged returns the grant message for a client with that proof.
func tagged(gift, proof string) string {
	return fmt.Sprintf("+%s %x", gift, sha1.Sum([]byte("f "+gift+" "+proof)))
}

// A message from somebody who knows everything except the contents of the keys
// grants nothing and costs at most one request.
func TestForgedGift(t *testing.T) {
	between(t, time.Second, anew, nil, func(t *pair) {
		b, h, got, waiter := t.b, t.h, t.got, t.waiter
		client := channelOf("f") + ":" + waiter.ID()
		place := queued(t, b.Redis, "f")[0]
		gift := strings.TrimPrefix(place, waiter.ID()+":") + fmt.Sprintf(" 15000 %d", time.Now().UnixMilli())
		proof := strings.SplitN(b.Redis.HGet(t.Context(), clientsKey("f"), waiter.ID()).Val(), " ", 2)[1]
		require.Len(t, proof, 26)
		before := b.Commands("evalsha")
		forged := []string{
			"", "+", "+ ", "+  ", "+x 1", "+1", "+1 x", "+99999999999999999999 15000 1", "+1 -1", "1", "+999 15000", "+999 15000 1",
			"+" + gift, "+" + gift + " ", "+" + gift + " " + strings.Repeat("0", 40), "+" + gift + " " + proof,
			tagged(gift, ""), tagged(gift, strings.ToLower(proof)), tagged(gift+" ", proof) + " ",
			strings.ToUpper(tagged(gift, proof)), tagged("999 15000 1", proof), tagged("x 15000 1", proof),
			tagged(strings.Replace(gift, "15000", "15001 1 1", 1), proof), tagged(strings.TrimPrefix(place, waiter.ID()+":")+" 15000 1", proof),
			fmt.Sprintf("+%s %x", gift, sha1.Sum([]byte("another "+gift+" "+proof))),
		}
		for _, m := range forged {
			b.Redis.Publish(t.Context(), client, m)
			b.Advance(time.Millisecond)
			require.Empty(t, got, "%q", m)
		}
		require.LessOrEqual(t, b.Commands("evalsha")-before, int64(len(forged)))
		require.Equal(t, map[string]string{h.HolderID(): "1"}, b.Redis.HGetAll(t.Context(), "f").Val())
		unlock(t, h)
		o := <-got
		require.NoError(t, o.Err)
		unlock(t, o.Hold)
		require.Empty(t, b.Redis.Keys(t.Context(), "*").Val())
	})
	// Else the test would show nothing: the right tag is believed.
	between(t, time.Second, anew, nil, func(t *pair) {
		place := queued(t, t.b.Redis, "f")[0]
		proof := strings.SplitN(t.b.Redis.HGet(t.Context(), clientsKey("f"), t.waiter.ID()).Val(), " ", 2)[1]
		gift := strings.TrimPrefix(place, t.waiter.ID()+":") + fmt.Sprintf(" 15000 %d", time.Now().UnixMilli())
		t.b.Redis.Publish(t.Context(), channelOf("f")+":"+t.waiter.ID(), tagged(gift, proof))
		o := <-t.got
		require.NoError(t, o.Err)
		unlock(t, t.h)
	})
}

// With WithReplicaAck a grant by another client is not confirmed by replicas,
// so the waiter asks. Here there are no replicas.
func TestGivenWithoutReplicas(t *testing.T) {
	s := redistest.Start(t)
	s.Allow(t, "wait")
	rdb := s.Client(t)
	holder, waiter := newClient(t, rdb), newClient(t, s.Client(t), latchkey.WithReplicaAck(1, 50*time.Millisecond))
	h := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
	got := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(waiter, "f").Lock(t.Context()) })
	redistest.Until(t, "the place", func() bool { return len(queued(t, rdb, "f")) == 1 })
	redistest.Until(t, "it to listen", func() bool { return waiter.Stats().Subscriptions >= 2 })
	time.Sleep(200 * time.Millisecond) // until nothing but a release makes it ask
	unlock(t, h)
	o := <-got
	require.ErrorIs(t, o.Err, latchkey.ErrNotReplicated)
	nothing(t, rdb)
}

// A place that was left behind is given up. A new place of the same holder, or
// the lock that it holds meanwhile, is not: a holder from a context may come
// again.
func TestStrayPlaceOfOneWhoComesAgain(t *testing.T) {
	for _, script := range []*lua.Script{lua.FairLockRelease, lua.FairLockLeave} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			holder, rdb := newClient(t, b.Client()), b.Client()
			c := newClient(t, rdb)
			ctx := latchkey.WithHolder(t.Context())
			h := locktest.Must(t)(fairlock.New(c, "other").Lock(ctx))
			id := h.HolderID()
			unlock(t, h)

			first := locktest.Must(t)(fairlock.New(holder, "f").Lock(t.Context()))
			require.NoError(t, b.Redis.RPush(t.Context(), queueKey("f"), id).Err())
			require.NoError(t, b.Redis.ZAdd(t.Context(), scoresKey("f"), redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: id}).Err())
			behind := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(c, "f").Lock(t.Context()) })
			b.Advance(time.Second)

			p := b.Link(rdb)
			p.HoldFor(300 * time.Millisecond)
			p.OnCommand(func(args []string) redistest.Act {
				if locktest.Runs(args, script) && slices.Contains(args, id) {
					return redistest.Late
				}
				return redistest.Pass
			})
			if script == lua.FairLockRelease {
				unlock(t, first) // to the one who is not there
			} else { // the one behind it asks, and learns whose turn it is
				require.EqualValues(t, 1, b.Redis.Del(t.Context(), "f").Val())
				b.Redis.Publish(t.Context(), "redisson_lock__channel:{f}:"+c.ID(), "0")
			}
			synctest.Wait()
			require.EqualValues(t, 1, p.Count(redistest.Late), "%s for him", script.Name)
			again := locktest.Later(func() (*latchkey.Hold, error) { return fairlock.New(c, "f").Lock(ctx) })
			for range 2 {
				var o locktest.Outcome
				select {
				case o = <-behind:
				case o = <-again:
				}
				require.NoError(t, o.Err)
				b.Advance(time.Second)
				require.Equal(t, map[string]string{o.Hold.HolderID(): "1"}, b.Redis.HGetAll(t.Context(), "f").Val())
				require.NoError(t, o.Hold.Context().Err())
				unlock(t, o.Hold)
			}
			require.Empty(t, b.Redis.Keys(t.Context(), "*").Val())
		})
	}
}
